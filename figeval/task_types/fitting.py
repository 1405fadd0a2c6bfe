"""Prompts that fit the model: solved examples are left out of those that would be too long, before anything is cut.

A model cuts the beginning of a text that is too long: the system message, then the solved examples. So the examples
farthest from the question, which are the first ones, are left out one by one until the prompt fits with its answer.
Every request of the first round has to fit: all options of a question are compared after the same examples, in all
orders of `--orders`, and `--calibrate` measures its priors after them, too. A question that does not fit alone is cut
by the model as before, and counted among the truncated inputs.

How many examples fit depends on the question and the model alone, not on batches, processes or earlier sessions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from figeval.plugins import foreign_code
from figeval.prompts import PromptContext
from figeval.task_types.routes import Dialogue, Route
from figeval.types import Continuation, Example, Prediction, Prompt


def with_shots_that_fit(route: Route) -> Route:
    """Return a route that shows only as many solved examples as fit, and counts the others in `dropped_shots`.

    Each part of a route that combines others shows its own number. With a model that does not know how long its texts
    may be (`PromptContext.has_room`), it shows all.
    """
    if route.of:
        return replace(route, parts=tuple(map(with_shots_that_fit, route.parts)))

    def start(example: Example, context: PromptContext) -> Dialogue:
        n_dropped = count_dropped_shots(route, example, context)
        prediction = yield from route.begin(example, without_first_shots(context, n_dropped))
        if n_dropped and isinstance(prediction, Prediction):
            return replace(prediction, dropped_shots=n_dropped)
        return prediction

    return replace(route, start=start)


def count_dropped_shots(route: Route, example: Example, context: PromptContext) -> int:
    """Return the least number of solved examples without which all prompts of the first round fit, or else of all."""
    has_room = context.has_room
    if has_room is None:
        return 0
    n_shots = 0

    def counted_shots(question: Any) -> Sequence[Any]:
        nonlocal n_shots
        shots = context.shots(question)
        n_shots = max(n_shots, len(shots))
        return shots

    def fits(n_dropped: int) -> bool:
        requests = route.first_requests(example, without_first_shots(counting, n_dropped))
        prompts = [request for request in requests if isinstance(request, Continuation | Prompt)]
        if not prompts or not n_shots:
            return True
        with foreign_code():
            return has_room(prompts)

    counting = replace(context, shots=counted_shots)
    if fits(0):
        return 0
    return 1 + bisect_left(range(1, n_shots), True, key=fits)


def without_first_shots(context: PromptContext, n: int) -> PromptContext:
    """Return a context that leaves out the first n solved examples of every question."""
    return replace(context, shots=lambda question: context.shots(question)[n:]) if n else context
