"""Resolution of a training config from defaults, preset, config file and flags; later ones take precedence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import get_args

from pydantic import ValidationError

from figeval.errors import TrainError
from figeval.frontend import warn
from figeval.io.validation import first_problem
from figeval.io.yaml_files import read_mapping
from figeval.plugins import PluginManager
from figeval.records.training import REMOVED
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.presets import merged
from figeval.wings.training.published import row_of

NONE = "none"


def configured(file: Path | None, flags: Mapping[str, object], manager: PluginManager | None = None) -> TrainConfig:
    """Return the resolved config, whose `preset` is the full name of the preset's row.

    Raises:
        TrainError: An unknown key, a value of the wrong type, or a preset without a row for this task and model.
        UnknownName: There is no such preset.
    """
    written = {} if file is None else read_mapping(file, TrainError)
    for name in sorted(REMOVED & written.keys()):
        if written[name]:
            warn(f"{file}: {name} no longer has any effect; remove it")
    asked = merged(written, {name: typed(name, value) for name, value in flags.items()})
    if asked.get("preset") and asked.get("task") and asked.get("model"):
        row = row_of(str(asked["preset"]), str(asked["task"]), str(asked["model"]), manager)
        asked = merged(row.settings, asked, {"preset": row.full_name})
    return checked(asked, "" if file is None else f"{file}: ")


def checked(asked: Mapping[str, object], where: str = "") -> TrainConfig:
    """Return a validated config with these fields.

    Raises:
        TrainError: A field is missing or invalid; the message begins with `where`.
    """
    try:
        return TrainConfig.model_validate(asked)
    except ValidationError as error:
        missing = [str(one["loc"][0]) for one in error.errors() if one["type"] == "missing"]
        problem = f"--{missing[0]} is missing" if missing else first_problem(error, TrainConfig)
        raise TrainError(f"{where}{problem}") from error


def typed(name: str, value: object) -> object:
    """Return None if an optional field is given the text `none`, as in `--patience none`, else the value itself."""
    field = TrainConfig.model_fields.get(name)
    empty = value == NONE and field is not None and NoneType in get_args(field.annotation)
    return None if empty else value
