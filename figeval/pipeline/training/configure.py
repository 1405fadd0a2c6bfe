"""Defaults, preset, config file and flags as one config; what comes later wins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from figeval.errors import TrainError
from figeval.training.config import TrainConfig
from figeval.yamlfile import first_problem, read_mapping


def configured(file: Path | None, flags: Mapping[str, Any]) -> TrainConfig:
    """The resolved config.

    Raises:
        TrainError: an unknown key, or a value that is not of its kind.
    """
    written = {} if file is None else read_mapping(file, TrainError)
    try:
        return TrainConfig.model_validate({**written, **flags})
    except ValidationError as error:
        where = "" if file is None else f"{file}: "
        raise TrainError(f"{where}{problem_of(error)}") from error


def problem_of(error: ValidationError) -> str:
    """The most telling mistake, a flag that is missing named as such."""
    missing = [str(one["loc"][0]) for one in error.errors() if one["type"] == "missing"]
    return f"--{missing[0]} is missing" if missing else first_problem(error, TrainConfig)
