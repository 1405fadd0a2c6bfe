"""What a model reports while it loads and computes, and who hears it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from figeval import Text
from figeval.builtin.plugins.torch_models.batching import TokenBudget, run_batches
from figeval.io.observer import listening, opening, report_loading, report_share
from figeval.models.capabilities import ask
from tests.listeners import Ears


class InBatches:
    """A model that reports its batches; each holds two texts."""

    def embed(self, requests: Sequence[Text]) -> list[list[float]]:
        return run_batches([1] * len(requests), lambda rows: [[float(row)] for row in rows], TokenBudget(2))


TEXTS = [Text(letter) for letter in "abcde"]


def test_a_listener_hears_how_many_requests_are_answered() -> None:
    ears = Ears()
    with listening(ears):
        ask(InBatches(), TEXTS)
    ask(InBatches(), TEXTS)
    assert ears.heard == [(0, 5), (2, 5), (4, 5), (5, 5)]


def test_nobody_has_to_listen_and_too_much_is_all() -> None:
    report_share(0.5)
    report_loading()

    class Eager:
        def embed(self, requests: Sequence[Text]) -> list[list[float]]:
            report_share(0.75)
            report_share(0.75)
            return [[1.0] for _ in requests]

    ears = Ears()
    with listening(ears):
        ask(Eager(), TEXTS)
    assert ears.heard == [(0, 5), (3, 5), (5, 5)]


def test_a_model_is_announced_by_the_name_that_the_user_gave() -> None:
    ears = Ears()
    with listening(ears):
        report_loading()  # outside of any model
        with opening("smollm2"):
            report_loading()
    assert ears.activities == ["loading model smollm2"]


def test_requests_that_are_sent_at_the_same_time_are_counted_together() -> None:
    class Server:
        def embed(self, requests: Sequence[Text]) -> list[list[float]]:
            async def embed_number(number: int) -> list[float]:
                report_share(1 / len(requests))
                return [float(number)]

            async def every() -> list[list[float]]:
                return list(await asyncio.gather(*map(embed_number, range(len(requests)))))

            return asyncio.run(every())

    ears = Ears()
    with listening(ears):
        ask(Server(), TEXTS)
    assert ears.heard == [(number, 5) for number in range(6)]
