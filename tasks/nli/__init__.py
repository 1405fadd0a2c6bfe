"""NLI sets: literal inference, to be set beside IMPLI and to train on. See README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

from figeval.hooks import SourceRegistrar, TaskRegistrar, hookimpl


@hookimpl
def register_tasks(register: TaskRegistrar) -> None:
    """Register the tasks defined by the YAML files of this folder."""
    register.folder(files(__name__))


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """`nli:<part>`; the parts are listed in parts.py, the two that are made of others in union.py."""
    register("nli", f"{__name__}.rows:open")
