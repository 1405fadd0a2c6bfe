"""The question that models answer which read a text together with all of its options, and the route that asks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from figeval.errors import ExampleError
from figeval.prompts import PromptContext
from figeval.task_types.choice import ChoiceExample
from figeval.task_types.routes import Dialogue, Route, decide


@dataclass(frozen=True, slots=True)
class OptionList:
    """A request with a text and all of its options.

    `model.score_options(requests)` returns a tuple per request with one float per option, higher is better; the tuple
    is empty if the options leave no room for the text.
    """

    capability: ClassVar[str] = "score_options"
    query: str
    options: tuple[str, ...]


def by_markers(example: ChoiceExample, _context: PromptContext) -> Dialogue:
    """Choose by the scores of all options, read together with the query.

    Raises:
        ExampleError: the options leave no room for the query.
    """
    (scores,) = yield [OptionList(example.query, example.options)]
    if not scores:
        raise ExampleError(
            f"the {len(example.options)} options of {example.id!r} fill the model's input and leave no room for the "
            "query; raise max_length"
        )
    return decide(example.id, scores)


BY_MARKERS = Route(
    name="by_markers",
    start=by_markers,
    requests=(OptionList,),
    metrics_of_orders=("consistency", "position_bias"),
)
