"""Meta4XNLI and CoMeta: metaphors in English and Spanish sentences. See README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

from figeval.hooks import SourceRegistrar, TaskRegistrar, hookimpl


@hookimpl
def register_tasks(register: TaskRegistrar) -> None:
    """Register the tasks defined by the YAML files of this folder."""
    register.folder(files(__name__))


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register the source `meta4xnli:<split>_<language>` and `meta4xnli:cometa_<split>` (see meta4xnli_rows.py)."""
    register("meta4xnli", f"{__name__}.meta4xnli_rows:open")
