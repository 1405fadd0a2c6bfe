"""The table of a comparison of three or more runs: task by task, each run with its difference to one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose
from typing import Any

from figeval import Column, RunRecord, Table
from figeval.records.schema import ScoreRecord
from figeval.reporting.grid import EMPTY_CELL, format_interval, format_number
from figeval.wings.comparison.family import RankedRun, RunComparisons
from figeval.wings.comparison.task_comparison import TaskComparison

CORRECTED = {"holm": "Holm", "bh": "BH"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOfTask:
    """A row of the comparison of three or more runs: a run on a task, and its difference to the reference.

    The run that is the reference itself has no difference. `score` is the stored one with its interval, if it is of
    the examples that were compared. `n` counts the examples that all runs answered, `difference_n` those that this one
    and the reference did.
    """

    task: str
    run: int
    reference: int
    is_first: bool
    value: float | None
    score: ScoreRecord | None
    ranks: str
    n: int
    difference_n: int | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_adjusted: float | None = None
    p_equivalence: float | None = None

    def shown(self, number: float | None) -> str:
        """Return a difference, or nothing for the reference."""
        return "" if self.run == self.reference else format_number(number, "+.4f")

    def shown_p(self, p: float | None) -> str:
        """Return a p-value, or nothing for the reference."""
        return "" if self.run == self.reference else format_p_value(p)

    @property
    def interval(self) -> str:
        """Return the interval of the score, marked if it is unreliable."""
        score = self.score
        return EMPTY_CELL if score is None else format_interval(score.low, score.high, reliable=score.interval.reliable)

    @property
    def is_unreliable(self) -> bool:
        """Return whether the interval of the score is marked."""
        return self.score is not None and self.score.low is not None and not self.score.interval.reliable

    @property
    def limits(self) -> str:
        """Return the interval of the difference, or nothing for the reference."""
        return "" if self.run == self.reference else format_interval(self.low, self.high, "+.3f")


def runs_by_task(result: RunComparisons, metric: str) -> Iterator[RunOfTask]:
    """Yield a row for each run of each task, in the order of the runs."""
    comparisons: dict[str, dict[tuple[int, int], TaskComparison]] = {}
    for indices, pair in result.pairs.items():
        for compared in pair.tasks:
            comparisons.setdefault(compared.task, {})[indices] = compared
    ranks = {(rank.task, rank.run): rank for rank in result.ranks}
    for task, by_pair in comparisons.items():
        runs = sorted({run for indices in by_pair for run in indices})
        best = [run for run in runs if (task, run) in ranks and ranks[task, run].rank == 1]
        reference = result.against if result.against is not None else best[0] if best else runs[0]
        for run in runs:
            rank = ranks.get((task, run))
            value, n = (rank.value, rank.n) if rank is not None else _value_in(run, by_pair)
            row = RunOfTask(
                task=task,
                run=run,
                reference=reference,
                is_first=run == runs[0],
                value=value,
                score=_score_of(result.runs[run], task, metric, value),
                ranks=EMPTY_CELL if rank is None else confidence_set(rank),
                n=n,
            )
            yield replace(row, **_difference(by_pair, run, reference))


def _value_in(run: int, by_pair: Mapping[tuple[int, int], TaskComparison]) -> tuple[float | None, int]:
    """Return the value of a run and the number of examples in the first comparison that it is part of."""
    (a, _), compared = next((indices, task) for indices, task in by_pair.items() if run in indices)
    test = compared.comparison
    return (test.value_a if a == run else test.value_b), test.n


def _score_of(run: RunRecord, task: str, metric: str, value: float | None) -> ScoreRecord | None:
    """Return the stored score with a value, if it is of the examples that were compared."""
    records = [record.scores for record in run.tasks if record.task == task]
    records += [contrast.scores for contrast in run.contrasts if contrast.name == task]
    for score in (score for scores in records for score in scores):
        if score.metric == metric and score.value is not None and value is not None and isclose(score.value, value):
            return score
    return None


def _difference(by_pair: Mapping[tuple[int, int], TaskComparison], run: int, reference: int) -> dict[str, Any]:
    """Return the difference of a run to the reference, with its interval and p-values; nothing if it was not tested."""
    for indices, sign in (((run, reference), 1), ((reference, run), -1)):
        if (compared := by_pair.get(indices)) is None:
            continue
        test = compared.comparison
        numbers = [None if number is None else sign * number + 0.0 for number in (test.difference, test.low, test.high)]
        difference, low, high = numbers if sign == 1 else (numbers[0], numbers[2], numbers[1])
        p_values = {"p": test.p, "p_adjusted": compared.p_adjusted, "p_equivalence": compared.p_equivalence}
        return {"difference_n": test.n, "difference": difference, "low": low, "high": high, **p_values}
    return {}


def table_by_task(result: RunComparisons, labels: Sequence[str], metric: str) -> Table[RunOfTask]:
    """Return a row for each task and run, with the ranks of the runs and their differences to one run.

    That run is the one that all others were compared with, or the best one of each task.
    """
    other = "the best run of each task" if result.against is None else labels[result.against]
    correction = CORRECTED[result.correction]
    rows = list(runs_by_task(result, metric))
    columns: list[Column[RunOfTask]] = [
        Column(value=lambda row: row.task if row.is_first else "", head="task"),
        Column(value=lambda row: labels[row.run], head="run"),
        Column(value=lambda row: format_number(row.value), head=metric, align="right"),
        Column(value=lambda row: row.interval, head="95 % interval", align="right"),
        Column(value=lambda row: row.ranks, head="ranks" if result.ranks else None, align="right"),
        Column(value=lambda row: row.shown(row.difference), head="difference", align="right"),
        Column(value=lambda row: row.limits, head="interval of it", align="right"),
        Column(value=lambda row: row.shown_p(row.p), head="p", align="right", is_spare=True),
        Column(value=lambda row: row.shown_p(row.p_adjusted), head=f"p ({correction})", align="right"),
        Column(
            value=lambda row: row.shown_p(row.p_equivalence),
            head=None if result.margin is None else "p (equivalent)",
            align="right",
        ),
        Column(value=lambda row: str(row.n), head="n", align="right", is_spare=True),
        Column(
            value=lambda row: "" if row.difference_n is None else str(row.difference_n),
            head="n of difference" if any(row.difference_n not in (None, row.n) for row in rows) else None,
            align="right",
        ),
    ]
    return Table(columns, rows, f"{metric}: differences to {other}")


def confidence_set(rank: RankedRun) -> str:
    """Return the limits of a rank, e.g. `1 to 2`."""
    return EMPTY_CELL if rank.best is None else f"{rank.best} to {rank.worst}"


def format_p_value(p: float | None) -> str:
    """Return a p-value with four decimals, never as 0."""
    return EMPTY_CELL if p is None else "<0.0001" if p < 1e-4 else f"{p:.4f}"
