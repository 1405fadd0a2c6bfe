"""Rows of a finished task, computed again from what the rows store and from the task's examples.

A reply in words is read again. Any other prediction is restored from its row, and its metrics are computed anew. Not
every row suffices for that: a ranking stores the ten best of its candidates, and some ties are stored as a number only.
Such rows keep their metrics and are counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from figeval import Batched, Collective, Example, FigevalError, Prediction, TaskSpec
from figeval.io.text import one_line
from figeval.plugins import describe
from figeval.records.predictions import PredictionRow, prediction_row
from figeval.runs.rescore import AnswerReader
from figeval.runs.score import MetricSet
from figeval.wings.verify.json_differences import find_differences

OF_THE_DATA = ("gold", "cluster", "group", "meta", "language", "choice")  # fields that come from the example
NOT_READ = ("metrics", "remarks", "seen")  # fields that a reader of replies does not make
STORED_IN_FULL = ("pred", "scores", "parts", "details", "top", "relevant_scores")  # equal if nothing is missing
INCOMPLETE = "do not store all that their metrics are computed from, e.g. only the ten best candidates"


@dataclass(slots=True)
class RecomputedRows:
    """The rows of one task, computed again.

    Attributes:
        task: the task.
        examples: its examples by id.
        metrics: its metrics.
        pool: function that returns the training examples, whose texts a row may name instead of repeating.
        problems: what is wrong with the stored rows, each naming a row and a field.
        rounding: values that differ by rounding only.
        n_recomputed: number of rows whose metrics were computed again.
        gaps: reason → number of rows whose metrics could not be computed again.
        metric_gaps: metric → reason why it was not computed again.
    """

    task: TaskSpec
    examples: Mapping[str, Example]
    metrics: MetricSet
    pool: Callable[[], Sequence[Example]]
    problems: list[str] = field(default_factory=list)
    rounding: list[str] = field(default_factory=list)
    n_recomputed: int = 0
    gaps: Counter[str] = field(default_factory=Counter)
    metric_gaps: dict[str, str] = field(default_factory=dict)
    _row_metrics: MetricSet = field(init=False)  # those that one row suffices for
    _texts: dict[str, str] | None = None

    def __post_init__(self) -> None:
        row_metrics = []
        for metric in self.metrics.metrics:
            statistic = self.metrics.statistics[metric.name]
            if isinstance(statistic, Batched):
                self.metric_gaps[metric.name] = "computed for many rows in one call, as by a model"
            elif not isinstance(statistic, Collective):
                row_metrics.append(metric)
        self._row_metrics = MetricSet(row_metrics, self.task.labels, self.metrics.as_read)

    def compare(self, rows: Sequence[PredictionRow], settings: Mapping[str, Any], reader: AnswerReader | None) -> None:
        """Compute rows again and compare them with the stored ones.

        Args:
            rows: stored rows of the task.
            settings: settings of the task's record.
            reader: reader of the stored replies, or None if answers are not in words or another version read them.
        """
        known_rows = [row for row in rows if row["id"] in self.examples]
        for row in rows:
            if row["id"] not in self.examples:
                self.problems.append(f"row {one_line(row['id'], 60)!r} is for an example that the run does not have")
        answered_ids = {row["id"] for row in known_rows}
        for example_id in self.examples:
            if example_id not in answered_ids:
                self.problems.append(f"there is no row for {one_line(example_id, 60)!r}")
        if reader is not None:
            self._read_replies(known_rows, reader)
        else:
            for row in known_rows:
                self._restore(row)
        if self.metrics.collective:
            self._compute_collective(rows, settings)

    def _compute_collective(self, rows: Sequence[PredictionRow], settings: Mapping[str, Any]) -> None:
        names = self.metrics.collective
        try:
            computed_rows = self.metrics.related(rows, settings)
        except Exception as error:  # rows of earlier versions, and damaged ones, may lack what a metric needs
            reason = f"which cannot be computed from the stored rows ({describe(error)})"
            self.metric_gaps |= dict.fromkeys(names, reason)
            return
        for row, computed in zip(rows, computed_rows, strict=True):
            self._compare(row["id"], _metrics(row, names), _metrics(computed, names))

    def _compare(self, row_id: str, stored: Mapping[str, Any], computed: Mapping[str, Any]) -> None:
        """Add the differences of a row; annotations that were added to the data later are none."""
        if "meta" in computed:
            new_annotations = set(self.task.annotations).difference(stored["meta"])
            meta = {key: value for key, value in computed["meta"].items() if key not in new_annotations}
            computed = {**computed, "meta": meta}
        for difference in find_differences(stored, _as_json(computed)):
            text = f"row {one_line(row_id, 60)!r}: {difference.describe('recomputed')}"
            (self.rounding if difference.is_rounding else self.problems).append(text)

    def _read_replies(self, rows: Sequence[PredictionRow], reader: AnswerReader) -> None:
        try:
            computed_rows = list(replace(reader, metrics=self._row_metrics).rows(rows, self.examples.values()))
        except FigevalError as error:
            self.problems.append(f"the stored replies cannot be read again: {error}")
            return
        for row, computed in zip(rows, computed_rows, strict=True):
            self.n_recomputed += 1
            facts = _facts(self.examples[row["id"]])
            self._compare(row["id"], self._without_notes(row), {**self._without_notes(computed), **facts})

    def _without_notes(self, row: PredictionRow) -> dict[str, Any]:
        """Return a row without the fields that a reader of replies does not make, and with the metrics of one row."""
        fields = {key: value for key, value in row.items() if key not in NOT_READ}
        return {**fields, **_metrics(row, self._row_metrics.statistics)}

    def _restore(self, row: PredictionRow) -> None:
        """Restore the prediction of a row and compare what it has from the example, and its metrics."""
        example = self.examples[row["id"]]
        stored: dict[str, Any] = dict(row)
        prediction = self._prediction(row)
        computed = self._row(example, prediction)
        if computed is None:
            facts = _facts(example) | {"gold": self.task.task_type.gold(example)}
        else:
            facts = {key: computed[key] for key in OF_THE_DATA if key in computed}
            if row.get("choice") and computed.get("choice"):  # what was chosen depends on ties
                facts["choice"] = {**computed["choice"], "chosen": stored["choice"]["chosen"]}
        stored_facts = {
            key: stored[key] for key in OF_THE_DATA if key in stored and (key in facts or key == "language")
        }
        self._compare(row["id"], stored_facts, facts)
        if computed is None or any(computed.get(key) != stored.get(key) for key in STORED_IN_FULL):
            self.gaps[INCOMPLETE] += 1
            return
        try:
            metrics = {"metrics": self._row_metrics.features(example, prediction)}
        except Exception:  # a metric may need what was not stored, too
            self.gaps[INCOMPLETE] += 1
            return
        stored_metrics = _metrics(row, self._row_metrics.statistics)
        differences = find_differences(stored_metrics, _as_json(metrics))
        if row["tied"] > 1 and any(not difference.is_rounding for difference in differences):
            self.gaps["have tied answers, of which only the number is stored"] += 1
            return
        self.n_recomputed += 1
        self._compare(row["id"], stored_metrics, metrics)

    def _row(self, example: Example, prediction: Prediction) -> dict[str, Any] | None:
        """Return the row that is made of a restored prediction, or None if it lacks what the task type needs."""
        try:
            row = prediction_row(self.task.task_type, example, prediction, {}, samples=False)
            return _as_json(row)  # type: ignore[no-any-return]
        except Exception:  # row() of a task type may raise anything if values that were not stored are missing
            return None

    def _prediction(self, row: PredictionRow) -> Prediction:
        """Return the prediction of a row, as far as it is stored, with the text that it names."""
        prediction = restore_prediction(self.task, row)
        if not isinstance(prediction.value, str) or self.task.labels or prediction.raw is not None:
            return prediction
        if self._texts is None:
            self._texts = {example.id: self.task.task_type.answer_text(example) for example in self.pool()}
        text = self._texts.get(prediction.value)
        return prediction if text is None else replace(prediction, value=text, source=prediction.value)


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _metrics(row: PredictionRow, names: Container[str]) -> dict[str, Any]:
    return {"metrics": {name: value for name, value in row["metrics"].items() if name in names}}


def _facts(example: Example) -> dict[str, Any]:
    facts = {"cluster": example.cluster, "group": example.group, "meta": dict(example.meta)}
    return facts | ({"language": example.language} if example.language else {})


# ---- predictions from rows -------------------------------------------------------------------------------------------


def restore_prediction(task: TaskSpec, row: PredictionRow) -> Prediction:
    """Return the prediction that a row was made of, as far as the row stores it."""
    scores = _numbers(row.get("all_scores") or row.get("scores") or ())
    return Prediction(
        example_id=row["id"],
        value=task.task_type.from_json(row["pred"]),
        scores=scores,
        labels=task.labels if len(scores) == len(task.labels) else (),
        status=row["status"],
        raw=row.get("raw"),
        tied=row["tied"],
        truncated=row["truncated"],
        straddling=row.get("straddling", False),
        priors=_numbers(row.get("priors", ())),
        finish=row.get("finish"),
        error=row.get("error", ""),
        answers=tuple(_answers(task, row)),
    )


def _answers(task: TaskSpec, row: PredictionRow) -> Iterator[Prediction]:
    for answer in row.get("answers", ()):
        yield Prediction(
            example_id=row["id"],
            value=task.task_type.from_json(answer["pred"]),
            scores=_numbers(answer.get("scores", ())),
            status=answer["status"],
            raw=answer.get("raw"),
            tied=answer.get("tied", 1),
            finish=answer.get("finish"),
            error=answer.get("error", ""),
            order=tuple(answer["order"]),
        )


def _numbers(stored: Sequence[Any]) -> tuple[float, ...]:
    """Return stored scores as numbers: null is NaN, and infinities are texts."""
    return tuple(float("nan") if score is None else float(score) for score in stored)
