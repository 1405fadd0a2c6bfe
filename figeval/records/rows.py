"""One line of `predictions/<task>.jsonl`: named fields, typed numbers, no text of the benchmark.

The texts stay out because most licences do not allow passing them on; `--log_samples` adds them for one's own eyes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from figeval.types import (
    JSON,
    NO_SPAN,
    ChoiceExample,
    Example,
    GenerationExample,
    JointExample,
    PairExample,
    Prediction,
    RankingExample,
    SimilarityExample,
    Span,
    SpanExample,
    Value,
)

TOP = 10


def _choice(example: ChoiceExample, prediction: Prediction) -> JSON:
    return {"gold": example.gold, "scores": _finite(prediction.scores)}


def _ranking(example: RankingExample, prediction: Prediction) -> JSON:
    best = heapq.nlargest(TOP, range(len(prediction.scores)), key=prediction.scores.__getitem__)
    return {
        "gold": sorted(example.relevant),
        "top": [[index, *_finite([prediction.scores[index]])] for index in best],
        "relevant_scores": _finite([prediction.scores[index] for index in sorted(example.relevant)]),
    }


def _pair(example: PairExample, prediction: Prediction) -> JSON:
    return {"gold": example.label, "scores": _finite(prediction.scores)}


def _span(example: SpanExample, prediction: Prediction) -> JSON:
    return {"gold": _value(example.gold), "scores": _finite(prediction.scores)}


def _joint(example: JointExample, prediction: Prediction) -> JSON:
    return {**_ranking(example, prediction), "parts": [_part(part) for part in prediction.parts]}


def _generation(_example: GenerationExample, prediction: Prediction) -> JSON:
    return {"gold": None, "scores": _finite(prediction.scores)}


def _similarity(example: SimilarityExample, prediction: Prediction) -> JSON:
    return {"gold": example.motif, "scores": _finite(prediction.scores)}


SPECIFIC: dict[type, Callable[[Any, Prediction], JSON]] = {
    ChoiceExample: _choice,
    RankingExample: _ranking,
    PairExample: _pair,
    SpanExample: _span,
    JointExample: _joint,
    GenerationExample: _generation,
    SimilarityExample: _similarity,
}


def _finite(scores: Sequence[float]) -> list[float | str | None]:
    """Scores as JSON knows them: NaN is null, infinities are the strings "inf" and "-inf"."""
    return [score if math.isfinite(score) else None if math.isnan(score) else str(score) for score in scores]


def _value(value: Value | None) -> int | str | list[int] | None:
    """An answer as JSON knows it."""
    if isinstance(value, Span):
        return [] if value == NO_SPAN else [value.start, value.end]
    return value


def _part(part: Prediction) -> JSON:
    """The span that was found for one part of a joint example."""
    row: JSON = {"id": part.example_id, "status": part.status, "pred": _value(part.value)}
    if part.scores:
        row["scores"] = _finite(part.scores)
    return row | _written(part)


def _written(prediction: Prediction) -> JSON:
    """What a model wrote and how it ended, as far as there is anything."""
    said = {"raw": prediction.raw, "finish": prediction.finish, "error": prediction.error or None}
    return {key: value for key, value in said.items() if value is not None}


def _answer(answer: Prediction) -> JSON:
    """The answer to one order of the options."""
    row: JSON = {"order": list(answer.order), "status": answer.status, "pred": _value(answer.value)}
    if answer.scores:
        row |= {"scores": _finite(answer.scores), "tied": answer.tied}
    return row | _written(answer)


def prediction_row(
    example: Example, prediction: Prediction, metrics: Mapping[str, float | list[float]], *, samples: bool
) -> JSON:
    """The row of one example. `metrics` holds per metric what scores are summed up from later."""
    row: JSON = {
        "id": example.id,
        "status": prediction.status,
        "pred": prediction.source or _value(prediction.value),
        **SPECIFIC[type(example)](example, prediction),
        "tied": prediction.tied,
        "truncated": prediction.truncated,
        "metrics": dict(metrics),
        "cluster": example.cluster,
        "group": example.group,
        "meta": dict(example.meta),
    }
    row |= _written(prediction)
    if prediction.priors:
        row["priors"] = _finite(prediction.priors)
    if prediction.answers:
        row["answers"] = [_answer(answer) for answer in prediction.answers]
    if samples:
        row["texts"] = list(example.texts) if len(example.texts) <= 16 else [example.texts[0]]
        row["all_scores"] = _finite(prediction.scores)
    return row
