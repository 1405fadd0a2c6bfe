"""Defaults, preset, config file and flags as one config; what comes later wins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import get_args

from pydantic import ValidationError

from figeval.errors import TrainError
from figeval.evaluation.training.published import row_of
from figeval.plugins import PluginManager
from figeval.training.config import TrainConfig
from figeval.training.presets import merged
from figeval.validation import first_problem
from figeval.yamlfile import read_mapping

NONE = "none"


def configured(file: Path | None, flags: Mapping[str, object], manager: PluginManager | None = None) -> TrainConfig:
    """The resolved config; of a preset it names the row.

    Raises:
        TrainError: an unknown key, a value that is not of its kind, or a preset that has no row for this.
        UnknownName: no such preset.
    """
    written = {} if file is None else read_mapping(file, TrainError)
    asked = merged(written, {name: typed(name, value) for name, value in flags.items()})
    if asked.get("preset") and asked.get("task") and asked.get("model"):
        row = row_of(str(asked["preset"]), str(asked["task"]), str(asked["model"]), manager)
        asked = merged(row.settings, asked, {"preset": row.full_name})
    return checked(asked, "" if file is None else f"{file}: ")


def checked(asked: Mapping[str, object], where: str = "") -> TrainConfig:
    """A config of these fields. Raises `TrainError` for the most telling mistake; `where` stands before it."""
    try:
        return TrainConfig.model_validate(asked)
    except ValidationError as error:
        raise TrainError(f"{where}{problem_of(error)}") from error


def typed(name: str, value: object) -> object:
    """`none` on the command line is None where a field may be: `--patience none`."""
    field = TrainConfig.model_fields.get(name)
    empty = value == NONE and field is not None and NoneType in get_args(field.annotation)
    return None if empty else value


def problem_of(error: ValidationError) -> str:
    """The most telling mistake, a flag that is missing named as such."""
    missing = [str(one["loc"][0]) for one in error.errors() if one["type"] == "missing"]
    return f"--{missing[0]} is missing" if missing else first_problem(error, TrainConfig)
