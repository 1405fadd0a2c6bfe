"""`figeval.compare`, and the `Comparison` that it returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from figeval.api import frames
from figeval.api.runs import Run
from figeval.evaluation.compare import RunComparison, TaskComparison, argument_of, compare_runs
from figeval.records import conditions
from figeval.report import table
from figeval.report.grid import Grid, page, plain
from figeval.types import JSON
from figeval.validation import checked_arguments

if TYPE_CHECKING:
    import pandas

HEAD = ("task", "A", "B", "A − B", "95 % interval", "p", "p (Holm)", "n", "clusters", "test")


@checked_arguments
def compare(
    a: Run | str | Path,
    b: Run | str | Path,
    *,
    metric: str = "acc",
    seed: int = 0,
    prompts: tuple[str, str] | None = None,
) -> Comparison:
    """Compare two runs example by example, on every task that both have.

    Args:
        a: run A, or its folder; differences are A minus B.
        b: run B, or its folder.
        metric: a metric that is a mean over examples.
        seed: seed of the sign-flip test.
        prompts: name of the prompt in run A and in run B; `default` is the task's own.

    Raises:
        OptionError: an argument has another type.
        RecordError: a run, its predictions, a common task or the metric is missing, or a task has different examples.

    Example:
        ```python
        figeval.compare(done, "results/runs/demo", metric="acc").differences
        ```
    """
    path_a, path_b = (one.path if isinstance(one, Run) else Path(one) for one in (a, b))
    return Comparison(compare_runs(path_a, path_b, metric, seed, prompts))


class Comparison:
    """Run A minus run B, task by task, as `figeval.compare` returns it.

    A notebook shows it as the table that `figeval compare` prints; `print(comparison)` prints the same as text.

    Attributes:
        result: all numbers, with the records of both runs.
    """

    def __init__(self, result: RunComparison) -> None:
        self.result = result

    @property
    def metric(self) -> str:
        """Metric that was compared."""
        return self.result.metric

    @property
    def family(self) -> int:
        """Number of tests in Holm's correction."""
        return self.result.family

    @property
    def left_out(self) -> Mapping[str, str]:
        """Reasons why tasks could not be compared, by task."""
        return dict(self.result.left_out)

    @property
    def differences(self) -> pandas.DataFrame:
        """Differences, one row per task.

        Columns: `task`, `metric`, `a`, `b`, `difference` (a − b), `low`, `high`, `stderr`, `p`, `p_holm`, `n`,
        `clusters`, `effective_clusters`, `test`, and the numbers of examples that were left out: `only_in_a`,
        `only_in_b`, `unanswered`, `seen`.

        Raises:
            FigevalError: pandas is not installed.
        """
        return frames.differences(self.result)

    def to_dict(self) -> JSON:
        """Return all numbers as `figeval compare --json` prints them."""
        tasks = []
        for one in self.result.tasks:
            fields = asdict(one)
            tasks.append({"task": fields.pop("task"), **fields.pop("comparison"), **fields})
        runs = {"a": self.result.a, "b": self.result.b}
        about: JSON = {key: {"run": run.identity, "model": run.model.name} for key, run in runs.items()}
        for key, prompt in zip(runs, self.result.prompts or (), strict=False):
            about[key]["prompt"] = prompt
        for key, run in runs.items():
            about[key]["conditions"] = list(conditions.notes(run))
        return {
            "metric": self.metric,
            **about,
            "family": self.family,
            "tasks": tasks,
            "left_out": dict(self.result.left_out),
        }

    @property
    def grid(self) -> Grid:
        """Table that the command line prints."""
        of_a, of_b = (f", prompt {prompt}" for prompt in self.result.prompts) if self.result.prompts else ("", "")
        a, b = conditions.labels([self.result.a, self.result.b])
        title = f"{self.metric}: A = {a}{of_a}, B = {b}{of_b}"
        return Grid(HEAD, list(map(_cells, self.result.tasks)), title, right=HEAD[1:-1], spare=("test", "clusters"))

    def notes(self) -> Iterator[str]:
        """Yield the lines below the table: conditions of the runs, number of tests, and what was left out."""
        of_a, of_b = ([*conditions.partial(run), *conditions.notes(run)] for run in (self.result.a, self.result.b))
        for note in dict.fromkeys((*of_a, *of_b)):
            yield f"{'A and B' if note in of_a and note in of_b else 'A' if note in of_a else 'B'}: {note}"
        yield f"Holm's correction over {self.family} test{'s' * (self.family != 1)}"
        yield from dict.fromkeys(f"{self.metric}: {remark}" for remark in self._remarks())
        for one in self.result.tasks:
            left = {
                "only in A": one.unmatched_a,
                "only in B": one.unmatched_b,
                "without a valid answer": one.unanswered,
            }
            left |= {"that a model was trained or chosen on": one.seen}
            parts = [f"{count} {what}" for what, count in left.items() if count]
            if parts:
                yield f"{one.task}: left out {', '.join(parts)}"
            if one.comparison.note:
                yield f"{one.task}: {one.comparison.note}"
        for task, why in self.result.left_out.items():
            yield f"{task} not compared: {why}"

    def _remarks(self) -> Iterator[str]:
        """Yield the remarks that must accompany every score of a metric with an argument."""
        arguments = (argument_of(task, self.metric) for run in (self.result.a, self.result.b) for task in run.tasks)
        yield from (str(one["remark"]) for one in arguments if one.get("remark"))

    def __str__(self) -> str:
        return plain([self.grid], self.notes())

    def __repr__(self) -> str:
        tasks = ", ".join(one.task for one in self.result.tasks)
        models = f"{self.result.a.model.name!r} minus {self.result.b.model.name!r}"
        return f"<figeval.Comparison of {self.metric}: {models} on {tasks}>"

    def _repr_html_(self) -> str:
        return page([self.grid], self.notes())


def _cells(one: TaskComparison) -> tuple[str, ...]:
    """Return one line of the table of a comparison."""
    found = one.comparison
    low, high = found.low, found.high
    interval = table.NOTHING if low is None or high is None else f"{low:+.3f} to {high:+.3f}"
    difference = table.NOTHING if found.difference is None else f"{found.difference:+.4f}"
    values = (table.number(found.value_a), table.number(found.value_b), difference)
    clusters = f"{found.clusters}{table.effective(found.clusters, found.effective_clusters)}"
    return (one.task, *values, interval, _pvalue(found.p), _pvalue(one.p_holm), str(found.n), clusters, found.test)


def _pvalue(p: float | None) -> str:
    """Return a p-value with four decimals, never as 0."""
    return table.NOTHING if p is None else "<0.0001" if p < 1e-4 else f"{p:.4f}"
