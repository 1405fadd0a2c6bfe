"""Metaphor-Paraphrase: graded paraphrases of metaphors. See README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

from figeval.hooks import SourceRegistrar, TaskRegistrar, hookimpl


@hookimpl
def register_tasks(register: TaskRegistrar) -> None:
    """Register the tasks defined by the YAML files of this folder."""
    register.folder(files(__name__))


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register the source `metaphor_paraphrase:<corpus>` and `…:<corpus>/sets` (see metaphor_paraphrase_rows.py)."""
    register("metaphor_paraphrase", f"{__name__}.metaphor_paraphrase_rows:open")
