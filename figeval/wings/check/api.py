"""`check`, the gate as a function, and the `Gate` that it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from figeval import JSON, Column, OptionError, RecordError, Result, Run, RunRecord, Table
from figeval.config import Names
from figeval.io.text import pluralize
from figeval.io.validation import checked_arguments, names_in
from figeval.records.sweep import SEEDS, SeedsRecord, read, run_or_seeds
from figeval.reporting.grid import format_interval, format_number
from figeval.wings.check.bounds import BOUNDS, BoundKind, Condition, check_bounds
from figeval.wings.check.regressions import check_margin, compare_with
from figeval.wings.comparison.runs_by_task import format_p_value

Bounds = Mapping[str, float]
SYMBOLS = {  # of conditions, as people see them
    "min": "lower end ≥ {}",
    "max": "upper end ≤ {}",
    "min_value": "value ≥ {}",
    "max_value": "value ≤ {}",
    "not_worse_than": "worse by < {}",
}


@checked_arguments
def check(  # noqa: PLR0913 - a gate has many conditions
    run: Run | str | Path,
    *,
    min: Bounds | None = None,
    max: Bounds | None = None,
    min_value: Bounds | None = None,
    max_value: Bounds | None = None,
    not_worse_than: Run | str | Path | None = None,
    margin: float | None = None,
    metric: Names = (),
    tasks: Names = (),
    seed: int = 0,
) -> Gate:
    """Check whether a finished run meets conditions. Nothing is written, and no model is loaded.

    A number that is unknown, such as an interval that does not exist, never meets a condition.

    Args:
        run: a run, or its folder; that of several seeds has their means.
        min: bounds for the lower end of the 95 % interval, by `TASK.METRIC`; `*` and `?` stand for characters.
        max: bounds for its upper end.
        min_value: lower bounds for the score itself.
        max_value: upper bounds for the score itself.
        not_worse_than: a run that this one must not be worse than, by paired tests on the same examples.
        margin: largest difference that does not matter. With it, the run must be shown to be worse by less; without,
            it must not be significantly worse.
        metric: metrics of the comparison; by default the first one of each task.
        tasks: tasks, suites and contrasts to compare; by default all tasks of the other run.
        seed: random seed of the tests.

    Raises:
        OptionError: there is no condition, or the run has no such score.
        RecordError: a run is missing or not complete, or the two had different examples of a task.

    Example:
        ```python
        assert figeval.check("results/runs/minilm", min={"epic_mcq.acc": 0.3}).passed
        ```
    """
    options: dict[BoundKind, Bounds] = {
        kind: bounds
        for kind, bounds in zip(BOUNDS, (min, max, min_value, max_value), strict=True)
        if bounds is not None
    }
    if not any(options.values()) and not_worse_than is None:
        raise OptionError("there is nothing to check; give --min TASK.METRIC=BOUND, or --not_worse_than RUN")
    check_margin(margin, not_worse_than)
    path, record = _read_complete(run)
    conditions = [condition for kind, bounds in options.items() for condition in check_bounds(record, kind, bounds)]
    remarks: list[str] = []
    other = None
    if not_worse_than is not None:
        other = _read_complete(not_worse_than)
        metrics, names = map(_names, (metric, tasks))
        compared, remarks = compare_with(((path, record), other), metrics, names, margin, seed)
        conditions += compared
    return Gate(tuple(conditions), record.model.name, None if other is None else other[1].model.name, tuple(remarks))


def _names(names: Names) -> tuple[str, ...]:
    return names_in(names) if isinstance(names, str) else tuple(names)


def _read_complete(run: Run | str | Path) -> tuple[Path, RunRecord]:
    """Return a run's folder and its record. Raises `RecordError` if it is not complete."""
    path = run.path if isinstance(run, Run) else Path(run)
    record, runs = run_or_seeds(path)
    file = path / SEEDS if path.is_dir() else path
    if file.name == SEEDS and file.is_file():
        seeds = read(SeedsRecord, file)
        if missing := sorted({*seeds.wanted}.difference(seeds.seeds)):
            listed = ", ".join(map(str, missing))
            raise RecordError(f"{path} lacks the seeds {listed}; run the same command again, which trains them")
    for stored, folder in runs:
        if stored.status != "complete":
            raise RecordError(
                f"{folder.path} is not complete: a task or an answer is missing; run the same command again"
            )
    return path, record


@dataclass(frozen=True, slots=True)
class Gate(Result):
    """Conditions on a run, as `check` returns them.

    Attributes:
        conditions: the conditions in order; each has a `task`, a `metric`, a `kind` (the option that asked for it), a
            `bound`, the numbers that were tested, whether it `passed`, and a `reason`.
        model: model of the run.
        other: model of the run that it is compared with, or None.
        remarks: what was not compared, and what differs between the runs apart from the model.
    """

    conditions: tuple[Condition, ...]
    model: str
    other: str | None = None
    remarks: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """True if every condition is met."""
        return all(condition.passed for condition in self.conditions)

    @property
    def failures(self) -> tuple[Condition, ...]:
        """Conditions that are not met."""
        return tuple(condition for condition in self.conditions if not condition.passed)

    @property
    def tables(self) -> list[Table[Condition]]:
        """One row per condition."""
        title = self.model if self.other is None else f"{self.model}, compared with {self.other}"
        tested = any(condition.p is not None for condition in self.conditions)
        return [Table(_columns(compared=self.other is not None, tested=tested), self.conditions, title)]

    def to_dict(self) -> JSON:
        """Return the conditions as `figeval check --json` prints them."""
        return {
            "passed": self.passed,
            "model": self.model,
            "other": self.other,
            "conditions": [asdict(condition) for condition in self.conditions],
            "remarks": list(self.remarks),
        }

    def notes(self) -> list[str]:
        """Return remarks, and how many conditions are met."""
        failed = len(self.failures)
        return [*self.remarks, f"{pluralize(len(self.conditions), 'condition')}, {failed} failed"]

    def __repr__(self) -> str:
        return f"<figeval Gate: {self.notes()[-1]}>"


def _columns(*, compared: bool, tested: bool) -> list[Column[Condition]]:
    """Return the columns; people see differences and p-values only if there are some."""
    return [
        Column("task", head="task"),
        Column("metric", head="metric"),
        Column("kind"),
        Column("bound", "float64"),
        Column(value=_describe, head="condition"),
        Column("value", "float64", head="value", text=format_number),
        Column(
            "difference",
            "float64",
            head="difference" if compared else None,
            text=partial(format_number, form="+.4f"),
        ),
        Column("low", "float64"),
        Column("high", "float64"),
        Column(value=_interval, head="95 % interval", align="right"),
        Column("p", "float64", head="p (Holm)" if tested else None, text=format_p_value),
        Column("passed", "bool", head="result", text=lambda passed: "passed" if passed else "failed", align="left"),
        Column("reason", head="", text=str),
    ]


def _describe(condition: Condition) -> str:
    if condition.bound is None:
        return "not significantly worse"
    return SYMBOLS[condition.kind].format(format_number(condition.bound, "g"))


def _interval(condition: Condition) -> str:
    """Return the interval of the score, or of the difference with its signs."""
    return format_interval(condition.low, condition.high, ".3f" if condition.difference is None else "+.3f")
