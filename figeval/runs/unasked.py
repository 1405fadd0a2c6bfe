"""Examples that a route cannot put to a model: counted before the first request, and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from figeval.errors import ExampleError
from figeval.io.text import counted
from figeval.prompts import LETTERS, PromptContext
from figeval.spec.survey import Survey
from figeval.task_types.routes import Route
from figeval.types import Example, Request


def unasked(
    route: Route, context: PromptContext, available: Survey, examples: Callable[[], Iterator[Example]]
) -> tuple[str, ...]:
    """Return the warning about examples with more options than the letters that the route shows; none if all have few.

    Raises:
        CapabilityError: the route can ask about none of them.
    """
    if available.most_options <= len(LETTERS):
        return ()
    refusals = [refusal for example in examples() if (refusal := find_refusal(route, context, example))]
    if len(refusals) == available.subset.n:
        raise refusals[0]
    if not refusals:
        return ()
    return (f"{route.name} cannot ask about {counted(len(refusals), 'example')}, left out (first: {refusals[0]})",)


def find_refusal(route: Route, context: PromptContext, example: Example) -> ExampleError | None:
    """Return the error of a route that has too few letters for the options of an example, or None if it can ask it."""
    if len(getattr(example, "options", ())) <= len(LETTERS) or not route.renders:
        return None
    try:
        route.first_requests(example, context)
    except ExampleError as refusal:
        return refusal
    return None


def is_askable(route: Route, context: PromptContext, example: Example) -> bool:
    """Return whether a route can ask about an example; `context` shows no other examples."""
    return find_refusal(route, context, example) is None


def first_round(route: Route, example: Example, context: PromptContext) -> Sequence[Request]:
    """Return the requests of the first round about an example; none if the route cannot ask about it."""
    try:
        return route.first_requests(example, context)
    except ExampleError:
        return ()
