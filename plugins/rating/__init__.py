"""The task type `rating`: how much of something a text, or a pair of texts, has on a declared scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    from figeval.hooks import TaskTypeRegistrar


@hookimpl
def register_task_types(register: TaskTypeRegistrar) -> None:
    """Graded judgements, with their routes, metrics and default template."""
    register(f"{__name__}.rating:Rating", "rating")
