"""Several samples of an answer in words: the question is asked again with other random numbers (`--samples`).

    route = in_samples(route, 5)

Every example is asked five times in the same rounds. The requests of the samples differ in their number alone, so that
neither a cache nor an archive of replies takes one for another. The first sample is the answer of a run without
`--samples`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from figeval.prompts import PromptContext
from figeval.task_types.debiasing import together
from figeval.task_types.routes import Dialogue, Route
from figeval.types import Example, Inputs, Prediction, Prompt, Request

TEXT_CAPABILITIES = frozenset({"generate", "write"})  # of which a model gives another answer each time


def has_samples(route: Route) -> bool:
    """Return whether the model writes an answer on this route, so that asking again gives another sample."""
    return bool(TEXT_CAPABILITIES & route.needs)


def in_samples(route: Route, k: int) -> Route:
    """Return a route that asks k times, with all samples of an example in the same rounds."""

    def start(example: Example, context: PromptContext, *_parts: Route) -> Dialogue:
        dialogues = [numbered(route.begin(example, context), sample) for sample in range(k)]
        return combine_samples((yield from together(dialogues)))

    return replace(route, start=start)


def numbered(dialogue: Dialogue, sample: int) -> Dialogue:
    """Run a dialogue whose requests for texts have the number of a sample; other requests stay as they are."""
    outputs: Sequence[Any] | None = None
    while True:
        try:
            requests = next(dialogue) if outputs is None else dialogue.send(outputs)
        except StopIteration as stop:
            prediction: Prediction = stop.value
            return prediction
        outputs = yield [with_number(request, sample) for request in requests]


def with_number(request: Request, sample: int) -> Request:
    """Return the request for one of several texts."""
    return replace(request, sample=sample) if sample and isinstance(request, Prompt | Inputs) else request


def combine_samples(samples: Sequence[Prediction]) -> Prediction:
    """Return one prediction from several samples: the most frequent answer, the first of several equally frequent ones.

    Metrics do not read it: they are means over `samples`. It has an answer if any sample has one. An error in a sample
    makes the whole an error, so that the next run asks for this sample again; the others are kept.
    """
    answers = [sample for sample in samples if sample.status == "ok"]
    errors = [sample for sample in samples if sample.status == "error"]
    if not answers:
        status = Counter(sample.status for sample in samples).most_common(1)[0][0]
        answers = [sample for sample in samples if sample.status == status]
    votes = [sum(other.value == answer.value for other in answers) for answer in answers]
    prediction = (errors or [answers[votes.index(max(votes))]])[0]
    return replace(prediction, answers=(), samples=tuple(samples))
