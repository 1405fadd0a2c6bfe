"""MasalBench: Persian proverbs in dialogues, and their English equivalents. See README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

from figeval.hooks import SourceRegistrar, TaskRegistrar, hookimpl


@hookimpl
def register_tasks(register: TaskRegistrar) -> None:
    """Register the tasks defined by the YAML files of this folder."""
    register.folder(files(__name__))


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register the source `masalbench:<part>`; masalbench_rows.py lists the parts."""
    register("masalbench", f"{__name__}.masalbench_rows:open")
