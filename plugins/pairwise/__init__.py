"""The task type `pairwise`: which of two or more texts people prefer, with votes and ties.

| module | contents |
|---|---|
| `pairwise` | the task type `pairwise`, its examples and its routes |
| `pairwise_metrics` | agreement with the majority and with the votes, log-loss, and the effect of the order |
| `comparison` | the request to models that compare texts: `compare_texts` |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    from figeval.hooks import TaskTypeRegistrar


@hookimpl
def register_task_types(register: TaskTypeRegistrar) -> None:
    """Register pairwise preference, with its routes, metrics and default template."""
    register(f"{__name__}.pairwise:Pairwise", "pairwise")
