"""The preset row that a training uses, and its description for the terminal and for the record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from figeval import plugins
from figeval.errors import TrainError
from figeval.io.files import is_file
from figeval.io.json_files import JSONValue, read_json
from figeval.plugins import PluginManager
from figeval.types import JSON
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.listings import described
from figeval.wings.training.presets import SENTENCES, Preset, load_presets
from figeval.wings.training.train_folder import DECLARED


def names_of(model: str) -> list[str]:
    """Return the lowercase names of a model and of the models that it was trained from; a row may match any of them.

    A joint model is trained from a fine-tuned one, and its row is that of the original checkpoint.
    """
    return [Path(one).name.lower() for one in _line_of(model)]


def _line_of(model: str) -> Iterator[str]:
    """Yield a model, the model that it was trained from, and so on; each one once."""
    seen: set[str] = set()
    while model and model not in seen:
        seen.add(model)
        yield model
        file = Path(model) / DECLARED
        declared: JSONValue = read_json(file, TrainError) if is_file(file) else None
        about = declared.get("about") if isinstance(declared, dict) else None
        model = str(about.get("trained_from") or "") if isinstance(about, dict) else ""


def row_of(name: str, task: str, model: str, manager: PluginManager | None = None) -> Preset:
    """Return the row of the preset `--preset NAME` for this task and model.

    Raises:
        UnknownName, TrainError: there is no such preset, or none of its rows matches.
    """
    return load_presets(manager or plugins.plugin_manager()).choose(name, task, names_of(model))


def told(config: TrainConfig, manager: PluginManager | None = None) -> str | None:
    """Return a line about the row and how it differs from the publication, or None if there is no preset."""
    if config.preset is None:
        return None
    preset = row_of(config.preset, config.task, config.model, manager)
    of = f"{preset.own.model}, {preset.table.source}"
    parts = [f"--preset {preset.full_name} ({of})"]
    if not preset.is_of(names_of(config.model)):
        parts.append(f"published for {preset.own.checkpoint}, not for {config.model}")
    count = sum(len(preset.sentences(kind)) for kind in SENTENCES)
    if count:
        parts.append(f"{count} remarks on differences, see `figeval show {preset.full_name}`")
    return "; ".join(parts)


def recorded(config: TrainConfig, manager: PluginManager | None = None) -> JSON | None:
    """Return the description of a preset for the record of a training; `changed` lists the overridden fields."""
    if config.preset is None:
        return None
    preset = row_of(config.preset, config.task, config.model, manager)
    return {**described(preset), "exact": preset.is_of(names_of(config.model)), "changed": changed(config, preset)}


def changed(config: TrainConfig, preset: Preset) -> list[str]:
    """Return the names of the fields whose values differ from the row."""
    as_published = TrainConfig.model_validate({**config.model_dump(), **preset.settings})
    return [name for name in preset.settings if getattr(config, name) != getattr(as_published, name)]
