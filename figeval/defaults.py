"""What the core itself brings, registered through the hooks that every plugin uses. A table, so nothing is imported."""

from __future__ import annotations

from figeval.hooks import SourceRegistrar, TaskTypeRegistrar, hookimpl

TASK_TYPES = (
    "figeval.task_types.choice:Choice",
    "figeval.task_types.ranking:Ranking",
    "figeval.task_types.pairs:Pairs",
    "figeval.task_types.spans:Spans",
    "figeval.task_types.joint:Joint",
    "figeval.task_types.generation:Generation",
    "figeval.task_types.similarity:Similarity",
)
FORMATS = ("jsonl", "json", "csv", "tsv")


@hookimpl
def register_task_types(register: TaskTypeRegistrar) -> None:
    """The built-in task types."""
    for task_type in TASK_TYPES:
        register(task_type)


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Readers of plain files."""
    for name in FORMATS:
        register(name, f"figeval.data.formats:open_{name}")
