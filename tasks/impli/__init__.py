"""IMPLI: inference over idioms and metaphors. See README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

from figeval.hooks import CommandLine, LayoutRegistrar, PresetRegistrar, SourceRegistrar, TaskRegistrar, hookimpl


@hookimpl
def register_tasks(register: TaskRegistrar) -> None:
    """Register the tasks defined by the YAML files of this folder."""
    register.folder(files(__name__))


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register `impli:<column>` (impli_rows.py lists the columns) and `impli_curve:`, the points of learning curves."""
    register("impli", f"{__name__}.impli_rows:open")
    register("impli_curve", f"{__name__}.curve.data:open")


@hookimpl
def register_presets(register: PresetRegistrar) -> None:
    """Register the training settings of the paper's models."""
    register(files(__name__) / "impli.presets.yaml")


@hookimpl
def register_layouts(register: LayoutRegistrar) -> None:
    """Register the tables of the paper."""
    register(files(__name__) / "impli.layouts.yaml")


@hookimpl
def register_commands(cli: CommandLine) -> None:
    """Register `figeval benchmark build impli-pairs`, `analyze impli` and `curve impli`."""
    summary = "Build inference pairs from your own sentences and definitions."
    cli.add_lazy_command("benchmark build impli-pairs", f"{__name__}.building.build_impli_pairs:impli_pairs", summary)
    summary = "Analyze a run of IMPLI: flexibility of idioms, word overlap, idioms that are never right."
    cli.add_lazy_command("benchmark analyze impli", f"{__name__}.analysis.analyze_impli:impli", summary)
    summary = "Draw learning curves over folds of idioms."
    cli.add_lazy_command("benchmark curve impli", f"{__name__}.curve.curve_impli:impli", summary)
