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

from figeval.errors import FigevalError
from figeval.io.text import one_line
from figeval.metrics.statistic import Batched, Collective
from figeval.plugins import describe
from figeval.records.predictions import AnswerRow, PredictionRow, prediction_row
from figeval.runs.rescore import RowReader
from figeval.runs.score import MetricSet
from figeval.spec import TaskSpec
from figeval.types import Example, Prediction
from figeval.wings.verify.differences import differences

OF_THE_DATA = ("gold", "cluster", "group", "meta", "language", "choice")  # fields that come from the example
NOT_READ = ("metrics", "remarks", "seen")  # fields that a reader of replies does not make
STORED_WHOLE = ("pred", "scores", "parts", "details", "top", "relevant_scores")  # equal if nothing is missing
NOT_ENOUGH = "do not store all that their metrics are computed from, e.g. only the ten best candidates"


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
        confirmed: number of rows whose metrics were computed again.
        left_out: metric → reason why it was not computed again.
        kept: reason → number of rows whose metrics could not be computed again.
    """

    task: TaskSpec
    examples: Mapping[str, Example]
    metrics: MetricSet
    pool: Callable[[], Sequence[Example]]
    problems: list[str] = field(default_factory=list)
    rounding: list[str] = field(default_factory=list)
    confirmed: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    kept: Counter[str] = field(default_factory=Counter)
    alone: MetricSet = field(init=False)  # the metrics that one row suffices for
    _texts: dict[str, str] | None = None

    def __post_init__(self) -> None:
        own = []
        for metric in self.metrics.metrics:
            statistic = self.metrics.statistics[metric.name]
            if isinstance(statistic, Batched):
                self.left_out[metric.name] = "computed for many rows in one call, as by a model"
            elif not isinstance(statistic, Collective):
                own.append(metric)
        self.alone = MetricSet(own, self.task.labels, self.metrics.as_read)

    def compare(self, rows: Sequence[PredictionRow], settings: Mapping[str, Any], reading: RowReader | None) -> None:
        """Compute rows again and compare them with the stored ones.

        Args:
            rows: stored rows of the task.
            settings: settings of the task's record.
            reading: reader of the stored replies, or None if answers are not in words or another version read them.
        """
        known = [row for row in rows if row["id"] in self.examples]
        for row in rows:
            if row["id"] not in self.examples:
                self.problems.append(f"row {one_line(row['id'], 60)!r} is for an example that the run does not have")
        have = {row["id"] for row in known}
        for name in (name for name in self.examples if name not in have):  # in the order of the examples
            self.problems.append(f"there is no row for {one_line(name, 60)!r}")
        if reading is not None:
            self._read_again(known, reading)
        else:
            for row in known:
                self._restore(row)
        if self.metrics.collective:
            try:
                after = self.metrics.related(rows, settings)
            except Exception as error:  # rows of earlier versions, and damaged ones, may lack what a metric needs
                why = f"which cannot be computed from the stored rows ({describe(error)})"
                self.left_out |= dict.fromkeys(self.metrics.collective, why)
                return
            for row, new in zip(rows, after, strict=True):
                self._note(row["id"], *(_part(each, self.metrics.collective) for each in (row, new)))

    def _note(self, row: str, stored: Mapping[str, Any], computed: Mapping[str, Any]) -> None:
        """Add the differences of a row; annotations that were added to the data later are none."""
        if "meta" in computed:
            later = set(self.task.annotations).difference(stored["meta"])
            meta = {key: value for key, value in computed["meta"].items() if key not in later}
            computed = {**computed, "meta": meta}
        for found in differences(stored, _as_json(computed)):
            text = f"row {one_line(row, 60)!r}: {found.told('is', 'recomputed')}"
            (self.rounding if found.is_rounding else self.problems).append(text)

    def _read_again(self, rows: Sequence[PredictionRow], reading: RowReader) -> None:
        """Read the stored replies again and compare the rows."""
        try:
            made = list(replace(reading, metrics=self.alone).rows(rows, self.examples.values()))
        except FigevalError as error:
            self.problems.append(f"the stored replies cannot be read again: {error}")
            return
        for row, new in zip(rows, made, strict=True):
            self.confirmed += 1
            names = self.alone.statistics
            one, other = (
                {**{key: each[key] for key in each if key not in NOT_READ}, **_part(each, names)}  # type: ignore[literal-required]
                for each in (row, new)
            )
            self._note(row["id"], one, {**other, **_facts(self.examples[row["id"]])})

    def _restore(self, row: PredictionRow) -> None:
        """Restore the prediction of a row and compare what it has from the example, and its metrics."""
        example = self.examples[row["id"]]
        prediction = self._prediction(row)
        try:
            made = _as_json(prediction_row(self.task.task_type, example, prediction, {}, samples=False))
        except Exception:  # row() of a task type may raise anything if values that were not stored are missing
            made = None
        facts = _facts(example) | ({"gold": self.task.task_type.gold(example)} if made is None else {})
        if made is not None:
            facts = {key: made[key] for key in OF_THE_DATA if key in made}
            if row.get("choice") and made.get("choice"):  # what was chosen depends on ties
                facts["choice"] = {**made["choice"], "chosen": row["choice"]["chosen"]}  # type: ignore[index]
        kept = {key: row[key] for key in OF_THE_DATA if key in row and (key in facts or key == "language")}  # type: ignore[literal-required]
        self._note(row["id"], kept, facts)
        if made is None or any(made.get(key) != row.get(key) for key in STORED_WHOLE):
            self.kept[NOT_ENOUGH] += 1
            return
        try:
            computed = self.alone.features(example, prediction)
        except Exception:  # a metric may need what was not stored, too
            self.kept[NOT_ENOUGH] += 1
            return
        stored = _part(row, self.alone.statistics)
        if row["tied"] > 1 and any(not one.is_rounding for one in differences(stored, _as_json({"metrics": computed}))):
            self.kept["have tied answers, of which only the number is stored"] += 1
            return
        self.confirmed += 1
        self._note(row["id"], stored, {"metrics": computed})

    def _prediction(self, row: PredictionRow) -> Prediction:
        """Return the prediction of a row, as far as it is stored, with the text that it names."""
        found = restored(self.task, row)
        if not isinstance(found.value, str) or self.task.labels or found.raw is not None:
            return found
        if self._texts is None:
            self._texts = {one.id: self.task.task_type.answer_text(one) for one in self.pool()}
        text = self._texts.get(found.value)
        return found if text is None else replace(found, value=text, source=found.value)


def _as_json(value: Any) -> Any:
    """Return a value as it is read after it was stored."""
    return json.loads(json.dumps(value))


def _part(row: PredictionRow, names: Container[str]) -> dict[str, Any]:
    """Return these metrics of a row."""
    return {"metrics": {name: value for name, value in row["metrics"].items() if name in names}}


def _facts(example: Example) -> dict[str, Any]:
    """Return the fields that every row has from its example."""
    found = {"cluster": example.cluster, "group": example.group, "meta": dict(example.meta)}
    return found | ({"language": example.language} if example.language else {})


# ---- predictions from rows -------------------------------------------------------------------------------------------


def restored(task: TaskSpec, row: PredictionRow) -> Prediction:
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
    stored: Sequence[AnswerRow] = row.get("answers", ())
    for answer in stored:
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
    return tuple(float("nan") if one is None else float(one) for one in stored)
