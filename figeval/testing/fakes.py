"""Fake models that answer one capability each with a function of texts, and record their requests.

model = FakePairScorer(function=lambda left, right: float(left == right))
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from figeval.models.capabilities import Outputs
from figeval.types import Cloze, Continuation, Message, PairLabel, Prediction, Prompt, Reply, Request, Text, TextPair


@dataclass
class FakeModel:
    """Base of fakes that record every batch of requests."""

    batches: list[list[Request]] = field(default_factory=list)

    deterministic_by_name = True

    def note(self, requests: Sequence[Request]) -> None:
        """Record a batch."""
        self.batches.append(list(requests))

    @property
    def asked(self) -> list[Request]:
        """All requests so far, in order."""
        return [request for batch in self.batches for request in batch]


@dataclass
class FakePairScorer(FakeModel):
    """Fake for `score_pairs` with a function of two texts, by default the number of words that they share."""

    function: Callable[[str, str], float] = lambda left, right: float(len(set(left.split()) & set(right.split())))

    def score_pairs(self, requests: Sequence[TextPair]) -> list[float]:
        """Return the function's value for each pair."""
        self.note(requests)
        return [self.function(pair.left, pair.right) for pair in requests]


@dataclass
class FakeLanguageModel(FakeModel):
    """Fake for `loglikelihood` with a function of context and continuation, by default minus the latter's length."""

    function: Callable[[str, str], float] = lambda _context, continuation: -float(len(continuation))

    def loglikelihood(self, requests: Sequence[Continuation]) -> list[float]:
        """Return the function's value for each request."""
        self.note(requests)
        return [self.function(request.context, request.continuation) for request in requests]


@dataclass
class FakeMaskFiller(FakeModel):
    """Fake for `fill` with a function of word, before and after, by default minus the length of the word."""

    function: Callable[[str, str, str], float] = lambda word, _before, _after: -float(len(word))

    def fill(self, requests: Sequence[Cloze]) -> list[tuple[float, ...]]:
        """Return the function's value for each word of each request."""
        self.note(requests)
        return [tuple(self.function(word, r.before, r.after) for word in r.words) for r in requests]


@dataclass
class FakeEncoder(FakeModel):
    """Fake for `embed` with a function of the text; texts longer than `longest` characters count as truncated."""

    function: Callable[[str], Sequence[float]] = lambda text: (float(len(text)), 1.0)
    longest: int = 10_000

    def embed(self, requests: Sequence[Text]) -> Outputs[Any]:
        """Return the function's value for each text, as an array."""
        import numpy as np

        self.note(requests)
        cut = frozenset(index for index, text in enumerate(requests) if len(text.text) > self.longest)
        vectors: Any = np.array([self.function(text.text) for text in requests])
        return Outputs(vectors, cut)


@dataclass
class FakeClassifier(FakeModel):
    """Fake for `label_pairs` with a function of the two texts; by default, all labels are equally probable."""

    function: Callable[[str, str], dict[str, float]] | None = None

    def label_pairs(self, requests: Sequence[PairLabel]) -> list[dict[str, float]]:
        """Return the function's value for each pair."""
        self.note(requests)
        if self.function is None:
            return [dict.fromkeys(request.labels, 1 / len(request.labels)) for request in requests]
        return [self.function(request.left, request.right) for request in requests]


@dataclass
class FakeGenerator(FakeModel):
    """Fake for `generate` with a function of the last turn that returns a `Reply` or plain text, by default `A`."""

    function: Callable[[str], Reply | str] = lambda _question: "A"

    def generate(self, requests: Sequence[Prompt]) -> list[Reply | str]:
        """Return the function's value for the last turn of each prompt."""
        self.note(requests)
        return [self.function(prompt.messages[-1].content) for prompt in requests]


@dataclass
class FakeChatModel(FakeLanguageModel):
    """Fake of a local model whose chat template is switched on."""

    def chat(self, messages: Sequence[Message]) -> str:
        """Return the turns as one text, with the header of the answer."""
        return "".join(f"<{message.role}>{message.content.strip()}</>" for message in messages) + "<assistant>"


Dialogue = Generator[Sequence[Request], Sequence[object], Prediction]


def multi_round_route(
    *rounds: Sequence[Request], then: Callable[[list[Sequence[object]]], Prediction]
) -> Callable[[object], Dialogue]:
    """Return the start of a route that sends several rounds of requests and returns `then(all answers)`."""

    def start(_example: object) -> Dialogue:
        answers = []
        for requests in rounds:
            answers.append((yield requests))
        return then(answers)

    return start
