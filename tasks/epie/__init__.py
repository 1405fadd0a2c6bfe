"""EPIE: idioms in English sentences, with splits of our own. See README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

from figeval.hooks import SourceRegistrar, TaskRegistrar, hookimpl


@hookimpl
def register_tasks(register: TaskRegistrar) -> None:
    """Register the tasks defined by the YAML files of this folder."""
    register.folder(files(__name__))


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register the source `epie:<corpus>_<split>`; epie_rows.py has the rule of the splits."""
    register("epie", f"{__name__}.epie_rows:open")
