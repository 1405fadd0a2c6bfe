"""The same question with its options in several orders, so that a liking for a place is not taken for an answer."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from itertools import islice, permutations
from math import factorial
from typing import Any, TypeAlias

from figeval.errors import CapabilityError
from figeval.prompts import PromptContext
from figeval.task_types.choice import ChoiceExample, shares
from figeval.task_types.routes import Dialogue, Route, decide
from figeval.types import Prediction, Request

Order: TypeAlias = tuple[int, ...]  # order[p] is the option at place p
MOST = 5  # options of which all orders are asked: 120


def drawn(n: int, k: int, generator: random.Random) -> list[Order]:
    """Up to k different random orders; all n! where there are no more."""
    found: dict[Order, None] = {}
    while len(found) < min(k, factorial(n)):
        found[tuple(generator.sample(range(n), n))] = None
    return list(found)


def orders_of(example: ChoiceExample, wanted: str, seed: int) -> list[Order]:
    """Return the orders of --orders for one example.

    Args:
        example: The example.
        wanted: `cyclic` for as many orders as options, in which every option stands at every place once; `all`; or so
            many drawn from (seed, example id).
        seed: Random seed.

    Raises:
        CapabilityError: all orders are asked for, and they are too many.
    """
    n = len(example.options)
    if wanted == "cyclic":
        return [tuple((place + shift) % n for place in range(n)) for shift in range(n)]
    if wanted != "all":
        return drawn(n, int(wanted), random.Random(f"{seed} {example.id}"))
    if n > MOST:
        raise CapabilityError(f"--orders all: {n} options have {factorial(n):,} orders; use cyclic or a number")
    return list(permutations(range(n)))


def seen(example: ChoiceExample, order: Order) -> ChoiceExample:
    """The example with its options in this order."""
    gold = None if example.gold is None else order.index(example.gold)
    return replace(
        example,
        options=tuple(example.options[option] for option in order),
        gold=gold,
        option_meta=tuple(example.option_meta[option] for option in order) if example.option_meta else (),
    )


def as_they_are(prediction: Prediction, order: Order) -> Prediction:
    """A prediction about options in this order, in terms of the options as they are."""
    scores = tuple(prediction.scores[order.index(option)] for option in range(len(order))) if prediction.scores else ()
    value = order[prediction.value] if isinstance(prediction.value, int) else None
    return replace(prediction, value=value, scores=scores, order=order)


def in_orders(route: Route, wanted: str, seed: int) -> Route:
    """The route, asked once for every order of the options; all orders of an example go in the same rounds.

    Raises:
        CapabilityError: the route shows the model no list of options.
    """
    if not route.metrics_of_orders:
        raise CapabilityError(
            f"{route.name} shows no list of options, so --orders would change nothing; leave it out, or take "
            "--route choice=by_letter"
        )

    def start(example: ChoiceExample, context: PromptContext) -> Dialogue:
        orders = orders_of(example, wanted, seed)
        predictions = yield from together([route.begin(seen(example, order), context) for order in orders])
        answers = [as_they_are(one, order) for one, order in zip(predictions, orders, strict=True)]
        return folded(example, answers)

    return replace(route, start=start, metrics=(*route.metrics, *route.metrics_of_orders))


def from_orders(
    example: Any, orders: Sequence[Order], readings: Sequence[Callable[[ChoiceExample], Prediction]]
) -> Prediction:
    """Return one prediction of the answers to several orders; `readings[i]` makes a prediction of what was shown in
    `orders[i]`.
    """
    read = [reading(seen(example, order)) for reading, order in zip(readings, orders, strict=True)]
    return folded(example, [as_they_are(one, order) for one, order in zip(read, orders, strict=True)])


def together(dialogues: Sequence[Dialogue]) -> Generator[Sequence[Request], Sequence[Any], list[Prediction]]:
    """Several dialogues as one, whose rounds are theirs."""
    asked = {place: next(dialogue) for place, dialogue in enumerate(dialogues)}
    ended: dict[int, Prediction] = {}
    while asked:
        outputs = iter((yield [request for requests in asked.values() for request in requests]))
        for place, requests in list(asked.items()):
            try:
                asked[place] = dialogues[place].send(list(islice(outputs, len(requests))))
            except StopIteration as stop:
                del asked[place]
                ended[place] = stop.value
    return [ended[place] for place in range(len(dialogues))]


def folded(example: ChoiceExample, answers: Sequence[Prediction]) -> Prediction:
    """One prediction of several: `scores` are the options' shares of the answers that there are, the best is the value.

    It has an answer if one of them has. An error in one of them is an error of the whole, which is asked again.
    """
    broken = next((answer for answer in answers if answer.status == "error"), None)
    if broken is not None:
        return replace(broken, order=(), answers=tuple(answers))
    found = shares(example, answers)
    if not found:
        status = Counter(answer.status for answer in answers).most_common(1)[0][0]
        return Prediction(example_id=example.id, value=None, status=status, answers=tuple(answers))
    return replace(decide(example.id, found), answers=tuple(answers))
