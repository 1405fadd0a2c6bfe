"""Models that do not understand the text: chance, no label, and labels of words or expressions in the training split.

The last two learn only from the training split and answer nothing without one: a floor must not learn from the test
split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar

from figeval.errors import ModelError
from figeval.models.model import refuse_model_name
from figeval.types import JSON, Example

from .expressions import Expressions
from .requests import LabelWords
from .tags import DEFAULT_SCHEME, OUTSIDE, Chunk, Scheme, kinds, write_tags

Words = list[dict[str, float]]  # label → probability, for each word
TRAINING = ("prior", "train")


@dataclass(frozen=True, slots=True)
class ChanceLabel:
    """A model for which all labels of a word are equally likely."""

    capabilities: ClassVar[tuple[str, ...]] = ("label_words",)
    deterministic_by_name: ClassVar[bool] = True
    model: str = ""

    def __post_init__(self) -> None:
        refuse_model_name("chance_label", self.model)

    def label_words(self, requests: Sequence[LabelWords]) -> list[Words]:
        """Return the same probability for all labels of all words."""
        return [[dict.fromkeys(request.labels, 1 / len(request.labels)) for _ in request.words] for request in requests]


@dataclass(frozen=True, slots=True)
class NoLabel:
    """A model that labels nothing: right about most words, but it finds nothing."""

    capabilities: ClassVar[tuple[str, ...]] = ("label_words",)
    deterministic_by_name: ClassVar[bool] = True
    model: str = ""

    def __post_init__(self) -> None:
        refuse_model_name("no_label", self.model)

    def label_words(self, requests: Sequence[LabelWords]) -> list[Words]:
        """Return `O` for all words."""
        return [[{OUTSIDE: 1.0} for _ in request.words] for request in requests]


@dataclass(slots=True)
class FrequentLabel:
    """A model that gives each word its label frequencies in the training split, or those of all words if it is new."""

    capabilities: ClassVar[tuple[str, ...]] = ("label_words",)
    fit_splits: ClassVar[tuple[str, ...]] = TRAINING
    model: str = ""
    counts: dict[str, Counter[str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        refuse_model_name("frequent_label", self.model)

    def fit(self, examples: Iterable[Example]) -> None:
        """Count the labels of each word, lower-cased."""
        self.counts = {"": Counter()}
        for example in examples:
            tokens, tags = words_of(example)
            for word, tag in zip(tokens, tags, strict=True):
                self.counts.setdefault(word.lower(), Counter())[tag] += 1
                self.counts[""][tag] += 1

    def label_words(self, requests: Sequence[LabelWords]) -> list[Words]:
        """Return the share of each label that the word had."""
        refuse_unfitted("frequent_label", self.counts.get(""))
        return [[self._shares(word) for word in request.words] for request in requests]

    def _shares(self, word: str) -> dict[str, float]:
        counts = self.counts.get(word.lower(), self.counts[""])
        return {label: count / counts.total() for label, count in counts.items()}

    def fingerprint(self) -> str:
        """Return a digest that changes with the counts."""
        return f"frequent_label {digest(self.counts, lambda counts: sorted(counts.items()))}"

    def describe(self) -> JSON:
        """Return the number of words counted, and the number of distinct ones."""
        return {"words": self.counts.get("", Counter()).total(), "distinct_words": max(0, len(self.counts) - 1)}


@dataclass(slots=True)
class SeenExpressions:
    """A model that labels the training split's expressions wherever they occur, up to inflection, longest first."""

    capabilities: ClassVar[tuple[str, ...]] = ("label_words",)
    fit_splits: ClassVar[tuple[str, ...]] = TRAINING
    model: str = ""
    expressions: Expressions = field(default_factory=lambda: Expressions("en"), init=False)
    scheme: Scheme = field(default=DEFAULT_SCHEME, init=False)  # of the tags

    def __post_init__(self) -> None:
        refuse_model_name("seen_expressions", self.model)

    def fit(self, examples: Iterable[Example]) -> None:
        """Collect the expressions. The language is that of the examples, or English if they do not name one."""
        training = list(examples)
        self.expressions = Expressions(next((example.language for example in training if example.language), "en"))
        self.scheme = next((getattr(example, "scheme", DEFAULT_SCHEME) for example in training), DEFAULT_SCHEME)
        for example in training:
            self.expressions.add(*words_of(example), self.scheme)

    def label_words(self, requests: Sequence[LabelWords]) -> list[Words]:
        """Return probability 1 for the label of each word."""
        refuse_unfitted("seen_expressions", self.expressions.kinds)
        return [[{label: 1.0} for label in self._labels(request)] for request in requests]

    def _labels(self, request: LabelWords) -> Sequence[str]:
        known_kinds = kinds(request.labels, self.scheme)
        candidates = (Chunk(*span) for span in self.expressions.longest(request.words))
        return write_tags(
            (chunk for chunk in candidates if chunk.kind in known_kinds),
            len(request.words),
            request.labels,
            self.scheme,
        )

    def fingerprint(self) -> str:
        """Return a digest that changes with the expressions."""
        expressions = self.expressions
        return f"seen_expressions {expressions.language} {digest(expressions.kinds, str)}"

    def describe(self) -> JSON:
        return {"expressions": len(self.expressions.kinds), "language": self.expressions.language}


def words_of(example: Any) -> tuple[Sequence[str], Sequence[str]]:
    """Return words and tags of an example; both are empty if the tags are hidden or the task is of another type."""
    tags = getattr(example, "tags", None)
    return (example.tokens, tags) if tags is not None else ((), ())


def refuse_unfitted(name: str, learned: object) -> None:
    """Raise `ModelError` for a model that has learned nothing."""
    if not learned:
        raise ModelError(
            f"{name!r} learns labels from the task's training split, which has none; "
            "give the task `data: {train: …}`, or use the model no_label"
        )


def digest(counts: dict[Any, Any], text: Callable[[Any], object]) -> str:
    """Return a digest of a mapping that does not depend on its order."""
    hasher = blake2b(digest_size=8)
    for key in sorted(counts):
        hasher.update(f"{key}\0{text(counts[key])}\0".encode("utf-8", "surrogatepass"))
    return hasher.hexdigest()
