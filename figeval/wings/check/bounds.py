"""Conditions on the scores of one run: bounds for the ends of their intervals, or for their values."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple, TypeAlias

from figeval import Interval, OptionError, RunRecord
from figeval.io.text import near, one_line, pluralize
from figeval.records.schema import ScoreRecord
from figeval.reporting.grid import format_number

BoundKind: TypeAlias = Literal["min", "max", "min_value", "max_value"]
MAX_LISTED_SCORES = 8
UNSCORED = "nothing could be scored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition, and whether the run meets it.

    Attributes:
        task: task, contrast or suite.
        kind: the option that asked for it.
        bound: the bound, or the margin; None for `not_worse_than` without one.
        value: score of the run.
        difference: of a comparison: score of the run minus that of the other run.
        low: lower end of the 95 % interval of the score, or of the difference; None if there is none.
        high: its upper end.
        p: of a comparison without a margin: p-value of the paired test, corrected for all tests of the metric.
        passed: whether the condition is met; an unknown number never meets one.
        reason: why it is not met, or what a reader must know of the number.
    """

    task: str
    metric: str
    kind: BoundKind | Literal["not_worse_than"]
    bound: float | None = None
    value: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    passed: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Bound:
    """The comparison that a bound asks for. `end` is the attribute of the score."""

    end: Literal["low", "high", "value"]
    holds: Callable[[float, float], bool]

    @property
    def is_lower(self) -> bool:
        return self.holds is operator.ge


BOUNDS: Mapping[BoundKind, _Bound] = {
    "min": _Bound("low", operator.ge),
    "max": _Bound("high", operator.le),
    "min_value": _Bound("value", operator.ge),
    "max_value": _Bound("value", operator.le),
}


class NamedScore(NamedTuple):
    """A score of a run with the name of its task, contrast or suite; patterns match it only if it is `selectable`."""

    task: str
    score: ScoreRecord
    remark: str = ""
    selectable: bool = True


def check_bounds(record: RunRecord, kind: BoundKind, bounds: Mapping[str, float]) -> Iterator[Condition]:
    """Yield a condition for each score that a bound is for.

    Args:
        record: the run.
        kind: which end of the interval the bounds are for, or the value.
        bounds: bounds by `TASK.METRIC`, in which `*` and `?` stand for characters of the name of a task.

    Raises:
        OptionError: the run has no such score, a bound is not a finite number, or it is a lower one for a metric whose
            low values are good.
    """
    scores = {f"{entry.task}.{entry.score.metric}": entry for entry in _named_scores(record)}
    for name, bound in bounds.items():
        if isinstance(bound, bool) or not isinstance(bound, int | float) or not math.isfinite(bound):
            raise OptionError(f"--{kind} {one_line(name, 80)}: {bound!r:.80} is not a finite number")
        for entry in _select(scores, name, kind):
            if BOUNDS[kind].is_lower and not entry.score.higher_is_better:
                upper = kind.replace("min", "max")
                raise OptionError(
                    f"--{kind} {one_line(name, 80)}: {entry.score.metric} is better if lower; use --{upper}"
                )
            yield _check_bound(entry, kind, float(bound))


def _named_scores(record: RunRecord) -> Iterator[NamedScore]:
    """Yield all scores of a run that a condition can name.

    Where a model has seen some examples of a task, the score is that on the others.
    """
    for task in record.tasks:
        unseen = {} if task.overlap is None else {score.metric: score for score in task.overlap.scores}
        for score in task.scores:
            is_task = task.kind == "task"
            if score.metric in unseen:
                examples = pluralize(unseen[score.metric].n, "example")
                yield NamedScore(
                    task.task, unseen[score.metric], f"on the {examples} that the model has not seen", is_task
                )
            else:
                yield NamedScore(task.task, score, selectable=is_task)
        for part in task.languages:
            yield from (NamedScore(f"{task.task} ({part.language})", score, selectable=False) for score in part.scores)
    for contrast in record.contrasts:
        yield from (NamedScore(contrast.name, score) for score in contrast.scores)
    for macro in record.macro:
        score = ScoreRecord(
            metric=macro.metric,
            value=macro.value,
            low=None,
            high=None,
            stderr=None,
            n=0,
            clusters=0,
            interval=Interval(reason="a mean over tasks has none"),
            seen=macro.seen,
        )
        yield NamedScore(macro.suite, score, selectable=False)


def _select(scores: Mapping[str, NamedScore], name: str, kind: BoundKind) -> list[NamedScore]:
    if name in scores:
        return [scores[name]]
    matches = [entry for key, entry in scores.items() if entry.selectable and fnmatchcase(key, name)]
    if matches:
        return matches
    listed = ", ".join([*scores][:MAX_LISTED_SCORES]) + ", …" * (len(scores) > MAX_LISTED_SCORES)
    cure = near(name, scores) or f"; it has {listed or 'none'}"
    raise OptionError(f"--{kind} {one_line(name, 80)}: the run has no such score{cure}")


def _check_bound(entry: NamedScore, kind: BoundKind, bound: float) -> Condition:
    score, test = entry.score, BOUNDS[kind]
    condition = Condition(
        task=entry.task,
        metric=score.metric,
        kind=kind,
        bound=bound,
        value=score.value,
        low=score.low,
        high=score.high,
        reason=entry.remark,
    )
    number: float | None = getattr(score, test.end)
    if score.value is None or not math.isfinite(score.value):
        return replace(condition, value=None, reason=UNSCORED)
    if score.seen is not None:
        return replace(condition, reason="the model has seen examples of it, and the score on the others is unknown")
    if number is None or not math.isfinite(number):
        return replace(condition, reason=f"no interval: {score.interval.reason}".removesuffix(": "))
    passed = test.holds(number, bound)
    ends = {"low": "the lower end of the interval", "high": "the upper end of the interval", "value": "the value"}
    side = "below" if test.is_lower else "above"
    failure = f"{ends[test.end]} is {side} {format_number(bound, 'g')}"
    return replace(condition, passed=passed, reason="; ".join(filter(None, (entry.remark, "" if passed else failure))))
