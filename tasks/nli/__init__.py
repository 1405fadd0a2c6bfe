"""NLI sets: literal inference, for comparison with IMPLI and for training. See README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

from figeval.hooks import SourceRegistrar, TaskRegistrar, hookimpl


@hookimpl
def register_tasks(register: TaskRegistrar) -> None:
    """Register the tasks defined by the YAML files of this folder."""
    register.folder(files(__name__))


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register `nli:<part>` (parts.py lists the parts, union.py makes the two combined ones) and `mnli:<split>`."""
    register("nli", f"{__name__}.nli_rows:open")
    register("mnli", f"{__name__}.multinli:open")
