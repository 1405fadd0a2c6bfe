"""IMPLI: inference over idioms and metaphors. See README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

import click

from figeval.hooks import LayoutRegistrar, PresetRegistrar, SourceRegistrar, TaskRegistrar, hookimpl


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
def register_commands(cli: click.Group) -> None:
    """Register `figeval analyze impli`, `figeval build impli-pairs` and `figeval curve impli`."""
    from .analysis.analyze_impli import impli
    from .building.build_impli_pairs import impli_pairs
    from .curve.curve_impli import impli as curve

    for name, command in (("analyze", impli), ("build", impli_pairs), ("curve", curve)):
        group = cli.commands[name]
        assert isinstance(group, click.Group)
        group.add_command(command)
