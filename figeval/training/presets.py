"""Hyper-parameters of published results: data that plugins bring, a row for each row of a table.

A `*.presets.yaml` has `presets:`, a list of tables; what its rows share stands above them. Values keep apart what is
printed (`config`) and what is not, but stands in the released code (`filled_in`). What cannot be a value is a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.resources.abc import Traversable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from figeval.errors import DuplicateName, TrainError, UnknownName, near
from figeval.plugins import PluginManager
from figeval.registry import Registry, fill
from figeval.training.config import TrainConfig
from figeval.validation import first_problem
from figeval.yamlfile import read_yaml

ENDING = ".presets.yaml"
SEE = "figeval ls presets"
OWN = frozenset({"task", "model", "output", "preset", "include_path"})  # the user's own
SENTENCES = ("as_released", "not_reproduced", "unknown")


class PublishedSettings(BaseModel):
    """What a publication and its code say of a training; a row's own values win over those of its table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    config: dict[str, Any] = Field({}, description="fields of TrainConfig, as printed")
    filled_in: dict[str, Any] = Field({}, description="fields that are not printed, as the released code has them")
    as_released: tuple[str, ...] = Field((), description="what the released code does otherwise")
    not_reproduced: tuple[str, ...] = Field((), description="what was done and is not done here")
    unknown: tuple[str, ...] = Field((), description="what is stated nowhere; figeval's defaults stand there")

    @field_validator("config", "filled_in")
    @classmethod
    def _are_fields(cls, values: dict[str, Any]) -> dict[str, Any]:
        known = set(TrainConfig.model_fields) - OWN
        for key in values:
            if key not in known:
                raise ValueError(f"{key!r} is nothing that a preset can set{near(key, known)}")
        if values.get("select_on") == "test":
            raise ValueError("a preset does not choose on test; say in not_reproduced that it was done")
        return values


class PresetRow(PublishedSettings):
    """One row of a table: a checkpoint, and the globs of other models to which it is the nearest one."""

    row: str
    model: str = Field(description="as the table calls it")
    checkpoint: str
    stands_for: tuple[str, ...] = ()


class PresetTable(PublishedSettings):
    """One table of a publication, under the name of a preset: paper, or released."""

    name: str
    table: str = Field(description="what the names of its rows begin with")
    source: str
    tasks: tuple[str, ...]
    rows: tuple[PresetRow, ...]


class PresetsFile(BaseModel):
    """A `*.presets.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    presets: tuple[PresetTable, ...]


@dataclass(frozen=True, slots=True)
class Preset:
    """A row with what it has of its table."""

    table: PresetTable
    own: PresetRow

    @property
    def full_name(self) -> str:
        """`paper:table7-bert`, as --preset takes it."""
        return f"{self.table.name}:{self.table.table}-{self.own.row}"

    @property
    def printed(self) -> dict[str, Any]:
        """Fields of TrainConfig whose values are published."""
        return merged(self.table.config, self.own.config)

    @property
    def settings(self) -> dict[str, Any]:
        """All fields of TrainConfig that it sets."""
        return merged(self.table.filled_in, self.own.filled_in, self.printed)

    def sentences(self, kind: str) -> list[str]:
        """What is said of it under one of SENTENCES, of the whole table first."""
        return [*getattr(self.table, kind), *getattr(self.own, kind)]

    def is_of(self, names: Sequence[str]) -> bool:
        """Whether a model of one of these names, in small letters, is this row's own."""
        return self.own.checkpoint.rpartition("/")[2].lower() in names

    def stands_for(self, names: Sequence[str]) -> bool:
        """Whether it is the nearest row for such a model."""
        return any(fnmatchcase(name, glob.lower()) for name in names for glob in self.own.stands_for)


def merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of which the later ones take precedence, for the options of a head one by one."""
    found: dict[str, Any] = {}
    for part in parts:
        options = [one["head_args"] for one in (found, part) if one.get("head_args")]
        found |= part
        if options and all(isinstance(one, Mapping) for one in options):  # others are refused with the whole config
            found["head_args"] = {name: value for one in options for name, value in one.items()}
    return found


@dataclass(slots=True)
class Presets:
    """The presets of all plugins, in order of registration."""

    registry: Registry[Preset] = field(default_factory=lambda: Registry("preset", SEE))

    def __iter__(self) -> Iterator[Preset]:
        return (entry.load() for entry in self.registry)

    def add(self, preset: Preset, *, owner: str) -> None:
        """Register a row under its full name."""
        self.registry.add(preset.full_name, preset, owner)

    def choose(self, name: str, task: str, models: Sequence[str]) -> Preset:
        """The row for a task and a model of these names; `name` is that of a preset, or names a row itself.

        Raises:
            UnknownName: there is no such preset, or it has no such row.
            TrainError: it has no row for the task, or none that is near to the model.
        """
        if ":" in name:
            return self.registry.get(name)
        of_name = [preset for preset in self if preset.table.name == name]
        if not of_name:
            raise UnknownName("preset", name, {preset.table.name for preset in self}, see=SEE)
        of_task = [preset for preset in of_name if task in preset.table.tasks]
        if not of_task:
            known = {task for preset in of_name for task in preset.table.tasks}
            raise TrainError(f"--preset {name} has nothing for {task}{near(task, known)}; name a row, see `{SEE}`")
        fitting = [preset for preset in of_task if preset.is_of(models)]
        fitting += [preset for preset in of_task if preset.stands_for(models)]
        if not fitting:
            rows = ", ".join(preset.full_name for preset in of_task)
            raise TrainError(f"--preset {name} has no row for {models[0]} on {task}; name one of {rows}")
        return fitting[0]


def read_presets(file: Traversable) -> Iterator[Preset]:
    """The rows of a file. Raises `TrainError` naming file and key for what TrainConfig would not take."""
    for table in read_yaml(file, PresetsFile, TrainError).presets:
        for row in table.rows:
            preset = Preset(table, row)
            try:
                TrainConfig.model_validate({**preset.settings, "task": "t", "model": "m", "output": "o"})
            except ValidationError as error:
                raise TrainError(f"{file}: {preset.full_name}: {first_problem(error, TrainConfig)}") from error
            yield preset


def load_presets(manager: PluginManager) -> Presets:
    """All presets of all plugins; a broken file is a problem of its plugin and does not hide the others."""
    presets = Presets()

    def add(file: Traversable, *, owner: str) -> None:
        for preset in read_presets(file):
            try:
                presets.add(preset, owner=owner)
            except DuplicateName as error:
                manager.problem(owner, str(error))

    presets.registry.prefer(fill(manager, "register_presets", add))
    return presets
