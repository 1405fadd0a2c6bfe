"""Danish metaphors: words and fixed expressions to explain. See README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

from figeval.hooks import SourceRegistrar, TaskRegistrar, hookimpl


@hookimpl
def register_tasks(register: TaskRegistrar) -> None:
    """Register the tasks defined by the YAML files of this folder."""
    register.folder(files(__name__))


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register the source `danish_metaphors:<part>`; danish_metaphors_rows.py lists the parts."""
    register("danish_metaphors", f"{__name__}.danish_metaphors_rows:open")
