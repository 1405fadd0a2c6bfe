"""ePiC: proverbs in context. README.md beside this file has source, licence, splits and known errors."""

from __future__ import annotations

from importlib.resources import files

from figeval.hookspecs import hookimpl
from figeval.registry import SourceRegister, TaskRegister


@hookimpl
def register_tasks(register: TaskRegister) -> None:
    """The YAML files of this folder."""
    register.folder(files(__name__))


@hookimpl
def register_sources(register: SourceRegister) -> None:
    """`epic:<name>`; the names are listed in rows.py."""
    register("epic", f"{__name__}.rows:open")
