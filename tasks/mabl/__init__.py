"""MABL: the meaning of figures of speech in seven languages. See README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

from figeval.hooks import SourceRegistrar, TaskRegistrar, hookimpl


@hookimpl
def register_tasks(register: TaskRegistrar) -> None:
    """Register the tasks defined by the YAML files of this folder."""
    register.folder(files(__name__))


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register the source `mabl:<language>` and `mabl:all`; mabl_rows.py lists the languages."""
    register("mabl", f"{__name__}.mabl_rows:open")
