"""ID10M: idioms in the sentences of four languages. See README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

from figeval.hooks import SourceRegistrar, TaskRegistrar, hookimpl


@hookimpl
def register_tasks(register: TaskRegistrar) -> None:
    """Register the tasks defined by the YAML files of this folder."""
    register.folder(files(__name__))


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register the source `id10m:<split>_<language>`; id10m_rows.py lists the files."""
    register("id10m", f"{__name__}.id10m_rows:open")
