"""Models that find spans by where they stand, without reading them; and one that was told the answers.

They are the floor and the ceiling of a spans task. A seeded random span is `random`, in `guessing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from figeval.errors import ModelError
from figeval.models.model import refuse_model_name
from figeval.task_types.spans import SpanExample
from figeval.types import JSON, Example, ScoredSpan, Span, SpanQuery


@dataclass(frozen=True, slots=True)
class LastSentence:
    """The last sentence, whatever is asked; nothing in a text without words."""

    model: str = ""

    def __post_init__(self) -> None:
        refuse_model_name("last_sentence", self.model)

    def find_spans(self, requests: Sequence[SpanQuery]) -> list[list[ScoredSpan]]:
        from figeval.task_types.windows import sentences

        return [[ScoredSpan(span, 0.0) for span in sentences(request.text)[-1:]] for request in requests]

    def fingerprint(self) -> str:
        """The name; the definition of a sentence is the version's."""
        return "last_sentence 1"

    def describe(self) -> JSON:
        """Nothing to describe."""
        return {}


@dataclass(frozen=True, slots=True)
class WholeText:
    """The whole text, whatever is asked; nothing in an empty one."""

    model: str = ""

    def __post_init__(self) -> None:
        refuse_model_name("whole_text", self.model)

    def find_spans(self, requests: Sequence[SpanQuery]) -> list[list[ScoredSpan]]:
        return [[ScoredSpan(Span(0, len(request.text)), 0.0)] if request.text.strip() else [] for request in requests]

    def fingerprint(self) -> str:
        """The name: there is nothing to change."""
        return "whole_text"

    def describe(self) -> JSON:
        """Nothing to describe."""
        return {}


@dataclass(slots=True)
class Oracle:
    """The gold spans that `fit` has seen. Of a question with two right answers the first; of a new one nothing."""

    model: str = ""
    fit_splits = ("test",)
    spans: dict[SpanQuery, Span] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        refuse_model_name("oracle", self.model)

    def fit(self, examples: Iterable[Example]) -> None:
        """Learn the answers."""
        self.spans = {}
        for example in examples:
            if isinstance(example, SpanExample) and example.gold is not None:
                self.spans.setdefault(SpanQuery(example.text, example.given, example.known), example.gold)

    def find_spans(self, requests: Sequence[SpanQuery]) -> list[list[ScoredSpan]]:
        if self.spans is None:
            raise ModelError("'oracle' knows nothing before fit(examples) has shown it the answers")
        return [[ScoredSpan(self.spans[request], 0.0)] if request in self.spans else [] for request in requests]

    def fingerprint(self) -> str:
        """The name; what it knows are the examples, which the record fingerprints."""
        return "oracle"

    def describe(self) -> JSON:
        """How many answers it knows."""
        return {"answers": len(self.spans or {})}
