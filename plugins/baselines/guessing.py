"""Models that do not read the question: chance, seeded guessing, the most frequent answer.

They are the floor under every other number. They leave ties as ties: metrics score them by expectation.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar

from figeval.errors import ModelError
from figeval.models.model import refuse_model_name
from figeval.task_types.base import TaskType
from figeval.task_types.choice import ChoiceExample
from figeval.task_types.pairs import PairExample
from figeval.task_types.ranking import RankingExample
from figeval.types import JSON, Example, PairLabel, ScoredSpan, Span, SpanQuery, TextPair

from .plain_model import PlainModel

if TYPE_CHECKING:
    from ..classification.requests import TextLabels
    from ..pairwise.comparison import Comparison


@dataclass(frozen=True, slots=True)
class Chance(PlainModel):
    """A model without preferences: 1/options for choice, H_n/n for the MRR of n candidates, 1/labels for pairs."""

    name: ClassVar[str] = "chance"
    capabilities: ClassVar[tuple[str, ...]] = ("label_texts", "compare_texts")
    indifferent: ClassVar[bool] = True  # routes with a threshold tie their answers instead of comparing with 0

    def score_pairs(self, requests: Sequence[TextPair]) -> list[float]:
        return [0.0] * len(requests)

    def label_pairs(self, requests: Sequence[PairLabel]) -> list[dict[str, float]]:
        return [uniform(request.labels) for request in requests]

    def label_texts(self, requests: Sequence[TextLabels]) -> list[dict[str, float]]:
        return [
            dict.fromkeys(request.labels, 0.5) if request.several else uniform(request.labels) for request in requests
        ]

    def compare_texts(self, requests: Sequence[Comparison]) -> list[tuple[float, ...]]:
        return [(1 / (len(request.texts) + 1),) * (len(request.texts) + 1) for request in requests]


@dataclass(frozen=True, slots=True)
class Longest(PlainModel):
    """A model that prefers the text with the most characters, whatever it is about."""

    name: ClassVar[str] = "longest"

    def score_pairs(self, requests: Sequence[TextPair]) -> list[float]:
        return [float(len(request.right)) for request in requests]


@dataclass(frozen=True, slots=True)
class Random:
    """A model that guesses by a hash of seed and texts, so that batches, order and platform do not matter.

    Attributes:
        seed: random seed.
    """

    capabilities: ClassVar[tuple[str, ...]] = ("label_texts",)

    model: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        refuse_model_name("random", self.model)

    def score_pairs(self, requests: Sequence[TextPair]) -> list[float]:
        return [self._draw("pair", request.left, request.right) for request in requests]

    def label_pairs(self, requests: Sequence[PairLabel]) -> list[dict[str, float]]:
        return [
            self._probabilities("label", request.left, request.right, labels=request.labels) for request in requests
        ]

    def label_texts(self, requests: Sequence[TextLabels]) -> list[dict[str, float]]:
        return [
            {label: self._draw("label", request.text, label) for label in request.labels}
            if request.several
            else self._probabilities("label", request.text, labels=request.labels)
            for request in requests
        ]

    def find_spans(self, requests: Sequence[SpanQuery]) -> list[list[ScoredSpan]]:
        """Return one of all spans between white space, each equally likely; none for a text without tokens."""
        return [list(self._span(request)) for request in requests]

    def fingerprint(self) -> str:
        """Return the name with the seed, the only option."""
        return f"random seed={self.seed}"

    def describe(self) -> JSON:
        return {"seed": self.seed}

    def _probabilities(self, *parts: str, labels: Sequence[str]) -> dict[str, float]:
        # Normalized exponential draws are uniform over all probability vectors (Dirichlet with all parameters 1).
        weights = [-math.log(self._draw(*parts, label)) for label in labels]
        total = sum(weights)
        return {label: weight / total for label, weight in zip(labels, weights, strict=True)}

    def _span(self, request: SpanQuery) -> Iterator[ScoredSpan]:
        tokens = [token.span() for token in re.finditer(r"\S+", request.text)]
        if tokens:
            draw = self._draw("span", request.text, request.given, request.known)
            remaining = int(draw * math.comb(len(tokens) + 1, 2))
            first = 0
            while remaining >= len(tokens) - first:  # as many spans begin with token `first` as there are ends for them
                remaining -= len(tokens) - first
                first += 1
            yield ScoredSpan(Span(tokens[first][0], tokens[first + remaining][1]), 0.0)

    def _draw(self, *parts: str) -> float:
        """Return a number strictly between 0 and 1 with 52 random bits."""
        digest = blake2b(digest_size=8)
        for part in (str(self.seed), *parts):
            encoded = part.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "big") + encoded)  # ("a", "bc") is not ("ab", "c")
        return ((int.from_bytes(digest.digest(), "big") >> 12) + 0.5) * 2.0**-52


@dataclass(slots=True)
class Majority:
    """A model that answers by the frequencies of the gold answers in the examples passed to `fit`.

    If these are balanced, or none of the possible answers was among them, all are tied and this is chance.
    """

    capabilities: ClassVar[tuple[str, ...]] = ("label_texts", "compare_texts")

    model: str = ""
    counts: Counter[str] | None = field(default=None, init=False)
    task_type: TaskType[Any] | None = field(default=None, init=False)
    examples: int = field(default=0, init=False)  # number of examples whose gold is known

    def __post_init__(self) -> None:
        refuse_model_name("majority", self.model)

    def use_task_type(self, task_type: TaskType[Any]) -> None:
        """Read right answers as this task type declares them from now on, where `gold_answers` does not know them."""
        self.task_type = task_type

    def fit(self, examples: Iterable[Example]) -> None:
        """Count gold labels (pairs, classification) or the texts of the right options and candidates (others)."""
        self.counts, self.examples = Counter(), 0
        for example in examples:
            answers = gold_answers(example)
            self.counts.update(answers if answers or self.task_type is None else self.task_type.gold_texts(example))
            self.examples += not example.hidden

    def score_pairs(self, requests: Sequence[TextPair]) -> list[float]:
        """Return the share of the gold answers that equal the right text."""
        counts = self._require_counts()
        total = max(1, counts.total())
        return [counts[request.right] / total for request in requests]

    def label_pairs(self, requests: Sequence[PairLabel]) -> list[dict[str, float]]:
        """Return label frequencies among the requested labels; uniform if none of them was ever gold."""
        return [self._shares(request.labels) for request in requests]

    def label_texts(self, requests: Sequence[TextLabels]) -> list[dict[str, float]]:
        """Return label frequencies; if several labels may hold, each label's share of the texts."""
        counts, texts = self._require_counts(), max(1, self.examples)
        return [
            {label: counts[label] / texts for label in request.labels}
            if request.several
            else self._shares(request.labels)
            for request in requests
        ]

    def compare_texts(self, requests: Sequence[Comparison]) -> list[tuple[float, ...]]:
        """Return the frequency of each place of the preferred text, and of ties."""
        return [tuple(self._shares([*map(str, range(len(request.texts))), "tie"]).values()) for request in requests]

    def fingerprint(self) -> str:
        """Return a digest that changes with the counts."""
        counts = self.counts or Counter()
        digest = blake2b(digest_size=8)
        for text in sorted(map(str, counts.items())):
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
        of = "" if self.examples == counts.total() else f" of {self.examples}"
        return f"majority {digest.hexdigest()}{of}"

    def describe(self) -> JSON:
        """Return the number of gold answers counted, and the number of distinct ones."""
        counts = self.counts or Counter()
        return {"gold_answers": counts.total(), "distinct_answers": len(counts)}

    def _shares(self, labels: Sequence[str]) -> dict[str, float]:
        counts = self._require_counts()
        total = sum(counts[label] for label in labels)
        return {label: counts[label] / total for label in labels} if total else uniform(labels)

    def _require_counts(self) -> Counter[str]:
        if self.counts is None:
            raise ModelError("'majority' cannot answer before fit(examples) has counted the gold answers")
        return self.counts


def uniform(labels: Sequence[str]) -> dict[str, float]:
    """Return the same probability for every label."""
    return dict.fromkeys(labels, 1 / len(labels))


@singledispatch
def gold_answers(_example: Example) -> tuple[str, ...]:
    """Return the right answers of an example as text; none if they are hidden or not text."""
    return ()


@gold_answers.register
def _(example: PairExample) -> tuple[str, ...]:
    return () if example.label is None else (example.label,)


@gold_answers.register
def _(example: ChoiceExample) -> tuple[str, ...]:
    return () if example.gold is None else (example.options[example.gold],)


@gold_answers.register
def _(example: RankingExample) -> tuple[str, ...]:
    return tuple(example.candidates[index] for index in sorted(example.relevant))
