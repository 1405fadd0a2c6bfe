"""The core's own task types and formats, registered through the hooks of every plugin, by name without any import."""

from __future__ import annotations

from figeval.hooks import SourceRegistrar, TaskTypeRegistrar, hookimpl

TASK_TYPES = ("choice", "ranking", "pairs", "spans", "joint", "generation", "similarity")
FORMATS = ("jsonl", "json", "csv", "tsv", "xlsx", "parquet", "arrow")  # schemes of data in files


@hookimpl
def register_task_types(register: TaskTypeRegistrar) -> None:
    """Register the built-in task types."""
    for name in TASK_TYPES:
        register(f"figeval.task_types.{name}:{name.capitalize()}", name)


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register the readers of files."""
    for name in FORMATS:
        register(name, f"figeval.data.row_files:open_{name}")
    register("hub", "figeval.data.hub:open_hub")
