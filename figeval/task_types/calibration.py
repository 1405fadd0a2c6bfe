"""Contextual calibration: a liking for one of the words that stand for the answers is measured and taken away.

A language model finds some words more probable than others whatever is asked: "Yes" rather than "No", the last letter
rather than the first. How much so is asked with inputs that say nothing, in the same prompt, and every word's
probability is divided by the one that it has there (Zhao et al. 2021, Calibrate Before Use, section 4). The inputs are
those of the paper, and their probabilities are averaged.

A quotient has no bound where the prior is 0: whatever rounding leaves of the word's probability for a text would be the
answer. Priors therefore count as `FLOOR` at least, which the paper does not say. A word that is rarer than that in the
prompt can win only where a text makes it more probable than that, and no word gains more than a factor of a million.
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
FLOOR = 1e-6  # of a prior: far below those of label words (1e-3 and more), far above what half precision rounds to 0


def calibrated(route: Route) -> Route:
    """Return the route, which divides the probability of each word by its probability for content-free inputs.

    These are asked for in the same round, behind the solved examples of the question, whichever are chosen for it: the
    prompt differs in nothing but the texts of the question.

    Raises:
        CapabilityError: the route does not compare the probabilities of words.
    """
    if not route.compares_words:
        raise CapabilityError(
            f"{route.name} does not compare the probabilities of words, so --calibrate would change nothing; leave it "
            "out, or take another --route"
        )

    def start(example: Example, context: PromptContext) -> Dialogue:
        shown = context.shots(example.for_prompt())
        context = replace(context, shots=lambda _question: shown)
        dialogues = [route.begin(one, context) for one in (example, *(content_free(example, t) for t in CONTENT_FREE))]
        rounds = [next(dialogue) for dialogue in dialogues]
        outputs = iter((yield [request for requests in rounds for request in requests]))
        own, *others = [list(islice(outputs, len(requests))) for requests in rounds]
        for dialogue in dialogues[1:]:
            dialogue.close()
        try:
            dialogues[0].send(without_prior(own, others))
        except StopIteration as stop:
            prediction: Prediction = stop.value
            return prediction
        raise PluginError(f"{route.name} compares words in more than one round, so it cannot be calibrated")

    return replace(route, start=start)


def content_free(example: Example, text: str) -> Example:
    """Return the example with this text in place of each of its texts."""
    kind: Any = type(example)
    blank: dict[str, Any] = {name: one.replaced(getattr(example, name), text) for name, one in fields_of(kind).items()}
    return replace(example, prompted=None, **blank)


def without_prior(outputs: Sequence[Any], others: Sequence[Sequence[Any]]) -> list[Any]:
    """Return log-probabilities less the logarithms of the words' mean shares in other outputs, `FLOOR` at least.

    Outputs are log-probabilities or tuples of them, one for each word that is compared; all have the same form. NaN
    among the others makes every word NaN, and a word that is impossible stays so.
    """
    shares = [_shares(_flat(one)) for one in others]
    means = (math.fsum(column) / len(shares) for column in zip(*shares, strict=True))
    priors = iter([math.log(mean if math.isnan(mean) else max(mean, FLOOR)) for mean in means])
    return [
        tuple(value - next(priors) for value in one) if isinstance(one, Sequence) else one - next(priors)
        for one in outputs
    ]


def _flat(outputs: Sequence[Any]) -> list[float]:
    return [float(value) for one in outputs for value in (one if isinstance(one, Sequence) else (one,))]


def _shares(logprobs: Sequence[float]) -> list[float]:
    """Return probabilities that add up to 1; NaN anywhere is NaN, and words that are all impossible are alike."""
    top = math.nan if any(map(math.isnan, logprobs)) else max(logprobs)
    weights = [1.0 if value == top else math.exp(value - top) for value in logprobs]
    return [weight / math.fsum(weights) for weight in weights]
