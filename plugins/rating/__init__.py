"""The task type `rating`: a grade on a declared scale for a text, or for a pair of texts.

| module | contents |
|---|---|
| `rating` | the task type `rating`, its examples and its routes |
| `metrics` | correlations with the grades, and distances on the scale |
| `replies` | parsing of the number that a reply commits to |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    from figeval.hooks import TaskTypeRegistrar


@hookimpl
def register_task_types(register: TaskTypeRegistrar) -> None:
    """Register graded judgements, with their routes, metrics and default template."""
    register(f"{__name__}.rating:Rating", "rating")
