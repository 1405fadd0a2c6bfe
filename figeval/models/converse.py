"""A window of examples talks to a backend, round by round: one batch per capability and round.

The window follows the clock. It starts small, so that a slow model shows progress and loses little when killed, and
grows for a fast one, so that batches are large; it is bounded in examples and in requests, so that memory is flat
in the size of the data.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from figeval.models.capabilities import ask, capability_of
from figeval.models.memo import Memo, failed
from figeval.types import Example, Prediction, Request

E = TypeVar("E", bound=Example)
Dialogue = Generator[Sequence[Request], Sequence[Any], Prediction]
Start = Callable[[E], Dialogue]


@dataclass(slots=True)
class Pace:
    """How many examples make a window."""

    size: int = 64
    smallest: int = 1
    largest: int = 4096  # examples
    requests: int = 131_072  # a window takes no further example beyond so many requests
    seconds: float = 4.0  # a window should take about as long

    def adapt(self, elapsed: float) -> None:
        """Double after a quick window, halve after a slow one."""
        if elapsed < self.seconds / 2:
            self.size = min(self.largest, self.size * 2)
        elif elapsed > self.seconds * 2:
            self.size = max(self.smallest, self.size // 2)


@dataclass(slots=True)
class _Talk:
    """One example's dialogue: what it asks now, and in the end what it predicts."""

    dialogue: Dialogue
    requests: Sequence[Request] = ()
    prediction: Prediction | None = None
    truncated: bool = False

    def advance(self, outputs: Sequence[Any] | None) -> None:
        """Hand over the outputs of the last round (None to begin)."""
        try:
            self.requests = next(self.dialogue) if outputs is None else self.dialogue.send(outputs)
        except StopIteration as stop:
            self.prediction = replace(stop.value, truncated=self.truncated)


@dataclass(slots=True)
class Conversation:
    """Puts examples to a backend along a route and yields their predictions in order."""

    backend: Any
    start: Start[Any]
    memo: Memo = field(default_factory=Memo)
    pace: Pace = field(default_factory=Pace)

    def __post_init__(self) -> None:
        self.pace.smallest = max(self.pace.smallest, getattr(self.backend, "at_once", 1))
        self.pace.size = max(self.pace.smallest, self.pace.size)

    def predictions(self, examples: Iterable[E]) -> Iterator[tuple[E, Prediction]]:
        """(example, prediction) in the order of the examples, a window at a time."""
        stream = iter(examples)
        while window := self._open(stream):
            began = time.monotonic()
            self._hold([talk for _, talk in window])
            self.pace.adapt(time.monotonic() - began)
            for example, talk in window:
                assert talk.prediction is not None
                yield example, talk.prediction

    def _open(self, stream: Iterator[E]) -> list[tuple[E, _Talk]]:
        """Begin the dialogues of the next window."""
        window: list[tuple[E, _Talk]] = []
        requests = 0
        for example in islice(stream, self.pace.size):
            talk = _Talk(self.start(example))
            talk.advance(None)
            window.append((example, talk))
            requests += len(talk.requests)
            if requests >= self.pace.requests:
                break
        return window

    def _hold(self, talks: Sequence[_Talk]) -> None:
        """Advance all dialogues of a window together until each has its prediction."""
        while pending := [talk for talk in talks if talk.prediction is None]:
            answers = self._answer(request for talk in pending for request in talk.requests)
            for talk in pending:
                mine = [answers[request] for request in talk.requests]
                talk.truncated |= any(cut for _, cut in mine)
                talk.advance([output for output, _ in mine])

    def _answer(self, requests: Iterable[Request]) -> dict[Request, tuple[Any, bool]]:
        """Request → (output, truncated); each different request is put to the backend once."""
        answers: dict[Request, tuple[Any, bool]] = {}
        fresh: dict[str, list[Request]] = defaultdict(list)  # capability → requests
        for request in dict.fromkeys(requests):
            known = self.memo.get(request)
            if known is None:
                fresh[capability_of(request)].append(request)
            else:
                answers[request] = known
        for asked in fresh.values():
            outputs = ask(self.backend, asked)
            cut = outputs.truncated
            fresh_answers = [(value, index in cut) for index, value in enumerate(outputs.values)]
            found = dict(zip(asked, fresh_answers, strict=True))
            self.memo.update({request: answer for request, answer in found.items() if not failed(answer[0])})
            answers |= found
        return answers
