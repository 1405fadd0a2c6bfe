"""The task type `rating`: how much of something a text, or a pair of texts, has on a declared scale.

| module | what it holds |
|---|---|
| `rating` | the task type `rating`, its examples and its routes |
| `metrics` | correlations with the grades, and distances on the scale |
| `replies` | the number that a reply commits itself to |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    from figeval.hooks import TaskTypeRegistrar


@hookimpl
def register_task_types(register: TaskTypeRegistrar) -> None:
    """Graded judgements, with their routes, metrics and default template."""
    register(f"{__name__}.rating:Rating", "rating")
