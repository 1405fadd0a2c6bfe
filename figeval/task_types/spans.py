"""Spans: the stretch of a text that stands for something given."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from figeval.answers.reading import read_quote
from figeval.task_types.routes import Briefing, Dialogue
from figeval.task_types.similarity import cosines
from figeval.task_types.windows import windows
from figeval.types import NO_SPAN, Prediction, ScoredSpan, Span, SpanExample, SpanQuery, Text, TextPair


def by_head(example: SpanExample, _briefing: Briefing) -> Dialogue:
    """The best span of a model that points at one (Ghosh and Srivastava 2022, section 5.2)."""
    (found,) = yield [SpanQuery(example.text, example.given, example.known)]
    return first_of(example, list(found))


def by_window_cosine(example: SpanExample, _briefing: Briefing) -> Dialogue:
    """The window whose embedding is closest to that of the given span; windows that the model has no word of (the
    vector is zero) are no candidates.
    """
    places = windows(example.text)
    given, *others = yield [Text(example.given), *map(Text, texts_of(example, places))]
    known = [index for index, vector in enumerate(others) if np.any(vector)]
    scores = cosines(given, [others[index] for index in known]) if known else ()
    return best_of(example, [places[index] for index in known], list(map(float, scores)))


def by_window_score(example: SpanExample, _briefing: Briefing) -> Dialogue:
    """The window that the model scores as closest to the given span."""
    places = windows(example.text)
    scores = yield [TextPair(example.given, text) for text in texts_of(example, places)]
    return best_of(example, places, list(map(float, scores)))


def by_json(example: SpanExample, briefing: Briefing) -> Dialogue:
    """The stretch that the model quotes, found again in the text."""
    (reply,) = yield [briefing.prompt("json", example)]
    return read_quote(example, briefing, reply)


def texts_of(example: SpanExample, places: Sequence[Span]) -> list[str]:
    """What stands in the text at these places."""
    return [example.text[place.start : place.end] for place in places]


def first_of(example: SpanExample, found: Sequence[ScoredSpan]) -> Prediction:
    """The best of the spans that a model found; an empty one says that there is none.

    Raises:
        ValueError: one lies outside the text.
    """
    spans, scores = [one.span for one in found], [float(one.score) for one in found]
    spans = [NO_SPAN if span.start == span.end else span for span in spans]
    if any(not 0 <= span.start <= span.end <= len(example.text) for span in spans):
        raise ValueError(f"{spans} do not lie in the text of {example.id!r}, which has {len(example.text)} characters")
    return best_of(example, spans, scores)


def best_of(example: SpanExample, spans: Sequence[Span], scores: Sequence[float]) -> Prediction:
    """The span with the best score; without any span the status is `empty`, with a NaN among the scores `nan`.

    Of spans that tie (`tied` counts them) the first is the value, and all are kept (`alike`): metrics score them by
    expectation. The first alone would do wrong: a model that sees nothing in common ties all windows of a text, and
    would seem to know that the answer stands at the beginning.
    """
    if not spans:
        return Prediction(example_id=example.id, value=None, status="empty")
    if any(map(math.isnan, scores)):
        return Prediction(example_id=example.id, value=None, scores=(math.nan,), status="nan")
    best = max(scores)
    alike = tuple(span for span, score in zip(spans, scores, strict=True) if score == best)
    kept = alike if len(alike) > 1 else ()
    return Prediction(example_id=example.id, value=alike[0], scores=(best,), tied=len(alike), alike=kept)
