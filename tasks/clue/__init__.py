"""CLUE: conventional figurative units in English and Spanish. See README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

from figeval.hooks import SourceRegistrar, TaskRegistrar, hookimpl


@hookimpl
def register_tasks(register: TaskRegistrar) -> None:
    """Register the tasks defined by the YAML files of this folder."""
    register.folder(files(__name__))


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register the source `clue:<part>`; clue_rows.py lists the parts."""
    register("clue", f"{__name__}.clue_rows:open")
