"""A fake for every contract: backends with scripted answers, tasks in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from figeval.models.capabilities import Outputs
from figeval.types import Cloze, Continuation, Message, PairLabel, Prompt, Text, TextPair


@dataclass
class Counting:
    """Remembers every batch that it was asked for."""

    batches: list[list[Any]] = field(default_factory=list)

    def note(self, requests: Sequence[Any]) -> None:
        self.batches.append(list(requests))

    @property
    def asked(self) -> list[Any]:
        return [request for batch in self.batches for request in batch]


@dataclass
class Closeness(Counting):
    """`score_pairs` by a function of two texts."""

    function: Callable[[str, str], float] = lambda left, right: float(len(set(left.split()) & set(right.split())))

    def score_pairs(self, pairs: Sequence[TextPair]) -> list[float]:
        self.note(pairs)
        return [self.function(pair.left, pair.right) for pair in pairs]


@dataclass
class Likelihood(Counting):
    """`loglikelihood` by a function of context and continuation."""

    function: Callable[[str, str], float] = lambda context, continuation: -float(len(continuation))

    def loglikelihood(self, requests: Sequence[Continuation]) -> list[float]:
        self.note(requests)
        return [self.function(request.context, request.continuation) for request in requests]


@dataclass
class Gaps(Counting):
    """`fill` by a function of word, before and after."""

    function: Callable[[str, str, str], float] = lambda word, before, after: -float(len(word))

    def fill(self, requests: Sequence[Cloze]) -> list[tuple[float, ...]]:
        self.note(requests)
        return [tuple(self.function(word, r.before, r.after) for word in r.words) for r in requests]


@dataclass
class Vectors(Counting):
    """`embed` by a function of the text; texts longer than `longest` characters are reported as cut."""

    function: Callable[[str], Sequence[float]] = lambda text: (float(len(text)), 1.0)
    longest: int = 10_000

    def embed(self, texts: Sequence[Text]) -> Outputs[Any]:
        self.note(texts)
        cut = frozenset(index for index, text in enumerate(texts) if len(text.text) > self.longest)
        return Outputs(np.array([self.function(text.text) for text in texts]), cut)


@dataclass
class Labels(Counting):
    """`label_pairs` by a function of the two texts."""

    function: Callable[[str, str], dict[str, float]] = lambda left, right: {}

    def label_pairs(self, requests: Sequence[PairLabel]) -> list[dict[str, float]]:
        self.note(requests)
        return [self.function(request.left, request.right) for request in requests]


@dataclass
class Writer(Counting):
    """`generate` by a function of the last turn; a Reply or plain text."""

    function: Callable[[str], Any] = lambda question: "A"

    def generate(self, prompts: Sequence[Prompt]) -> list[Any]:
        self.note(prompts)
        return [self.function(prompt.messages[-1].content) for prompt in prompts]


@dataclass
class Chatting(Likelihood):
    """A local model whose chat template is switched on."""

    def chat(self, messages: Sequence[Message]) -> str:
        return "".join(f"<{message.role}>{message.content.strip()}</>" for message in messages) + "<assistant>"


def in_rounds(*rounds: Sequence[Any], then: Callable[[list[Any]], Any]) -> Callable[[Any], Iterator[Any]]:
    """A dialogue that asks several rounds of requests and ends with `then(all outputs)`."""

    def start(_example: Any) -> Iterator[Any]:
        outputs = []
        for requests in rounds:
            outputs.append((yield requests))
        return then(outputs)

    return start
