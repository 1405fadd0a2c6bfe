"""Scores and predictions as pandas DataFrames, whose columns and dtypes do not depend on their content.

Texts are `string`, numbers that may be missing `float64` with NaN, counts `Int64`; answers keep the form of their task
type and are `object`. pandas is an optional dependency (`figeval[notebook]`) and is imported on first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from figeval.records.conditions import describe_conditions
from figeval.records.predictions import PredictionRow
from figeval.records.schema import BaselineRecord, RunRecord, ScoreRecord, TaskPart, TaskRecord, baseline_scores
from figeval.reporting.grid import data_frame
from figeval.types import JSON

if TYPE_CHECKING:
    import pandas

ABOUT_RUN = {"run": "string", "model": "string"}
SCORE = {
    "metric": "string",
    "value": "float64",
    "low": "float64",
    "high": "float64",
    "stderr": "float64",
    "n": "Int64",
    "clusters": "Int64",
    "effective_clusters": "float64",
    "interval": "string",
    "higher_is_better": "bool",
    "seen": "string",
}
TASK = {"task": "string", "kind": "string", "task_type": "string", "route": "string"}
SCORES = {**ABOUT_RUN, **TASK, "conditions": "string", "examples": "string", **SCORE}
BREAKDOWN = {**ABOUT_RUN, "task": "string", "by": "string", "group": "string", **SCORE}
MACRO = {
    **ABOUT_RUN,
    "suite": "string",
    "metric": "string",
    "value": "float64",
    "tasks": "Int64",
    "seen": "string",
}
VARIANCES = {
    **ABOUT_RUN,
    "task": "string",
    "metric": "string",
    "samples": "Int64",
    "prompts": "Int64",
    "items": "Int64",
    **dict.fromkeys(("mean", "low", "high", "stderr"), "float64"),
    "interval": "string",
    **dict.fromkeys(("sampling", "interaction", "between_items", "between_clusters", "between_prompts"), "float64"),
    "sampling_share": "float64",
    "enough_samples": "Int64",
}
PREDICTIONS = {
    "id": "string",
    "status": "string",
    "prediction": "object",
    "gold": "object",
    "tied": "Int64",
    "truncated": "bool",
    "seen": "string",
    "cluster": "string",
    "group": "string",
}
SAMPLE_DTYPES = {"texts": "object", "options": "object"}  # columns of runs that store texts
REPLY_DTYPES = {"raw": "string", "finish": "string", "error": "string"}  # columns of models that write text


def scores(record: RunRecord) -> pandas.DataFrame:
    """Return one row per task or contrast and metric, with a float column `baseline_NAME` for each trivial model."""
    rows: list[JSON] = []
    for task in record.tasks:
        for part in task.parts_after_all():
            rows += _rows_of(record, task, part)
    for contrast in record.contrasts:
        about = {**_about(record), "task": contrast.name, "kind": "contrast", "examples": "all"}
        rows += [{**about, **_score(score), **_beside(score, contrast.baselines)} for score in contrast.scores]
    baselines = dict.fromkeys(name for row in rows for name in row if name.startswith("baseline_"))
    return data_frame(rows, SCORES | dict.fromkeys(baselines, "float64"))


def _rows_of(record: RunRecord, task: TaskRecord, part: TaskPart) -> Iterator[JSON]:
    """Yield the scores of a task on all of its examples, on those in one language, or on the unseen ones."""
    examples = {"": "all", "remaining": "unseen"}.get(part.name, part.name)
    about = {**_about(record), **{name: getattr(task, name) for name in TASK}, "examples": examples}
    about["conditions"] = describe_conditions(task)
    for score in part.scores:
        yield {**about, **_score(score), **_beside(score, part.baselines)}


def _beside(score: ScoreRecord, trivial: Iterable[BaselineRecord]) -> JSON:
    """Return the trivial models' values of a score's metric, by column."""
    return {f"baseline_{name}": other.value for name, other in baseline_scores(trivial, score.metric).items()}


def _about(record: RunRecord) -> JSON:
    return {"run": record.identity, "model": record.model.name}


def _score(score: ScoreRecord) -> JSON:
    stored = score.model_dump()
    return {name: stored[name] for name in SCORE}


def macro(record: RunRecord) -> pandas.DataFrame:
    """Return one row per suite and metric."""
    return data_frame(({**_about(record), **mean.model_dump()} for mean in record.macro), MACRO)


def variances(record: RunRecord) -> pandas.DataFrame:
    """Return one row per task and metric of sampled answers."""
    return data_frame(({**_about(record), **variance.model_dump()} for variance in record.variances), VARIANCES)


def breakdown(record: RunRecord) -> pandas.DataFrame:
    """Return one row per task, group and metric of all breakdowns in the record."""
    rows = (
        {**_about(record), "task": task.task, "by": table.by, "group": group.value, **_score(score)}
        for task in record.tasks
        for table in task.breakdowns
        for group in table.groups
        for score in group.scores
    )
    return data_frame(rows, BREAKDOWN)


def predictions(stored: Iterable[PredictionRow], *, has_options: bool) -> pandas.DataFrame:
    """Return one row per example: the answer, the value of each metric, stored texts, and the columns `meta.NAME`.

    With `has_options`, the texts of an example are a question and its options.
    """
    stored_rows = list(stored)
    metrics = {name: value for row in stored_rows for name, value in row["metrics"].items()}
    reserved = {*PREDICTIONS, *REPLY_DTYPES, *SAMPLE_DTYPES, "language"}
    columns = {name: f"metric.{name}" if name in reserved else name for name in metrics}
    rows = [
        {
            **dict(row),
            "prediction": row["pred"],
            "options": row.get("texts", [])[1:] or None,
            **{columns[name]: value for name, value in row["metrics"].items()},
            **{f"meta.{name}": value for name, value in row["meta"].items()},
        }
        for row in stored_rows
    ]
    kinds = {columns[name]: "object" if isinstance(value, list) else "float64" for name, value in metrics.items()}
    meta = dict.fromkeys((f"meta.{name}" for row in stored_rows for name in row["meta"]), "string")
    optional = {"language": "string", **REPLY_DTYPES}
    words = {name: kind for name, kind in optional.items() if any(row.get(name) for row in stored_rows)}
    stores_texts = any("texts" in row for row in stored_rows)
    samples = {name: kind for name, kind in SAMPLE_DTYPES.items() if stores_texts and (has_options or name == "texts")}
    head = {name: kind for name, kind in PREDICTIONS.items() if name in ("id", "status", "prediction", "gold")}
    return data_frame(rows, {**head, **kinds, **PREDICTIONS, **words, **samples, **meta})
