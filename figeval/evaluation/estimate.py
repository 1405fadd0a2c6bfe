"""What a run will take, said before the first question is asked: for models whose answers cost money."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from figeval.evaluation.answering import unanswered
from figeval.evaluation.plan import Plan
from figeval.frontend import notice
from figeval.models.model import Model
from figeval.records.folder import RunFolder
from figeval.types import Prompt


def announce(model: Model, plans: Sequence[Plan], folder: RunFolder) -> None:
    """Let a model that can say what it would take do so, on stderr."""
    estimate = getattr(model.backend, "estimate", None)
    if estimate is None:
        return
    prompts = chain.from_iterable(missing(plan, folder) for plan in plans)
    first = next(prompts, None)
    if first is not None:
        notice(f"{model.name}: {estimate(chain([first], prompts))}")


def missing(plan: Plan, folder: RunFolder) -> Iterator[Prompt]:
    """The prompts of a task that are still to be answered, as far as they are known: those of the first round."""
    for example in unanswered(plan, folder):
        requests = next(plan.route.begin(example, plan.context))
        yield from (request for request in requests if isinstance(request, Prompt))
