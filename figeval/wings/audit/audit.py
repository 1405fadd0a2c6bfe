"""Audit of the options of a multiple-choice task: accuracy of blind rules with clustered intervals, versus chance."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from figeval.errors import TaskError
from figeval.metrics.aggregation import MetricAggregator
from figeval.metrics.statistic import mean_of
from figeval.runs.harness import Harness
from figeval.spec import TaskSpec
from figeval.spec.blind import Rule, blind_rules
from figeval.task_types.choice import ChoiceExample
from figeval.types import Score


@dataclass(frozen=True, slots=True)
class RuleScore:
    """One blind rule with its accuracy and clustered 95 % interval."""

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
class Audit:
    """The scores of all blind rules on one task's test split; `chance` is the mean of 1/options."""

    task: TaskSpec
    n: int
    clusters: int
    chance: float
    findings: tuple[RuleScore, ...]


def audit(task: TaskSpec, harness: Harness, seed: int = 0) -> Audit:
    """Measure every blind rule on a task's test split; examples without a gold option are left out.

    Raises:
        TaskError: the task is not a multiple-choice task, or fewer than two of its examples have a gold option.
        DataError: the data are missing or invalid.
    """
    if task.task_type.Example is not ChoiceExample:
        raise TaskError(f"{task.name} is a {task.type} task; an audit is for tasks of the type choice")
    examples = [
        task.with_language(example)
        for example in harness.examples(task)
        if isinstance(example, ChoiceExample) and example.gold is not None
    ]
    if not examples:
        raise TaskError(f"{task.name}: all gold options are hidden, so nothing can be audited")
    if len(examples) == 1:
        raise TaskError(
            f"{task.name}: only 1 example has a gold option; an audit learns from one half of the examples what the "
            "options of the other half give away, so add examples"
        )
    chance = fmean(1 / len(example.options) for example in examples)
    findings = tuple(_finding(rule, examples, chance) for rule in blind_rules(examples, seed))
    return Audit(task, len(examples), findings[0].score.clusters, chance, findings)


def _finding(rule: Rule, examples: list[ChoiceExample], chance: float) -> RuleScore:
    aggregator = MetricAggregator(rule.name, mean_of(lambda _example, _prediction: None))
    for example, hit in zip(examples, rule.hits.tolist(), strict=True):
        aggregator.add(example.cluster, (hit, 1.0))
    return RuleScore(rule, aggregator.score(), chance)
