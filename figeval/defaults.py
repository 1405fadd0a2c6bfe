"""What the core itself brings, registered through the hooks that every plugin uses. A table, so nothing is imported."""

from __future__ import annotations

from figeval.hooks import SourceRegistrar, TaskTypeRegistrar, hookimpl

TASK_TYPES = ("choice", "ranking", "pairs", "spans", "joint", "generation", "similarity")
FORMATS = ("jsonl", "json", "csv", "tsv")


@hookimpl
def register_task_types(register: TaskTypeRegistrar) -> None:
    """The built-in task types."""
    for name in TASK_TYPES:
        register(f"figeval.task_types.{name}:{name.capitalize()}", name)


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Readers of plain files."""
    for name in FORMATS:
        register(name, f"figeval.data.formats:open_{name}")
