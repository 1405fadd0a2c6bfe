"""Routes that remove a bias: for the place of an option, by several orders, or for an answer word, by calibration.

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
import random
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from itertools import islice, permutations
from math import factorial
from typing import Any, TypeAlias

from figeval.errors import CapabilityError, PluginError
from figeval.prompts import PromptContext
from figeval.task_types.choice import ChoiceExample, shares
from figeval.task_types.fields import fields_of, reorder
from figeval.task_types.routes import Dialogue, Route, decide
from figeval.types import Example, Prediction, Request

Order: TypeAlias = tuple[int, ...]  # order[p] is the option at place p
MAX_ENUMERATED_OPTIONS = 5  # at most this many options have all their orders asked: 120


def draw_orders(n: int, k: int, generator: random.Random) -> list[Order]:
    """Return up to k different random orders, or all n! if there are no more."""
    orders: dict[Order, None] = {}
    while len(orders) < min(k, factorial(n)):
        orders[tuple(generator.sample(range(n), n))] = None
    return list(orders)


def orders_of(example: ChoiceExample, setting: str, seed: int) -> list[Order]:
    """Return the orders that --orders requests for one example.

    Args:
        example: The example.
        setting: `cyclic` for as many orders as options, in which every option takes every place once; `all`; or a
            number of orders, drawn from (seed, example id).
        seed: Random seed.

    Raises:
        CapabilityError: all orders are requested, and there are too many.
    """
    n = len(example.options)
    if setting == "cyclic":
        return [tuple((index + shift) % n for index in range(n)) for shift in range(n)]
    if setting != "all":
        return draw_orders(n, int(setting), random.Random(f"{seed} {example.id}"))
    if n > MAX_ENUMERATED_OPTIONS:
        raise CapabilityError(f"--orders all: {n} options have {factorial(n):,} orders; use cyclic or a number")
    return list(permutations(range(n)))


def as_they_are(prediction: Prediction, order: Order) -> Prediction:
    """Return a prediction about options in this order, mapped back to the options in their original order."""
    scores = tuple(prediction.scores[order.index(option)] for option in range(len(order))) if prediction.scores else ()
    value = order[prediction.value] if isinstance(prediction.value, int) else None
    return replace(prediction, value=value, scores=scores, order=order)


def in_orders(route: Route, setting: str, seed: int) -> Route:
    """Return a route that asks once for every order of the options, with all orders of an example in the same rounds.

    The route shows the model a list of options: it has `metrics_of_orders`.
    """

    def start(example: ChoiceExample, context: PromptContext) -> Dialogue:
        orders = orders_of(example, setting, seed)
        shown = [reorder(example, "options", order) for order in orders]
        predictions = yield from together([route.begin(version, context) for version in shown])
        answers = [as_they_are(version, order) for version, order in zip(predictions, orders, strict=True)]
        return combine_answers(example, answers)

    return replace(route, start=start, metrics=(*route.metrics, *route.metrics_of_orders))


def from_orders(
    example: Any, orders: Sequence[Order], readings: Sequence[Callable[[ChoiceExample], Prediction]]
) -> Prediction:
    """Return one prediction from the answers to several orders.

    `readings[i]` makes a prediction for the example shown in `orders[i]`.
    """
    read = [reading(reorder(example, "options", order)) for reading, order in zip(readings, orders, strict=True)]
    return combine_answers(
        example, [as_they_are(prediction, order) for prediction, order in zip(read, orders, strict=True)]
    )


def together(dialogues: Sequence[Dialogue]) -> Generator[Sequence[Request], Sequence[Any], list[Prediction]]:
    """Run several dialogues as one, joining their rounds."""
    pending: dict[int, Sequence[Request]] = {}
    ended: dict[int, Prediction] = {}

    def advance(index: int, outputs: Sequence[Any] | None) -> None:
        try:
            pending[index] = next(dialogues[index]) if outputs is None else dialogues[index].send(outputs)
        except StopIteration as stop:
            pending.pop(index, None)
            ended[index] = stop.value

    for index in range(len(dialogues)):
        advance(index, None)
    while pending:
        outputs = iter((yield [request for requests in pending.values() for request in requests]))
        for index, requests in list(pending.items()):
            advance(index, list(islice(outputs, len(requests))))
    return [ended[index] for index in range(len(dialogues))]


def combine_answers(example: ChoiceExample, answers: Sequence[Prediction]) -> Prediction:
    """Return one prediction from several: `scores` are the options' shares of the valid answers, `value` is the best.

    It has an answer if any of them has one. An error in one of them makes the whole an error, to be asked again.
    """
    broken = next((answer for answer in answers if answer.status == "error"), None)
    if broken is not None:
        return replace(broken, order=(), answers=tuple(answers))
    combined = shares(example, answers)
    if not combined:
        status = Counter(answer.status for answer in answers).most_common(1)[0][0]
        return Prediction(example_id=example.id, value=None, status=status, answers=tuple(answers))
    return replace(decide(example.id, combined), answers=tuple(answers))


CONTENT_FREE = ("N/A", "[MASK]", "")
FLOOR = 1e-6  # far below priors of label words (1e-3 and more), far above what half precision rounds to 0


def with_calibration(route: Route) -> Route:
    """Return a route that divides the probability of each word by its probability for content-free inputs.

    These inputs are sent in the same round, after the same solved examples as the question: the prompts differ only in
    the texts of the question. The route compares the probabilities of words (`compares_words`).
    """

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
