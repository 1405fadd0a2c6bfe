"""Audit of the options of a multiple-choice task: accuracy of simple rules with clustered intervals, versus chance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from figeval import (
    Column,
    Example,
    Harness,
    MetricAggregator,
    RecordError,
    Result,
    Run,
    Score,
    Table,
    TaskError,
    TaskSpec,
    mean_of,
)
from figeval.reporting.grid import EMPTY_CELL
from figeval.wings.audit.blind_rules import Rule, Scores, blind_rules, read_items
from figeval.wings.audit.question_rules import question_rules


@dataclass(frozen=True, slots=True)
class RuleScore:
    """One rule with its accuracy and clustered 95 % interval."""

    rule: Rule
    score: Score
    chance: float

    @property
    def is_off(self) -> bool:
        """True if chance lies outside the interval or, without an interval, differs from the accuracy."""
        value, low, high = self.score.value, self.score.low, self.score.high
        if value is None or low is None or high is None:
            return value is not None and abs(value - self.chance) > 1e-9
        return not low <= self.chance <= high


@dataclass(frozen=True, slots=True)
class Audit(Result):
    """The scores of all rules on one task's test split; `chance` is the mean of 1/options."""

    task: TaskSpec
    n: int
    clusters: int
    chance: float
    findings: tuple[RuleScore, ...]

    @property
    def tables(self) -> list[Table[RuleScore]]:
        """One row per rule: `rule`, `knows` (what it knows), `accuracy`, `low`, `high`, `n`, `clusters`, `is_off`."""
        clusters = f"{self.clusters} cluster{'s' * (self.clusters != 1)}"
        title = f"{self.task.name}, version {self.task.version}: {self.n} examples, {clusters}"
        return [Table(COLUMNS, self.findings, f"{title}, chance {_decimals(self.chance)}")]

    def notes(self) -> Iterable[str]:
        return ["* the interval does not contain chance"] if any(score.is_off for score in self.findings) else []


def audit(task: TaskSpec, harness: Harness, seed: int = 0, runs: Sequence[Run] = ()) -> Audit:
    """Measure every rule on a task's test split; examples without a gold option are left out.

    Raises:
        RecordError: one of the runs has no scores for the options of these examples.
        TaskError: the task is not a multiple-choice task, or fewer than two of its examples have a gold option.
        DataError: the data are missing or invalid.
    """
    options, gold = task.task_type.options, task.task_type.gold_fields[0]
    if not options:
        raise TaskError(f"{task.name} is a {task.type} task; an audit is for tasks of the type choice")
    examples = [
        task.with_language(example) for example in harness.examples(task) if isinstance(getattr(example, gold), int)
    ]
    if not examples:
        raise TaskError(f"{task.name}: all gold options are hidden, so nothing can be audited")
    if len(examples) == 1:
        raise TaskError(
            f"{task.name}: only 1 example has a gold option; an audit learns from one half of the examples what the "
            "options of the other half give away, so add examples"
        )
    chance = fmean(1 / len(getattr(example, options)) for example in examples)
    ratings = {run.record.model.name: _ratings(run, task, examples) for run in runs}
    rules = [
        *blind_rules(examples, seed, options=options, gold=gold),
        *question_rules(read_items(examples, options, gold), seed, ratings),
    ]
    findings = tuple(RuleScore(rule, _score(rule, examples), chance) for rule in rules)
    return Audit(task, len(examples), findings[0].score.clusters, chance, findings)


def _ratings(run: Run, task: TaskSpec, examples: Sequence[Example]) -> Scores:
    """Return the scores that the model of a run gave to the options of these examples. Raises `RecordError`."""
    scores = {row["id"]: row.get("scores") for row in run.rows(task.name)}
    version = next(record.version for record in run.record.tasks if record.task == task.name)
    if version != task.version:
        raise RecordError(
            f"{run.path} is a run of version {version} of {task.name}, not of version {task.version}; repeat the run"
        )
    if missing := sum(not scores.get(example.id) for example in examples):
        raise RecordError(
            f"{run.path} has no scores for the options of {missing} of {len(examples)} examples of {task.name}; "
            "run all examples on a route that scores options (--route)"
        )
    return [np.array(scores[example.id]) for example in examples]


def _score(rule: Rule, examples: Sequence[Example]) -> Score:
    aggregator = MetricAggregator(rule.name, mean_of(lambda _example, _prediction: None))
    for example, hit in zip(examples, rule.hits.tolist(), strict=True):
        aggregator.add(example.cluster, (hit, 1.0))
    return aggregator.score()


def _decimals(value: float | None) -> str:
    return EMPTY_CELL if value is None else f"{value:.3f}".removeprefix("0")


def _interval(row: RuleScore) -> str:
    low, high = row.score.low, row.score.high
    return EMPTY_CELL if low is None or high is None else f"{_decimals(low)} to {_decimals(high)}"


COLUMNS: tuple[Column[RuleScore], ...] = (
    Column("rule", "string", lambda row: row.rule.name, "rule"),
    Column("knows", "string", lambda row: row.rule.knows, "what it knows"),
    Column("accuracy", "float64", lambda row: row.score.value, "accuracy", _decimals),
    Column(value=_interval, head="95 % interval"),
    Column("low", "float64", lambda row: row.score.low),
    Column("high", "float64", lambda row: row.score.high),
    Column("n", "Int64", lambda row: row.score.n),
    Column("clusters", "Int64", lambda row: row.score.clusters),
    Column("is_off", "bool", head="", text=lambda value: "*" if value else "", align="left"),
)
