"""Models that find spans by position, without reading them, and an oracle that knows the answers.

They are the floor and the ceiling of a spans task. The seeded random span is `random`, in `guessing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from figeval.errors import ModelError
from figeval.models.model import refuse_model_name
from figeval.task_types.spans import SpanExample
from figeval.types import JSON, Example, ScoredSpan, Span, SpanQuery

from .plain_model import PlainModel


@dataclass(frozen=True, slots=True)
class LastSentence(PlainModel):
    """A model that answers with the last sentence; with nothing for a text without words."""

    name: ClassVar[str] = "last_sentence"

    def find_spans(self, requests: Sequence[SpanQuery]) -> list[list[ScoredSpan]]:
        from figeval.task_types.spans import sentences

        return [[ScoredSpan(span, 0.0) for span in sentences(request.text)[-1:]] for request in requests]

    def fingerprint(self) -> str:
        """Return the name; the definition of a sentence is tied to the version of figeval."""
        return "last_sentence 1"


@dataclass(frozen=True, slots=True)
class WholeText(PlainModel):
    """A model that answers with the whole text; with nothing for an empty one."""

    name: ClassVar[str] = "whole_text"

    def find_spans(self, requests: Sequence[SpanQuery]) -> list[list[ScoredSpan]]:
        return [[ScoredSpan(Span(0, len(request.text)), 0.0)] if request.text.strip() else [] for request in requests]


@dataclass(slots=True)
class Oracle:
    """A model that answers with the gold spans of the examples passed to `fit`.

    If a question has two right answers, it gives the first; for a new question it gives nothing.
    """

    model: str = ""
    fit_splits = ("test",)
    spans: dict[SpanQuery, Span] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        refuse_model_name("oracle", self.model)

    def fit(self, examples: Iterable[Example]) -> None:
        """Store the answers."""
        self.spans = {}
        for example in examples:
            if isinstance(example, SpanExample) and example.gold is not None:
                self.spans.setdefault(SpanQuery(example.text, example.given, example.known), example.gold)

    def find_spans(self, requests: Sequence[SpanQuery]) -> list[list[ScoredSpan]]:
        if self.spans is None:
            raise ModelError("'oracle' cannot answer before fit(examples) has read the gold spans")
        return [[ScoredSpan(self.spans[request], 0.0)] if request in self.spans else [] for request in requests]

    def fingerprint(self) -> str:
        """Return the name; the record already fingerprints the examples that it knows."""
        return "oracle"

    def describe(self) -> JSON:
        """Return the number of answers that it knows."""
        return {"answers": len(self.spans or {})}
