"""Contextual calibration, which measures and removes a model's bias towards one of the answer words.

A language model finds some words more probable than others whatever the question: "Yes" rather than "No", the last
letter rather than the first. This bias is measured with content-free inputs in the same prompt, and every word's
probability is divided by its probability there (Zhao et al. 2021, Calibrate Before Use, section 4). The inputs are
those of the paper, and their probabilities are averaged.

The quotient is unbounded if the prior is 0: rounding error in the word's probability would then decide the answer.
Priors are therefore at least `FLOOR`, which the paper does not mention. A word with a smaller prior can only win if a
text makes it more probable than `FLOOR`, and no word gains more than a factor of a million.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from figeval.errors import CapabilityError, PluginError
from figeval.prompts import PromptContext
from figeval.task_types.fields import fields_of
from figeval.task_types.routes import Dialogue, Route
from figeval.types import Example, Prediction

CONTENT_FREE = ("N/A", "[MASK]", "")
FLOOR = 1e-6  # far below priors of label words (1e-3 and more), far above what half precision rounds to 0


def calibrated(route: Route) -> Route:
    """Return a route that divides the probability of each word by its probability for content-free inputs.

    These inputs are sent in the same round, after the same solved examples as the question: the prompts differ only in
    the texts of the question.

    Raises:
        CapabilityError: the route does not compare the probabilities of words.
    """
    if not route.compares_words:
        raise CapabilityError(
            f"{route.name} does not compare the probabilities of words, so --calibrate would change nothing; leave it "
            "out, or choose another --route"
        )

    def start(example: Example, context: PromptContext) -> Dialogue:
        shown = context.shots(example.for_prompt())
        context = replace(context, shots=lambda _question: shown)
        dialogues = [
            route.begin(version, context) for version in (example, *(content_free(example, t) for t in CONTENT_FREE))
        ]
        rounds = [next(dialogue) for dialogue in dialogues]
        outputs = iter((yield [request for requests in rounds for request in requests]))
        outputs_of_example, *priors = [list(islice(outputs, len(requests))) for requests in rounds]
        for dialogue in dialogues[1:]:
            dialogue.close()
        try:
            dialogues[0].send(without_prior(outputs_of_example, priors))
        except StopIteration as stop:
            prediction: Prediction = stop.value
            return prediction
        raise PluginError(f"{route.name} compares words in more than one round and cannot be calibrated")

    return replace(route, start=start)


def content_free(example: Example, text: str) -> Example:
    """Return the example with each of its texts replaced by this text."""
    kind: Any = type(example)
    blank: dict[str, Any] = {
        name: declared_field.replaced(getattr(example, name), text) for name, declared_field in fields_of(kind).items()
    }
    return replace(example, prompted=None, **blank)


def without_prior(outputs: Sequence[Any], prior_outputs: Sequence[Sequence[Any]]) -> list[Any]:
    """Return log-probabilities minus the logarithms of the words' mean shares in other outputs, at least `FLOOR`.

    Outputs are log-probabilities or tuples of them, one for each compared word; all have the same form. NaN in another
    output makes every word NaN, and an impossible word stays impossible.
    """
    shares = [_shares(_flat(output)) for output in prior_outputs]
    means = (math.fsum(column) / len(shares) for column in zip(*shares, strict=True))
    priors = iter([math.log(mean if math.isnan(mean) else max(mean, FLOOR)) for mean in means])
    return [
        tuple(value - next(priors) for value in output) if isinstance(output, Sequence) else output - next(priors)
        for output in outputs
    ]


def _flat(outputs: Sequence[Any]) -> list[float]:
    return [float(value) for output in outputs for value in (output if isinstance(output, Sequence) else (output,))]


def _shares(logprobs: Sequence[float]) -> list[float]:
    """Return probabilities that sum to 1; all are NaN if one is, and all are equal if all words are impossible."""
    top = math.nan if any(map(math.isnan, logprobs)) else max(logprobs)
    weights = [1.0 if value == top else math.exp(value - top) for value in logprobs]
    return [weight / math.fsum(weights) for weight in weights]
