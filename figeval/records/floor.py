"""The floor of a trained model: a second model, trained with the same settings on a probe of the task.

A model that was trained with the query (the story, the premise) sees unfamiliar inputs when it is evaluated without.
Only a model that was trained on the options alone shows how much they give away. The floor is stored in the folder
`floor` of its model; one that was trained by hand (`figeval train --probe`) may be moved there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from figeval.errors import TrainError
from figeval.io.json_files import read_json
from figeval.records.seen import RESTORE, about_in, weights_in
from figeval.records.training import OPERATIONAL, record_file

FOLDER = "floor"
MAY_DIFFER = OPERATIONAL | {"probe"}  # settings of a model and its floor


def name_of(probe: str) -> str:
    """Return the name of a floor among the baselines of a task, e.g. `no_query_trained`."""
    return f"{probe}_trained"


@dataclass(frozen=True)
class Floor:
    """The floor in the folder of a trained model.

    Attributes:
        model: folder of the model.
        task: the task that both were trained on.
        probe: the probe of that task that the floor was trained on.
    """

    model: Path
    task: str
    probe: str

    @property
    def folder(self) -> Path:
        return self.model / FOLDER

    @property
    def name(self) -> str:
        """Name among the baselines of a task."""
        return name_of(self.probe)

    @cached_property
    def weights(self) -> str:
        """Digest of the floor's weights, which reads all of them."""
        return weights_in(self.folder)

    def check_weights(self) -> None:
        """Check that the weights are those that the training recorded; older records have none.

        Raises:
            TrainError: the weights were changed, so that their score would be that of another model.
        """
        if _record(self.folder).get("weights_sha256", self.weights) != self.weights:
            raise TrainError(f"the weights in {self.folder} are not those that were trained there; {RESTORE}")

    @property
    def differences(self) -> list[str]:
        """Settings that differ between the trainings of floor and model; empty if either is not recorded."""
        model_config, floor_config = (_config(folder) for folder in (self.model, self.folder))
        if not model_config or not floor_config:
            return []
        return [
            name
            for name in model_config
            if name not in MAY_DIFFER and name in floor_config and model_config[name] != floor_config[name]
        ]


def floor_in(model: Path) -> Floor | None:
    """Return the floor in the folder of a model, or None if there is none or its training is not complete.

    Raises:
        TrainError: a file in the folder of the floor is damaged.
    """
    about = about_in(model / FOLDER)
    # Before `figeval train --floor`, only the record of a training named its probe.
    probe = about.get("probe") or _config(model / FOLDER).get("probe")
    return Floor(model, str(about.get("task")), str(probe)) if about and probe else None


def _config(folder: Path) -> dict[str, Any]:
    """Return the settings of a finished training, empty if they are not recorded."""
    config: dict[str, Any] = _record(folder).get("config", {})
    return config


def _record(folder: Path) -> dict[str, Any]:
    """Return the record of a finished training, empty if there is none.

    Raises:
        TrainError: the record is damaged.
    """
    file = record_file(folder)
    if not file.is_file():
        return {}
    record = read_json(file, TrainError, cure=RESTORE)
    if not isinstance(record, dict) or not isinstance(record.get("config", {}), dict):
        raise TrainError(f"{file} is not the record of a training; {RESTORE}")
    return record
