"""EuroEval's idioms and proverbs in Danish, Norwegian, Faroese and Dutch. See README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

from figeval.hooks import SourceRegistrar, TaskRegistrar, hookimpl


@hookimpl
def register_tasks(register: TaskRegistrar) -> None:
    """Register the tasks defined by the YAML files of this folder."""
    register.folder(files(__name__))


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register the source `euroeval:<set>@<commit>#<split>`; euroeval_rows.py lists the sets."""
    register("euroeval", f"{__name__}.euroeval_rows:open")
