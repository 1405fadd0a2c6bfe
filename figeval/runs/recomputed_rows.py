"""Rows of a finished task, computed again from what they store and from the task's examples."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from figeval.metrics.statistic import Batched, Collective
from figeval.plugins import describe
from figeval.records.answer_rows import SampleRow
from figeval.records.predictions import PredictionRow, prediction_row, sample_rows, with_samples
from figeval.runs.plan import Plan
from figeval.runs.rescore import AnswerReader
from figeval.runs.score import MetricSet, mean_metrics
from figeval.spec import TaskSpec
from figeval.task_types.choice import Choice
from figeval.task_types.label_words import SingleLabelType
from figeval.types import Example, Prediction

ROW_OF_EXAMPLE = ("gold", "choice", "texts")  # fields of a row that its task type makes of the example alone
STORED_IN_FULL = ("pred", "scores", "parts", "details", "top", "relevant_scores")  # equal if nothing is missing
INCOMPLETE = "do not store all that their metrics are computed from, e.g. only the ten best candidates"
TIED = "have tied answers, of which only the number is stored"


class RowRecomputation:
    """Computes the rows of one task again.

    A reply in words is read again. Any other prediction is restored from its row, and its metrics are computed anew.
    Not every row suffices for that: a ranking stores the ten best of its candidates, and some ties are stored as a
    number only. Such rows keep their metrics and are counted.

    Attributes:
        n_recomputed: number of rows whose metrics were computed again.
        gaps: reason → number of rows whose metrics could not be computed again.
        metric_gaps: metric → reason why it was not computed again.
    """

    def __init__(self, plan: Plan, examples: Mapping[str, Example], metrics: MetricSet) -> None:
        self.n_recomputed = 0
        self.gaps: Counter[str] = Counter()
        self.metric_gaps: dict[str, str] = {}
        self._plan, self._task, self._examples, self._metrics = plan, plan.task, examples, metrics
        alone = []
        for metric in metrics.metrics:
            statistic = metrics.statistics[metric.name]
            if isinstance(statistic, Batched):
                self.metric_gaps[metric.name] = "computed for many rows in one call, as by a model"
            elif not isinstance(statistic, Collective):
                alone.append(metric)
        self._row_metrics = MetricSet(alone, self._task.labels, metrics.as_read)  # those that one row suffices for

    def reread(self, rows: Sequence[PredictionRow], reader: AnswerReader) -> Iterator[PredictionRow]:
        """Yield the rows with their replies read again.

        Raises:
            FigevalError: a reply cannot be read.
        """
        answers = replace(reader, metrics=self._row_metrics).rows(
            [row for row in rows if row["id"] in self._examples], self._examples.values()
        )
        for row in rows:
            if row["id"] not in self._examples:
                yield row
                continue
            self.n_recomputed += 1
            new = dict[str, Any](next(answers)) | self._facts(row)
            yield self._with_metrics(row, new | ({"remarks": row["remarks"]} if "remarks" in row else {}))

    def restored(self, row: PredictionRow) -> PredictionRow:
        """Return a row with what it has from its example, and with its metrics, computed again."""
        before, samples = self.n_recomputed, sample_rows(row)
        restored = [self._restored(sample) for sample in samples]
        if "samples" not in row:
            return restored[0]
        self.n_recomputed = before + (self.n_recomputed - before == len(samples))  # rows are counted, not samples
        of_example = {name: value for name, value in restored[0].items() if name not in SampleRow.__annotations__}
        new = with_samples({**row, **of_example, "metrics": mean_metrics(restored)}, restored)  # type: ignore[typeddict-item]
        new["metrics"] |= self._row_metrics.of_samples(self._examples[row["id"]], new)
        return new

    def _restored(self, row: PredictionRow) -> PredictionRow:
        example, prediction = self._examples[row["id"]], self._prediction(row)
        try:
            computed = as_json(prediction_row(self._task.task_type, example, prediction, {}, samples="texts" in row))
            is_whole = all(computed.get(key) == row.get(key) for key in STORED_IN_FULL)
        except Exception:  # row() of a task type may raise anything if values that were not stored are missing
            computed, is_whole = {"gold": self._task.task_type.gold(example)}, False
        new = dict[str, Any](row) | {key: computed[key] for key in ROW_OF_EXAMPLE if key in computed}
        new["pred"] = self._best_answer(row)
        if row["tied"] > 1 and row.get("choice") and new["choice"]:  # which of them were chosen is not stored otherwise
            new["choice"] = {**new["choice"], "chosen": dict[str, Any](row)["choice"]["chosen"]}
        new.pop("language", None)
        new |= self._facts(row)
        features = self._features(example, prediction) if is_whole else None
        if features is None:
            self.gaps[INCOMPLETE] += 1
            return as_json(new)  # type: ignore[no-any-return]
        rebuilt = self._with_metrics(row, new | {"metrics": features})
        if row["tied"] > 1 and rebuilt["metrics"] != row["metrics"]:
            self.gaps[TIED] += 1
            return {**rebuilt, "metrics": row["metrics"]}
        self.n_recomputed += 1
        return rebuilt

    def _best_answer(self, row: PredictionRow) -> Any:
        """Return the option or label whose stored score is the best, which all of figeval's own routes take.

        It is the stored answer if that is a best one, if the type or the route has another rule, or without scores.
        """
        scores = _numbers(row.get("scores", ()))
        answers: Sequence[Any] = self._task.labels or range(len(scores))
        by_score = isinstance(self._task.task_type, Choice | SingleLabelType) and self._plan.route.owner.startswith(
            "figeval."
        )
        if not by_score or row["status"] != "ok" or len(answers) != len(scores) or any(map(math.isnan, scores)):
            return row["pred"]
        best = [answer for answer, score in zip(answers, scores, strict=True) if score == max(scores)]
        return row["pred"] if row["pred"] in best or not best else best[0]

    def _features(self, example: Example, prediction: Prediction) -> dict[str, Any] | None:
        try:
            return {**self._row_metrics.features(example, prediction)}
        except Exception:  # a metric may need what was not stored, too
            return None

    def related(self, rows: list[PredictionRow], settings: Mapping[str, Any]) -> list[PredictionRow]:
        """Return the rows with the metrics that depend on other rows."""
        if not self._metrics.collective:
            return rows
        try:
            return list(map(as_json, self._metrics.related(rows, settings)))
        except Exception as error:  # rows of earlier versions, and damaged ones, may lack what a metric needs
            reason = f"which cannot be computed from the stored rows ({describe(error)})"
            self.metric_gaps |= dict.fromkeys(self._metrics.collective, reason)
            return rows

    def _facts(self, row: PredictionRow) -> dict[str, Any]:
        """Return what a row has from its example; an annotation that was added to the data later is left out."""
        example = self._examples[row["id"]]
        newer = set(self._task.annotations).difference(row["meta"])
        meta = {key: value for key, value in example.meta.items() if key not in newer}
        facts = {"cluster": example.cluster, "group": example.group, "meta": meta}
        return facts | ({"language": example.language} if example.language else {})

    def _with_metrics(self, row: PredictionRow, new: Mapping[str, Any]) -> PredictionRow:
        """Return a new row with the stored values of the metrics that one row does not suffice for."""
        samples = zip(row.get("samples", ()), new.get("samples", ()), strict=True)
        of_samples = [{**after, "metrics": self._merged(before, after)} for before, after in samples]
        rebuilt = {**new, "metrics": self._merged(row, new)} | ({"samples": of_samples} if of_samples else {})
        return as_json(rebuilt)  # type: ignore[no-any-return]

    def _merged(self, stored: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
        names: Container[str] = self._row_metrics.statistics
        return {**new["metrics"], **{name: value for name, value in stored["metrics"].items() if name not in names}}

    def _prediction(self, row: PredictionRow) -> Prediction:
        """Return the prediction of a row, as far as it is stored, with the text that it names."""
        prediction = restore_prediction(self._task, row)
        if not isinstance(prediction.value, str) or self._task.labels or prediction.raw is not None:
            return prediction
        text = self._pool_texts.get(prediction.value)
        return prediction if text is None else replace(prediction, value=text, source=prediction.value)

    @cached_property
    def _pool_texts(self) -> dict[str, str]:
        """Texts of the training examples, which a row may name instead of repeating, by id."""
        return {example.id: self._task.task_type.answer_text(example) for example in self._plan.context.pool()}


def as_json(value: Any) -> Any:
    """Return a value as it is read again from JSON: tuples are lists, and keys are texts."""
    return json.loads(json.dumps(value))


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
        dropped_shots=row.get("dropped_shots", 0),
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
