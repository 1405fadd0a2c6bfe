"""Presets: hyper-parameters of published results, which plugins provide as data, one row per row of a table.

A `*.presets.yaml` has a list of tables under `presets:`; a table's values hold for all its rows. Values that are
printed (`config`) are kept apart from those that only the released code has (`filled_in`). Facts that are not values
are sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from figeval import JSON, DuplicateName, Harness, PluginManager, Registry, Result, TrainError, UnknownName
from figeval.io.files import is_file
from figeval.io.json_files import JSONValue, read_json
from figeval.io.text import near
from figeval.io.validation import first_problem
from figeval.io.yaml_files import read_yaml
from figeval.records.seen import MODEL_FILE
from figeval.wings.training.config import TrainConfig

LIST_COMMAND = "figeval ls presets"
USER_FIELDS = frozenset({"task", "model", "output", "preset", "include_path"})  # set by the user, never by a preset
SENTENCES = ("as_released", "not_reproduced", "unknown")
HEADINGS = {
    "as_released": "what the released code does differently",
    "not_reproduced": "what is not reproduced here",
    "unknown": "what is not stated anywhere",
}


class PublishedSettings(BaseModel):
    """Facts about a training from its publication and code; a row's own values override those of its table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    config: dict[str, Any] = Field({}, description="fields of TrainConfig, as printed")
    filled_in: dict[str, Any] = Field({}, description="fields that are not printed, as the released code has them")
    as_released: tuple[str, ...] = Field((), description="what the released code does differently")
    not_reproduced: tuple[str, ...] = Field((), description="what is not reproduced here")
    unknown: tuple[str, ...] = Field((), description="what is not stated anywhere; figeval's defaults are used")

    @field_validator("config", "filled_in")
    @classmethod
    def _are_fields(cls, values: dict[str, Any]) -> dict[str, Any]:
        fields = set(TrainConfig.model_fields) - USER_FIELDS
        for key in values:
            if key not in fields:
                raise ValueError(f"{key!r} cannot be set by a preset{near(key, fields)}")
        if values.get("select_on") == "test":
            raise ValueError("a preset does not choose on test; say in not_reproduced that it was done")
        return values


class PresetRow(PublishedSettings):
    """One row of a table: a checkpoint, and globs of other models for which it is the nearest row."""

    row: str
    model: str = Field(description="name in the table")
    checkpoint: str | None = Field(
        None, description="hub id, or the preset that trains it first; None if not published"
    )
    stands_for: tuple[str, ...] = ()


class PresetTable(PublishedSettings):
    """One table of a publication, under the name of a preset: paper, or released."""

    name: str
    table: str = Field(description="common beginning of the names of its rows")
    source: str
    tasks: tuple[str, ...]
    rows: tuple[PresetRow, ...]


class PresetsFile(BaseModel):
    """Content of a `*.presets.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    presets: tuple[PresetTable, ...]


class Origin(NamedTuple):
    """The lower-case name of a model, or a preset with which it was trained."""

    name: str
    is_preset: bool = False


@dataclass(frozen=True, slots=True)
class Preset:
    """A row together with its table."""

    table: PresetTable
    row: PresetRow

    @property
    def full_name(self) -> str:
        """Name that --preset takes, e.g. `paper:table7-bert`."""
        return f"{self.table.name}:{self.table.table}-{self.row.row}"

    @property
    def printed(self) -> dict[str, Any]:
        """Fields of TrainConfig whose values are published."""
        return merge_settings(self.table.config, self.row.config)

    @property
    def settings(self) -> dict[str, Any]:
        """All fields of TrainConfig that the preset sets."""
        return merge_settings(self.table.filled_in, self.row.filled_in, self.printed)

    def sentences(self, kind: str) -> list[str]:
        """Return the sentences of one of SENTENCES, those of the whole table first."""
        return [*getattr(self.table, kind), *getattr(self.row, kind)]

    def is_of(self, origins: Sequence[Origin]) -> bool:
        """Return whether the row is for a model with one of these origins."""
        checkpoint = self.row.checkpoint
        return checkpoint is not None and any(
            origin.name == (checkpoint if origin.is_preset else checkpoint.rpartition("/")[2].lower())
            for origin in origins
        )

    def stands_for(self, origins: Sequence[Origin]) -> bool:
        """Return whether this is the nearest row for a model with one of these origins."""
        names = [origin.name for origin in origins if not origin.is_preset]
        return any(fnmatchcase(name, glob.lower()) for name in names for glob in self.row.stands_for)

    def mismatch(self, model: str) -> str:
        """Return how a model differs from the published checkpoint; empty if it is, or comes from, that checkpoint."""
        if self.is_of(origins_of(model)):
            return ""
        if self.row.checkpoint is None:
            return "which checkpoint it was published for is unknown"
        return f"published for {self.row.checkpoint}, not for {model}"

    def to_dict(self) -> JSON:
        """Return all fields of the row."""
        return {
            "name": self.full_name,
            "source": self.table.source,
            "tasks": list(self.table.tasks),
            "model": self.row.model,
            "checkpoint": self.row.checkpoint,
            "printed": self.printed,
            "settings": self.settings,
            **{kind: self.sentences(kind) for kind in SENTENCES},
        }


def merge_settings(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return merged settings; later parts take precedence, and the options of a head are merged one by one."""
    settings: dict[str, Any] = {}
    for part in parts:
        options = [source["head_args"] for source in (settings, part) if source.get("head_args")]
        settings |= part
        if options and all(
            isinstance(values, Mapping) for values in options
        ):  # others fail with the whole config later
            settings["head_args"] = {name: value for values in options for name, value in values.items()}
    return settings


@dataclass(slots=True)
class Presets:
    """The presets of all plugins, in order of registration."""

    registry: Registry[Preset] = field(default_factory=lambda: Registry("preset", LIST_COMMAND))

    def __iter__(self) -> Iterator[Preset]:
        return (entry.load() for entry in self.registry)

    def add(self, preset: Preset, *, owner: str) -> None:
        """Register a row under its full name."""
        self.registry.add(preset.full_name, preset, owner)

    def choose(self, name: str, task: str, origins: Sequence[Origin]) -> Preset:
        """Return the row for a task and a model with these origins; `name` is that of a preset or of a row.

        Raises:
            UnknownName: there is no such preset or row.
            TrainError: the preset has no row for the task, or none near the model.
        """
        if ":" in name:
            return self.registry.get(name)
        rows = [preset for preset in self if preset.table.name == name]
        if not rows:
            raise UnknownName("preset", name, {preset.table.name for preset in self}, see=LIST_COMMAND)
        of_task = [preset for preset in rows if task in preset.table.tasks]
        if not of_task:
            task_names = {task for preset in rows for task in preset.table.tasks}
            raise TrainError(
                f"--preset {name} has no settings for {task}{near(task, task_names)}; choose a row: `{LIST_COMMAND}`"
            )
        candidates = [preset for origin in origins for preset in of_task if preset.is_of([origin])]
        candidates += [preset for preset in of_task if preset.stands_for(origins)]
        if not candidates:
            names = ", ".join(preset.full_name for preset in of_task)
            raise TrainError(f"--preset {name} has no row for {origins[0].name} on {task}; choose one of {names}")
        return candidates[0]


def _read_presets(file: Traversable) -> Iterator[Preset]:
    """Yield the rows of a file. Raises `TrainError` with file and key for values that TrainConfig would refuse."""
    for table in read_yaml(file, PresetsFile, TrainError).presets:
        for row in table.rows:
            preset = Preset(table, row)
            try:
                TrainConfig.model_validate({**preset.settings, "task": "t", "model": "m", "output": "o"})
            except ValidationError as error:
                raise TrainError(f"{file}: {preset.full_name}: {first_problem(error, TrainConfig)}") from error
            yield preset


def load_presets(manager: PluginManager) -> Presets:
    """Return the presets of all plugins. A broken file is reported as a problem of its plugin and hides no other."""
    presets = Presets()

    def add(file: Traversable, *, owner: str) -> None:
        for preset in _read_presets(file):
            try:
                presets.add(preset, owner=owner)
            except DuplicateName as error:
                manager.problem(owner, str(error))

    presets.registry.fill(manager, "register_presets", add)
    return presets


# ---- the row that a training uses ------------------------------------------------------------------------------------


def origins_of(model: str) -> list[Origin]:
    """Return a model and what it was trained from, the nearest first, each with its preset.

    A row may match any of them: a joint model is trained from a fine-tuned one, and its row is that of the original
    checkpoint; a model that was post-trained with a preset has a row of its own.
    """
    return list(_origins(model))


def _origins(model: str) -> Iterator[Origin]:
    seen: set[str] = set()
    while model and model not in seen:
        seen.add(model)
        yield Origin(Path(model).name.lower())
        file = Path(model) / MODEL_FILE
        declaration: JSONValue = read_json(file, TrainError) if is_file(file) else None
        about = declaration.get("about") if isinstance(declaration, dict) else None
        values = about if isinstance(about, dict) else {}
        if values.get("preset"):
            yield Origin(str(values["preset"]), is_preset=True)
        model = str(values.get("trained_from") or "")


def choose_row(name: str, task: str, model: str, manager: PluginManager | None = None) -> Preset:
    """Return the row of the preset `--preset NAME` for this task and model.

    Raises:
        UnknownName, TrainError: there is no such preset, or none of its rows matches.
    """
    return load_presets(manager or Harness().manager).choose(name, task, origins_of(model))


def describe_preset(config: TrainConfig, manager: PluginManager | None = None) -> str | None:
    """Return a line about the row and how it differs from the publication, or None if there is no preset."""
    if config.preset is None:
        return None
    preset = choose_row(config.preset, config.task, config.model, manager)
    parts = [f"--preset {preset.full_name} ({preset.row.model}, {preset.table.source})"]
    parts += filter(None, [preset.mismatch(config.model)])
    count = sum(len(preset.sentences(kind)) for kind in SENTENCES)
    if count:
        parts.append(f"{count} remarks on differences, see `figeval show {preset.full_name}`")
    return "; ".join(parts)


def preset_record(config: TrainConfig, manager: PluginManager | None = None) -> JSON | None:
    """Return the description of a preset for the record of a training; `changed` lists the overridden fields."""
    if config.preset is None:
        return None
    preset = choose_row(config.preset, config.task, config.model, manager)
    is_exact = not preset.mismatch(config.model)
    return {**preset.to_dict(), "exact": is_exact, "changed": changed_fields(config, preset)}


def changed_fields(config: TrainConfig, preset: Preset) -> list[str]:
    """Return the names of the fields whose values differ from the row."""
    as_published = TrainConfig.model_validate({**config.model_dump(), **preset.settings})
    return [name for name in preset.settings if getattr(config, name) != getattr(as_published, name)]


# ---- rows of `figeval ls`, and what `figeval show` says --------------------------------------------------------------


def list_presets(harness: Harness) -> Iterator[JSON]:
    """Yield one row per preset, i.e. per row of a published table."""
    for registration in load_presets(harness.manager).registry:
        row = registration.load().to_dict()
        yield {**row, "hyper-parameters": _format_hyperparameters(row["settings"]), "owner": registration.owner}


def preset_names(harness: Harness) -> Iterator[str]:
    return (registration.name for registration in load_presets(harness.manager).registry)


class PresetView(Result):
    """Training of a published model: the paper's settings, those filled in, and the differences."""

    def __init__(self, harness: Harness, name: str) -> None:
        self._row = load_presets(harness.manager).registry.get(name).to_dict()

    def to_dict(self) -> JSON:
        """Return all fields of the row."""
        return self._row

    def notes(self) -> Iterator[str]:
        """Yield the lines of the description."""
        row = self._row
        model = f"{row['model']} ({row['checkpoint'] or 'checkpoint unknown'})"
        yield f"{row['name']}: {model} in {row['source']}, {' '.join(row['tasks'])}"
        for heading, lines in preset_sections(row):
            yield from ("", heading, *(f"  {line}" for line in lines))


def preset_sections(row: JSON) -> Iterator[tuple[str, list[str]]]:
    """Yield the headings and lines that describe a row (`Preset.to_dict`)."""
    printed, settings = _format_settings(row["printed"]), _format_settings(row["settings"])
    filled_in = {name: value for name, value in settings.items() if name not in printed}
    for heading, values in (("published", printed), ("filled in from the released code", filled_in)):
        if values:
            yield heading, [f"{name} {value}" for name, value in values.items()]
    yield from ((heading, row[kind]) for kind, heading in HEADINGS.items() if row[kind])


def _format_settings(settings: JSON) -> dict[str, str]:
    """Return settings as flags take them, with each option of a head on its own."""
    options = {f"head_args {name}": value for name, value in settings.get("head_args", {}).items()}
    values = {name: value for name, value in settings.items() if name != "head_args"} | options
    texts = {}
    for name, value in values.items():
        if isinstance(value, list | tuple):
            texts[name] = ",".join(map(str, value))
        elif isinstance(value, Mapping):
            texts[name] = ",".join(f"{key}={option}" for key, option in value.items())
        else:
            texts[name] = f"{value:g}" if isinstance(value, float) else str(value).lower()
    return texts


def _format_hyperparameters(settings: JSON) -> str:
    """Return the main settings in a few words: `lr 2e-05, 25 epochs, batches of 16, seed 42`."""
    rate = settings.get("lr")
    parts = [f"lr {rate:g}" if rate else settings.get("optimizer", "")]
    parts.append(f"{settings['epochs']} epochs" if "epochs" in settings else "")
    parts.append(f"batches of {settings['batch_size']}" if "batch_size" in settings else "")
    parts.append(f"seed {settings['seed']}" if "seed" in settings else "")
    return ", ".join(filter(None, parts)) or "not published"
