"""Fine-tuning of models on tasks, by learners that plugins provide."""

from __future__ import annotations

from figeval import CommandLine, ListingRegistrar, ViewRegistrar, hookimpl


@hookimpl
def register_commands(cli: CommandLine) -> None:
    """Register the command."""
    cli.add_lazy_command(
        "train",
        "figeval.wings.training.command:train",
        "Fine-tune a model on a task.",
        heading="Evaluate",
    )


@hookimpl
def register_listings(register: ListingRegistrar) -> None:
    """Register the heads that can be trained, and the presets of published models."""
    summary = "for train --head, a task type's default first"
    register("heads", "figeval.wings.training.learners:list_heads", ("name", "type", "owner", "summary"), summary)
    columns = ("name", "model", "hyper-parameters", "tasks", "owner")
    register(
        "presets",
        "figeval.wings.training.presets:list_presets",
        columns,
        "for train --preset, a row of a paper's table",
    )


@hookimpl
def register_views(register: ViewRegistrar) -> None:
    """Register the presets, so that `figeval show` describes them."""
    presets = "figeval.wings.training.presets"
    register("preset", f"{presets}:preset_names", f"{presets}:PresetView")
