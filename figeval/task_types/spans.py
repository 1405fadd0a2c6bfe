"""Span tasks, which ask for the stretch of a text that corresponds to something given."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar

from figeval.answers import VERSION
from figeval.errors import TaskError
from figeval.prompts import PromptContext
from figeval.task_types.base import HIDDEN, TaskType, metric
from figeval.task_types.fields import PositiveField, SpanField, TextField
from figeval.task_types.given import Given
from figeval.task_types.routes import Dialogue, ReplyReader, Route, by_reply, cosines
from figeval.types import (
    NO_SPAN,
    AnswerFormat,
    Example,
    Input,
    Prediction,
    Reply,
    ScoredSpan,
    Span,
    SpanQuery,
    Status,
    Text,
    TextPair,
    Value,
)

PLACED = "a span"  # class of answers with a span in the distribution of gold answers
SPANS = "figeval.metrics.spans"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanExample(Example):
    """Example that asks for the span of `text` that corresponds to `given`, a part of `known`.

    `gold` is the position of the span (the first one if it occurs more than once), `NO_SPAN` if nothing in the text
    corresponds to `given`, which is a possible answer, or None if the answer is hidden. `weight` lets several rows
    share the weight of one: 1/k for each of the k spans of a narrative gives means by narrative.
    """

    removed_fields: ClassVar[Mapping[str, Any]] = {"reference": None}

    text: Annotated[str, TextField("The text in which the span is to be found.", fixed_length=True)]
    given: Annotated[str, TextField("The text that the span corresponds to.")]
    known: Annotated[str, TextField("The text that `given` is a part of.")]
    gold: Annotated[
        Span | None, SpanField("The right span; [] or '' if none is right, null if it is hidden.", of="text")
    ]
    weight: Annotated[float, PositiveField("Weight of the row.")] = 1.0

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text, self.given, self.known)

    @property
    def subject(self) -> str:
        return self.text

    @property
    def identities(self) -> tuple[tuple[str, ...], ...]:
        return ((self.text, self.given, self.known),)

    @property
    def hidden(self) -> bool:
        return self.answer is None

    @property
    def answer(self) -> str | None:
        """Text with which a predicted span is compared; empty if no span is right, None if the answer is hidden."""
        return None if self.gold is None else self.text[self.gold.start : self.gold.end]


# ---- routes ----------------------------------------------------------------------------------------------------------


def by_head(example: SpanExample, _context: PromptContext) -> Dialogue:
    """Choose the best span of a model that predicts spans (Ghosh and Srivastava 2022, section 5.2)."""
    (spans,) = yield [SpanQuery(example.text, example.given, example.known)]
    return first_of(example, list(spans))


def by_window_cosine(example: SpanExample, _context: PromptContext) -> Dialogue:
    """Choose the window whose embedding is closest to that of the given span.

    Windows without a known word, whose vector is zero, are left out.
    """
    spans = windows(example.text)
    shown = [Text(text, "document") for text in texts_of(example, spans)]
    query, *vectors = yield [Text(example.given, "query"), *shown]
    embedded = [index for index, vector in enumerate(vectors) if any(vector)]
    scores = cosines(query, [vectors[index] for index in embedded]) if embedded else ()
    return best_of(example, [spans[index] for index in embedded], list(map(float, scores)))


def by_window_score(example: SpanExample, _context: PromptContext) -> Dialogue:
    """Choose the window that the model scores as closest to the given span."""
    spans = windows(example.text)
    scores = yield [TextPair(example.given, text) for text in texts_of(example, spans)]
    return best_of(example, spans, list(map(float, scores)))


def read_quote(example: SpanExample, _context: PromptContext, reply: Reply) -> Prediction:
    """Return the span that a reply quotes; its score is the likeness of quotation and span, 1 if verbatim.

    A reply whose JSON contains no quotation means that there is no such span.
    """
    from figeval.answers.quotes import NO_QUOTE, locate, quotation

    quoted = quotation(reply, example)
    if quoted.rule == NO_QUOTE:
        return Prediction(example_id=example.id, value=NO_SPAN)
    match = locate(quoted.quote, example.text, example.language) if quoted.status == "ok" else None
    return Prediction(
        example_id=example.id,
        value=match.span if match else None,
        scores=(match.likeness,) if match else (),
        status="absent" if match and match.span is None else quoted.status,
    )


def quote_format(_example: SpanExample, _context: PromptContext) -> AnswerFormat:
    """Return the format of the JSON object that the prompt asks for."""
    return AnswerFormat.of_object({"quote": {"type": "string"}})


def texts_of(example: SpanExample, spans: Sequence[Span]) -> list[str]:
    """Return the stretches of the text at these places."""
    return [example.text[span.start : span.end] for span in spans]


def first_of(example: SpanExample, scored_spans: Sequence[ScoredSpan]) -> Prediction:
    """Return the best of the spans that a model predicted; an empty one means that there is none.

    Raises:
        ValueError: a span lies outside the text.
    """
    spans, scores = [scored.span for scored in scored_spans], [float(scored.score) for scored in scored_spans]
    spans = [NO_SPAN if span.start == span.end else span for span in spans]
    if any(not 0 <= span.start <= span.end <= len(example.text) for span in spans):
        raise ValueError(f"{spans} do not lie in the text of {example.id!r}, which has {len(example.text)} characters")
    return best_of(example, spans, scores)


def best_of(example: SpanExample, spans: Sequence[Span], scores: Sequence[float]) -> Prediction:
    """Return the span with the best score; the status is `empty` without spans, and `nan` if a score is NaN.

    Of spans that tie (`tied` counts them), the first is the value, and all are kept in `alike`, because metrics score
    them by expectation. The first alone would be wrong: a model that sees nothing in common ties all windows of a text,
    and would appear to know that the answer is at the beginning.
    """
    if not spans:
        return Prediction(example_id=example.id, value=None, status="empty")
    if any(map(math.isnan, scores)):
        return Prediction(example_id=example.id, value=None, scores=(math.nan,), status="nan")
    best = max(scores)
    alike = tuple(span for span, score in zip(spans, scores, strict=True) if score == best)
    ties = alike if len(alike) > 1 else ()
    return Prediction(example_id=example.id, value=alike[0], scores=(best,), tied=len(alike), tied_spans=ties)


# ---- the type --------------------------------------------------------------------------------------------------------


class Spans(TaskType[SpanExample]):
    """Find the stretch of a text that stands for something given."""

    name = "spans"
    Example = SpanExample
    query = "given"
    default_metrics = ("span_f1",)
    given_form = "[start, end] in characters, the quoted words, or [] if there is no such span"
    routes = (
        Route(name="by_head", start=by_head, needs=frozenset({"find_spans"})),
        Route(name="by_window_cosine", start=by_window_cosine, needs=frozenset({"embed"})),
        Route(name="by_window_score", start=by_window_score, needs=frozenset({"score_pairs"})),
        by_reply(
            "by_json",
            "json",
            ReplyReader(read_quote, VERSION),
            answer_format=quote_format,
            metrics=("squad_f1_of_all", "verbatim", "parse_rate"),
        ),
    )
    metrics = (
        metric("parse_rate", "figeval.metrics.classification:parse_rate"),
        metric("span_precision", f"{SPANS}:span_precision", counts_words=True),
        metric("span_recall", f"{SPANS}:span_recall", counts_words=True),
        metric("span_f1", f"{SPANS}:span_f1", counts_words=True),
        metric("squad_f1", f"{SPANS}:squad_f1", counts_words=True),
        metric("squad_f1_of_all", f"{SPANS}:squad_f1_of_all", counts_words=True),
        metric("exact_match", f"{SPANS}:exact_match", counts_words=True),
        metric("verbatim", f"{SPANS}:verbatim", routes=["by_json"]),
    )

    def query_text(self, example: SpanExample) -> str:
        return example.text

    def augmented(self, _example: SpanExample, _added: Sequence[str]) -> SpanExample:
        """Raise `TaskError`, because answers are places in the text, and `given` is a part of another text."""
        raise TaskError("spans tasks point into their texts, so nothing can be added to them; leave out --augment")

    def few_shot_answer(self, block: str, example: SpanExample, _context: PromptContext) -> str | None:
        """Return a JSON object with the stretch as its quotation."""
        assert example.gold is not None
        quote = example.text[example.gold.start : example.gold.end]
        return f" {json.dumps({'quote': quote}, ensure_ascii=False)}" if block == "json" else None

    def to_json(self, value: Value | None) -> Any:
        """Return start and end in characters, half-open; [] means that there is no span."""
        if not isinstance(value, Span):
            return value
        return [] if value == NO_SPAN else [value.start, value.end]

    def from_json(self, stored: Any) -> Span | None:
        if stored is None:
            return None
        start, end = stored or (0, 0)
        return Span(start, end)

    def given(self, example: SpanExample, given: Given, _labels: Sequence[str]) -> Prediction:
        """Return the span that is given by its place or its words; a list of several spans is a tie between them."""
        from figeval.answers.quotes import locate

        scores, value = given.numbers("spans"), given.parsed
        if isinstance(value, str):
            match = locate(value, example.text, example.language)
            likeness = scores or ((match.likeness,) if match else ())
            span = match.span if match else None
            status: Status = "ok" if span is not None else "absent"
            return Prediction(example_id=example.id, value=span, scores=likeness, status=status)
        has_several = isinstance(value, list) and bool(value) and all(isinstance(part, list) for part in value)
        spans = tuple(self._placed(part) for part in (value if has_several else [value]))
        tied = spans if len(spans) > 1 else ()
        return Prediction(example_id=example.id, value=spans[0], scores=scores, tied=len(spans), tied_spans=tied)

    def _placed(self, value: Any) -> Span:
        match value:
            case []:
                return NO_SPAN
            case [int(start), int(end)] if 0 <= start < end:
                return Span(start, end)
        raise ValueError(f"{value!r:.80} is not a span")

    def value_problem(self, value: Value, example: SpanExample, _labels: Sequence[str]) -> str:
        if isinstance(value, Span) and (value == NO_SPAN or 0 <= value.start < value.end <= len(example.text)):
            return ""
        return f"{value!r:.80} is not a span [start, end] of its text of {len(example.text)} characters"

    def judged_example(self, example: SpanExample) -> Mapping[str, Input]:
        return {
            "text 1": example.known,
            "span of text 1": example.given,
            "text 2": example.text,
            "span of text 2": self.shown_gold(example) or "(none)",
        }

    def shown_gold(self, example: SpanExample) -> str:
        return "(hidden)" if example.answer is None else example.answer

    def gold_class(self, example: SpanExample) -> str | None:
        if example.gold is None:
            return HIDDEN
        return "no span" if example.gold == NO_SPAN else PLACED

    def is_constant(self, gold_class: str) -> bool:
        """Return False for spans, because spans at different places are different answers."""
        return gold_class != PLACED


LONGEST_RUN = 8  # clauses; limits the windows of a text without full stops, but the whole sentence is always one

_CLOSING = r"[\"'”’»)\]]*"
_TITLES = r"(?<!\bmr)(?<!\bmrs)(?<!\bms)(?<!\bdr)(?<!\bst)(?<!\bvs)"  # their full stop ends no sentence
_SENTENCE_END = re.compile(rf"{_TITLES}[.!?…]+{_CLOSING}(?=\s)|[。！？]+[」』”’）]*|\n\s*\n", re.IGNORECASE)
_CLAUSE_END = re.compile(rf"[,;:]{_CLOSING}(?=\s)|[，；：、]|\s+[-–—]+(?=\s)|[–—]+")


def sentences(text: str) -> list[Span]:
    """Return the sentences of a text, trimmed; none if the text is blank."""
    return list(_pieces(text, Span(0, len(text)), _SENTENCE_END))


def clauses(text: str, sentence: Span) -> list[Span]:
    """Return the pieces of one sentence between punctuation marks and dashes."""
    return list(_pieces(text, sentence, _CLAUSE_END))


@lru_cache(maxsize=4096)
def windows(text: str) -> tuple[Span, ...]:
    """Return every sentence, every clause, and every run of up to `LONGEST_RUN` neighbouring clauses of one sentence.

    Windows are ordered by start, then by length; none is empty, and each character other than white space is in at
    least one of them.
    """
    spans = set()
    for sentence in sentences(text):
        pieces = clauses(text, sentence)
        runs = (pieces[first : first + LONGEST_RUN] for first in range(len(pieces)))
        spans |= {sentence, *(Span(run[0].start, last.end) for run in runs for last in run)}
    return tuple(sorted(spans, key=lambda span: (span.start, span.end)))


def _pieces(text: str, within: Span, boundary: re.Pattern[str]) -> Iterator[Span]:
    """Yield the trimmed pieces between boundaries; a boundary belongs to the piece before it."""
    start = within.start
    for end in (
        *(boundary_match.end() for boundary_match in boundary.finditer(text, within.start, within.end)),
        within.end,
    ):
        piece = trim(text, Span(start, end))
        if piece.start < piece.end:
            yield piece
        start = end


def trim(text: str, span: Span) -> Span:
    """Return the span without white space at its ends; empty if it is blank."""
    inside = text[span.start : span.end]
    start = span.start + len(inside) - len(inside.lstrip())
    return Span(start, start + len(inside.strip()))
