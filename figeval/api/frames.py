"""Scores, predictions and comparisons as pandas DataFrames, whose columns and dtypes do not depend on their content.

Texts are `string`, numbers that may be missing `float64` with NaN, counts `Int64`; answers keep the form of their task
type and are `object`. pandas is an optional dependency (`figeval[notebook]`) and is imported on first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from figeval.errors import FigevalError
from figeval.records.conditions import described
from figeval.records.predictions import PredictionRow
from figeval.records.schema import BaselineRecord, RunRecord, ScoreRecord, TaskRecord
from figeval.types import JSON

if TYPE_CHECKING:
    import pandas

    from figeval.evaluation.comparisons import RankedRun, RunComparisons
    from figeval.records.training import TrainingRecord

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
WRITTEN = {"raw": "string", "finish": "string", "error": "string"}  # columns of models that write text
DIFFERENCES = {
    "run_a": "Int64",
    "run_b": "Int64",
    "task": "string",
    "metric": "string",
    "a": "float64",
    "b": "float64",
    "difference": "float64",
    "low": "float64",
    "high": "float64",
    "stderr": "float64",
    "p": "float64",
    "p_adjusted": "float64",
    "detectable": "float64",
    "p_equivalence": "float64",
    "n": "Int64",
    "clusters": "Int64",
    "effective_clusters": "float64",
    "interval": "string",
    "test": "string",
    "only_in_a": "Int64",
    "only_in_b": "Int64",
    "unanswered": "Int64",
    "seen": "Int64",
}


RANKS = {
    "task": "string",
    "run": "Int64",
    "label": "string",
    "value": "float64",
    "rank": "Int64",
    "best": "Int64",
    "worst": "Int64",
    "n": "Int64",
}


def table(rows: Iterable[Mapping[str, object]], dtypes: Mapping[str, str]) -> pandas.DataFrame:
    """Return rows as a DataFrame with exactly these columns; fields that a row does not have are missing values.

    Raises:
        FigevalError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise FigevalError("DataFrames need pandas; pip install 'figeval[notebook]'") from error
    cells = list(rows)
    columns = {name: pandas.Series([row.get(name) for row in cells], dtype=kind) for name, kind in dtypes.items()}
    return pandas.DataFrame(columns)


def scores(record: RunRecord) -> pandas.DataFrame:
    """Return one row per task or contrast and metric, with a float column `baseline_NAME` for each trivial model."""
    rows: list[JSON] = []
    for task in record.tasks:
        rows += _rows_of(record, task, task.scores, task.baselines, "all")
        for one in task.languages:
            rows += _rows_of(record, task, one.scores, one.baselines, one.language)
        if task.overlap is not None:
            rows += _rows_of(record, task, task.overlap.scores, task.overlap.baselines, "unseen")
    for contrast in record.contrasts:
        about = {**_about(record), "task": contrast.name, "kind": "contrast", "examples": "all"}
        rows += [{**about, **_score(score), **_beside(score, contrast.baselines)} for score in contrast.scores]
    baselines = dict.fromkeys(name for row in rows for name in row if name.startswith("baseline_"))
    return table(rows, SCORES | dict.fromkeys(baselines, "float64"))


def _rows_of(
    record: RunRecord, task: TaskRecord, found: Iterable[ScoreRecord], trivial: Sequence[BaselineRecord], which: str
) -> Iterator[JSON]:
    """Yield the scores of a task on all of its examples, on those in one language, or on the unseen ones."""
    about = {**_about(record), **{name: getattr(task, name) for name in TASK}, "examples": which}
    about["conditions"] = described(task)
    for score in found:
        yield {**about, **_score(score), **_beside(score, trivial)}


def _beside(score: ScoreRecord, trivial: Iterable[BaselineRecord]) -> JSON:
    """Return the trivial models' values of a score's metric, by column."""
    return {
        f"baseline_{baseline.baseline}": other.value
        for baseline in trivial
        for other in baseline.scores
        if other.metric == score.metric
    }


def _about(record: RunRecord) -> JSON:
    return {"run": record.identity, "model": record.model.name}


def _score(score: ScoreRecord) -> JSON:
    return {name: getattr(score, name) for name in SCORE}


def macro(record: RunRecord) -> pandas.DataFrame:
    """Return one row per suite and metric."""
    return table(({**_about(record), **one.model_dump()} for one in record.macro), MACRO)


def breakdown(record: RunRecord) -> pandas.DataFrame:
    """Return one row per task, group and metric of all breakdowns in the record."""
    rows = (
        {**_about(record), "task": task.task, "by": found.by, "group": group.value, **_score(score)}
        for task in record.tasks
        for found in task.breakdowns
        for group in found.groups
        for score in group.scores
    )
    return table(rows, BREAKDOWN)


def predictions(stored: Iterable[PredictionRow]) -> pandas.DataFrame:
    """Return one row per example: the answer, the value of each metric, and the columns `meta.NAME`."""
    found = list(stored)
    metrics = {name: value for row in found for name, value in row["metrics"].items()}
    columns = {
        name: name if name not in PREDICTIONS.keys() | WRITTEN.keys() | {"language"} else f"metric.{name}"
        for name in metrics
    }
    rows = [
        {
            **dict(row),
            "prediction": row["pred"],
            **{columns[name]: value for name, value in row["metrics"].items()},
            **{f"meta.{name}": value for name, value in row["meta"].items()},
        }
        for row in found
    ]
    kinds = {columns[name]: "object" if isinstance(value, list) else "float64" for name, value in metrics.items()}
    meta = dict.fromkeys((f"meta.{name}" for row in found for name in row["meta"]), "string")
    optional = {"language": "string", **WRITTEN}
    words = {name: kind for name, kind in optional.items() if any(row.get(name) for row in found)}
    head = {name: kind for name, kind in PREDICTIONS.items() if name in ("id", "status", "prediction", "gold")}
    return table(rows, {**head, **kinds, **PREDICTIONS, **words, **meta})


def differences(result: RunComparisons) -> pandas.DataFrame:
    """Return one row per pair of runs and task."""
    rows = (
        {
            "run_a": places[0],
            "run_b": places[1],
            "task": one.task,
            "metric": result.metric,
            **{name: getattr(one.comparison, name) for name in DIFFERENCES if hasattr(one.comparison, name)},
            "a": one.comparison.value_a,
            "b": one.comparison.value_b,
            "p_adjusted": one.p_adjusted,
            "detectable": one.detectable,
            "p_equivalence": one.p_equivalence,
            "only_in_a": one.unmatched_a,
            "only_in_b": one.unmatched_b,
            "unanswered": one.unanswered,
            "seen": one.seen,
        }
        for places, pair in result.pairs.items()
        for one in pair.tasks
    )
    return table(rows, DIFFERENCES)


def ranks(ranked: Iterable[RankedRun], labels: Sequence[str]) -> pandas.DataFrame:
    """Return one row per task and run."""
    rows = ({**asdict(one), "label": labels[one.run]} for one in ranked)
    return table(rows, RANKS)


def evaluations(record: TrainingRecord) -> pandas.DataFrame:
    """Return one row per evaluation on dev: the step, a column per metric, and whether it was the best."""
    scored = list(record.scored_steps())
    names = dict.fromkeys(name for one in scored for name in one.scores)
    rows = ({"step": one.step, **one.scores, "best": one.step == record.best} for one in scored)
    return table(rows, {"step": "Int64", **dict.fromkeys(names, "float64"), "best": "bool"})
