"""One line of `predictions/<task>.jsonl`: named fields, typed numbers, no text of the benchmark.

The texts stay out because most licences do not allow passing them on; `--log_samples` adds them for one's own eyes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from figeval.jsonfile import json_scores
from figeval.types import JSON, Example, Prediction, written

MOST_TEXTS = 16  # of an example that --log_samples keeps; of more only the first


class RowForm(Protocol):
    """What a task type says of its rows (`figeval.task_types.base.TaskType`)."""

    def row(self, example: Any, prediction: Prediction) -> JSON:
        """Return the fields that are this type's own."""

    def to_json(self, value: Any) -> Any:
        """Return an answer as JSON knows it."""


def _answer(form: RowForm, answer: Prediction) -> JSON:
    """The answer to one order of the options."""
    row: JSON = {"order": list(answer.order), "status": answer.status, "pred": form.to_json(answer.value)}
    if answer.scores:
        row |= {"scores": json_scores(answer.scores), "tied": answer.tied}
    return row | written(answer)


def prediction_row(
    form: RowForm,
    example: Example,
    prediction: Prediction,
    metrics: Mapping[str, float | list[float]],
    *,
    samples: bool,
) -> JSON:
    """The row of one example, in the form of its task type.

    `metrics` holds per metric what scores are summed up from later.
    """
    row: JSON = {
        "id": example.id,
        "status": prediction.status,
        "pred": prediction.source or form.to_json(prediction.value),
        **form.row(example, prediction),
        "tied": prediction.tied,
        "truncated": prediction.truncated,
        "metrics": dict(metrics),
        "cluster": example.cluster,
        "group": example.group,
        "meta": dict(example.meta),
    }
    if example.language:
        row["language"] = example.language
    row |= written(prediction)
    if prediction.priors:
        row["priors"] = json_scores(prediction.priors)
    if prediction.answers:
        row["answers"] = [_answer(form, answer) for answer in prediction.answers]
    if samples:
        row["texts"] = list(example.texts) if len(example.texts) <= MOST_TEXTS else [example.texts[0]]
        row["all_scores"] = json_scores(prediction.scores)
    return row
