"""The core's own task types and formats, registered through the hooks of every plugin, by name without any import."""

from __future__ import annotations

from figeval.hooks import SourceRegistrar, TaskTypeRegistrar, hookimpl

TASK_TYPES = ("choice", "ranking", "pairs", "spans", "joint", "generation", "similarity")
TEXTS = ("jsonl", "json", "csv", "tsv")  # schemes of data in text files


@hookimpl
def register_task_types(register: TaskTypeRegistrar) -> None:
    """Register the built-in task types."""
    for name in TASK_TYPES:
        register(f"figeval.task_types.{name}:{name.capitalize()}", name)


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register the readers of files."""
    for name in TEXTS:
        register(name, f"figeval.data.row_files:open_{name}")
    register("xlsx", "figeval.data.workbooks:open_xlsx")
