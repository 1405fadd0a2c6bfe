"""MMFLD: hyperbole, idiom, metaphor and simile detection in seven languages. See README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

from figeval.hooks import SourceRegistrar, TaskRegistrar, hookimpl


@hookimpl
def register_tasks(register: TaskRegistrar) -> None:
    """Register the tasks defined by the YAML files of this folder."""
    register.folder(files(__name__))


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register the source `mmfld:<form>`, `mmfld:<form>_<language>` and `mmfld:hyperbole_en_train`."""
    register("mmfld", f"{__name__}.mmfld_rows:open")
