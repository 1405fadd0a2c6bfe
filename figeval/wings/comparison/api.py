"""`figeval.compare`, and the `Comparison` that it returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Literal

from figeval.api.runs import Names, Runs, names_in, run_paths
from figeval.errors import OptionError
from figeval.io.validation import checked_arguments
from figeval.metrics.caveats import ALPHA
from figeval.records import conditions
from figeval.records import notes as run_notes
from figeval.records.result_json import to_json
from figeval.reporting import table
from figeval.reporting.grid import Grid, page, plain
from figeval.runs.harness import Harness
from figeval.types import JSON
from figeval.wings.comparison import frames
from figeval.wings.comparison.compare import RunComparison, argument_of, tasks_of
from figeval.wings.comparison.comparisons import Design, RankedRun, RunComparisons, compare_all
from figeval.wings.comparison.power import reachable
from figeval.wings.comparison.task_comparison import TaskComparison

if TYPE_CHECKING:
    import pandas

PAIR = 2
CORRECTED = {"holm": "Holm", "bh": "BH"}
# What the intervals of a table are, by their method.
INTERVALS = {
    "score": "Tango's score interval for independent 0/1 values",
    "t": "by t",
    "t over seeds and examples": "by t",
    "clustered t": "by t with a clustered standard error",
    "bootstrap": "percentiles of a bootstrap",
    "cluster bootstrap": "percentiles of a bootstrap of clusters",
    "over languages": "those of the languages, combined",
}


@checked_arguments
def compare(  # noqa: PLR0913 - a question has many parts
    *runs: Runs,
    metric: str = "acc",
    tasks: Names = (),
    seed: int = 0,
    prompts: tuple[str, str] | None = None,
    against: int | None = None,
    correction: Literal["holm", "bh"] | None = None,
    margin: float | None = None,
) -> Comparison:
    """Compare two or more runs example by example, on every task that two of them have.

    The folder of several seeds counts as one run; the spread over its seeds is then part of intervals and p-values.

    Args:
        runs: at least two runs or their folders, one by one or as a list. Differences are run A, the first of a pair,
            minus run B. Of three or more runs, all pairs are compared, and the runs are ranked.
        metric: a metric that the runs stored for each example, or that their contrasts have (`auc`, `balanced_acc`).
            Scores that are not means, such as macro-F1 and correlations, are tested by permutation.
        tasks: tasks, suites and contrasts to compare, e.g. those that were planned, since p-values are corrected for
            all tests; by default all that two runs have.
        seed: random seed of the tests and of the bootstrap.
        prompts: name of the prompt in run A and in run B; `default` is the task's own.
        against: place of the run that all others are compared with, from 0; by default, all pairs are compared.
        correction: "holm" for a few planned comparisons, "bh" (Benjamini and Hochberg) for exploration. By default Holm
            for two runs and with `against`, else Benjamini and Hochberg.
        margin: largest difference that does not matter; two one-sided tests then say whether the runs are equivalent.

    Raises:
        OptionError: an argument has another type, or is out of range, or there are fewer than two runs.
        RecordError: a run, its predictions, a common task or the metric is missing, or a task has different examples.

    Example:
        ```python
        figeval.compare(done, "results/runs/demo", metric="acc").differences
        ```
    """
    places = [place for one in runs for place in run_paths(one)]
    if len(places) < PAIR:
        raise OptionError("give at least two runs, one by one or as a list")
    if prompts is not None and len(places) > PAIR:
        raise OptionError("prompts are for two runs; leave out the others")
    if against is not None and not 0 <= against < len(places):
        raise OptionError(f"against {against} is no place of a run, from 0 to {len(places) - 1}")
    if margin is not None and margin <= 0:
        raise OptionError(f"a margin of {margin:g} is not positive; give the largest difference that does not matter")
    asked = frozenset(names_in(tasks) if isinstance(tasks, str) else tasks)
    design = Design(against=against, correction=correction, margin=margin, tasks=asked or None)
    catalogue = Harness().catalogue if asked else None
    return Comparison(compare_all(places, metric, seed, prompts, design, catalogue))


class Comparison:
    """Differences between runs, task by task, as `figeval.compare` returns them.

    A notebook shows it as the tables that `figeval compare` prints; `print(comparison)` prints the same as text.

    Attributes:
        result: all numbers, with the records of the runs.
    """

    def __init__(self, result: RunComparisons) -> None:
        self.result = result

    @property
    def metric(self) -> str:
        """Metric that was compared."""
        return self.result.metric

    @property
    def family(self) -> int:
        """Number of tests for which the p-values are corrected."""
        return self.result.family

    @property
    def labels(self) -> list[str]:
        """Names of the runs: the model, and what distinguishes the run from the others."""
        found = conditions.labels(self.result.runs)
        return [f"{label} [{place}]" if found.count(label) > 1 else label for place, label in enumerate(found)]

    @property
    def left_out(self) -> Mapping[str, str]:
        """Reasons why tasks could not be compared, by task; for several pairs, the last reason."""
        return {task: why for pair in self.result.pairs.values() for task, why in pair.left_out.items()}

    @property
    def differences(self) -> pandas.DataFrame:
        """Differences, one row per pair of runs and task.

        Columns: `run_a` and `run_b` (the places of the runs), `task`, `metric`, `a`, `b`, `difference` (a − b), `low`,
        `high`, `stderr`, `p`, `p_adjusted`, `detectable` (the true difference that would be found with probability
        .8), `p_equivalence`, `n`, `clusters`, `effective_clusters`, `interval` (its method), `test`,
        and the numbers of examples that were left out: `only_in_a`, `only_in_b`, `unanswered`, `seen`.

        Raises:
            FigevalError: pandas is not installed.
        """
        return frames.differences(self.result)

    @property
    def ranks(self) -> pandas.DataFrame:
        """Ranks of three or more runs, one row per task and run, with 95 % confidence sets from `best` to `worst`.

        The values are of the `n` examples of a task that all runs answered.

        Raises:
            FigevalError: pandas is not installed.
        """
        return frames.ranks(self.result.ranks, self.labels)

    def to_dict(self) -> JSON:
        """Return all numbers as `figeval compare --json` prints them."""
        result = self.result
        runs = [
            {"run": run.identity, "model": run.model.name, "label": label, "conditions": list(conditions.notes(run))}
            for run, label in zip(result.runs, self.labels, strict=True)
        ]
        shared: JSON = {"metric": self.metric, "correction": result.correction, "family": self.family}
        if result.margin is not None:
            shared["margin"] = result.margin
        if len(runs) > 2:
            pairs = [{"a": a, "b": b, **_numbers(pair)} for (a, b), pair in result.pairs.items()]
            return {**shared, "runs": runs, "pairs": pairs, "ranks": [asdict(one) for one in result.ranks]}
        ((places, pair),) = result.pairs.items()
        about: JSON = {key: runs[place] for key, place in zip("ab", places, strict=True)}
        for key, prompt in zip("ab", pair.prompts or (), strict=False):
            about[key]["prompt"] = prompt
        return {**shared, **about, **_numbers(pair)}

    @property
    def grids(self) -> list[Grid]:
        """Tables that the command line prints: the ranks of three or more runs, and the differences."""
        result, labels = self.result, self.labels
        head = ("task", "A", "B", "A − B", "95 % interval", "p", f"p ({CORRECTED[result.correction]})")
        head += (*(("p (equivalent)",) if result.margin is not None else ()), "detectable", "n", "clusters", "test")
        rows = [
            (pair, places, _cells(one, equivalence=result.margin is not None))
            for places, pair in result.pairs.items()
            for one in pair.tasks
        ]
        if len(result.runs) == 2:
            ((places, pair),) = result.pairs.items()
            of_a, of_b = (f", prompt {prompt}" for prompt in pair.prompts) if pair.prompts else ("", "")
            title = f"{self.metric}: A = {labels[places[0]]}{of_a}, B = {labels[places[1]]}{of_b}"
            return [Grid(head, [cells for *_, cells in rows], title, right=head[1:-1], spare=("test", "clusters"))]
        named = [(cells[0], labels[a], labels[b], *cells[1:]) for _, (a, b), cells in rows]
        both = ("task", "run A", "run B", *head[1:])
        title = f"{self.metric}: differences between runs"
        return [
            *([_ranking(result.ranks, labels, self.metric)] if result.ranks else []),
            Grid(both, named, title, right=head[1:-1], spare=("test", "clusters")),
        ]

    def notes(self) -> Iterator[str]:
        """Yield the lines below the tables: conditions of the runs, number of tests, and what was left out."""
        result = self.result
        names = ("A", "B") if len(result.runs) == 2 and (0, 1) in result.pairs else self.labels
        of_runs = [
            list(run_notes.notes(run, self._tasks_of(index), [self.metric])) for index, run in enumerate(result.runs)
        ]
        for note in dict.fromkeys(note for notes in of_runs for note in notes):
            having = [name for name, own in zip(names, of_runs, strict=True) if note in own]
            yield f"{'all runs' if len(having) == len(names) > 2 else ' and '.join(having)}: {note}"
        method = {"holm": "Holm's", "bh": "Benjamini and Hochberg's"}[result.correction]
        yield f"{method} correction over {self.family} test{'s' * (self.family != 1)}"
        scores = (score for run in result.runs for task in run.tasks for score in task.scores)
        if any(score.metric == self.metric and not score.higher_is_better for score in scores):
            yield f"{self.metric}: lower is better, so that A is better where A − B is negative"
        intervals = [one.comparison.interval for pair in result.pairs.values() for one in pair.tasks]
        if known := dict.fromkeys(INTERVALS[interval.method] for interval in intervals if interval.method):
            yield f"95 % interval: {'; '.join(known)}"
        if any(one.detectable is not None for pair in result.pairs.values() for one in pair.tasks):
            yield f"detectable: the difference that p < {ALPHA:g}, uncorrected, would find with probability 0.8"
        if result.margin is not None:
            yield f"p (equivalent): two one-sided tests of a difference of {result.margin:g} or more, uncorrected"
            yield "p (equivalent): for each task alone; none if fewer than ten clusters differ in values not 0 or 1"
        if result.ranks:
            yield "ranks: 95 % confidence sets from Holm-corrected tests of all pairs, on examples all runs answered"
        yield from dict.fromkeys(f"{self.metric}: {remark}" for remark in self._remarks())
        lines: dict[str, list[str]] = {}
        for (a, b), pair in result.pairs.items():
            for line in _left_out(pair):
                lines.setdefault(line, []).append(f"A = {self.labels[a]}, B = {self.labels[b]}")
        for line, pairs in lines.items():
            yield line if len(pairs) == len(result.pairs) else f"{'; '.join(pairs)}: {line}"

    def _tasks_of(self, place: int) -> set[str]:
        """Return the tasks and contrasts of a run, as it names them, that were compared."""
        tasks = set[str]()
        for places, pair in self.result.pairs.items():
            if place not in places:
                continue
            prompt = pair.prompts[places.index(place)] if pair.prompts else None
            known = tasks_of(self.result.runs[place], prompt)
            names = {task.task.partition(" (")[0] for task in pair.tasks}
            tasks |= {known[name].task for name in names if name in known}
            tasks |= {contrast.name for contrast in self.result.runs[place].contrasts if contrast.name in names}
        return tasks

    def _remarks(self) -> Iterator[str]:
        """Yield the remarks that must accompany every score of a metric with an argument."""
        arguments = (argument_of(task, self.metric) for run in self.result.runs for task in run.tasks)
        yield from (str(one["remark"]) for one in arguments if one.get("remark"))

    def __str__(self) -> str:
        return plain(self.grids, self.notes())

    def __repr__(self) -> str:
        tasks = ", ".join(dict.fromkeys(one.task for pair in self.result.pairs.values() for one in pair.tasks))
        names = [repr(run.model.name) for run in self.result.runs]
        models = f"{names[0]} minus {names[1]}" if len(names) == 2 else ", ".join(names)
        return f"<figeval.Comparison of {self.metric}: {models} on {tasks}>"

    def _repr_html_(self) -> str:
        return page(self.grids, self.notes())


def _numbers(pair: RunComparison) -> JSON:
    tasks = []
    for one in pair.tasks:
        fields = to_json(one)
        if not one.same_as:
            del fields["same_as"]
        tasks.append({"task": fields.pop("task"), **fields.pop("comparison"), **fields})
    problem = {"problem": pair.problem} if pair.problem else {}
    caveats = {"caveats": list(pair.caveats)} if pair.caveats else {}
    return {"tasks": tasks, "left_out": dict(pair.left_out), **problem, **caveats}


def _left_out(pair: RunComparison) -> Iterator[str]:
    """Yield the pair's caveats and a line per task: examples that were left out, its test, or why there is none."""
    yield from pair.caveats
    for compared in pair.tasks:
        left = {
            "only in A": compared.unmatched_a,
            "only in B": compared.unmatched_b,
            "without a valid answer": compared.unanswered,
            "that a model was trained or chosen on": compared.seen,
        }
        parts = [f"{count} {what}" for what, count in left.items() if count]
        if parts:
            yield f"{compared.task}: left out {', '.join(parts)}"
        if compared.comparison.note:
            yield f"{compared.task}: {compared.comparison.note}"
    same: dict[str, list[str]] = {}
    for compared in pair.tasks:
        if compared.same_as:
            same.setdefault(compared.same_as, []).append(compared.task)
    yield from (
        f"{', '.join(tasks)}: the same rows as {first} in both runs, counted as one test"
        for first, tasks in same.items()
    )
    told: dict[str, list[str]] = {}
    for task, why in pair.left_out.items():
        told.setdefault(why, []).append(task)
    yield from (f"{', '.join(tasks)} not compared: {why}" for why, tasks in told.items())
    if pair.problem:
        yield f"not compared: {pair.problem}"


def _ranking(ranks: tuple[RankedRun, ...], labels: list[str], metric: str) -> Grid:
    """Return the table of ranks, the best run of each task first."""
    rows = [
        (
            one.task,
            labels[one.run],
            table.number(one.value),
            table.NOTHING if one.rank is None else str(one.rank),
            table.NOTHING if one.best is None else f"{one.best} to {one.worst}",
            str(one.n),
        )
        for one in ranks
    ]
    head = ("task", "run", metric, "rank", "95 % set", "n")
    return Grid(head, rows, f"{metric}: ranks", right=head[2:])


def _cells(one: TaskComparison, *, equivalence: bool) -> tuple[str, ...]:
    """Return one line of the table of a comparison."""
    found = one.comparison
    low, high = found.low, found.high
    interval = table.NOTHING if low is None or high is None else f"{low:+.3f} to {high:+.3f}"
    difference = table.NOTHING if found.difference is None else f"{found.difference:+.4f}"
    values = (table.number(found.value_a), table.number(found.value_b), difference)
    clusters = f"{found.clusters}{table.effective(found.clusters, found.effective_clusters)}"
    equivalent = (_pvalue(one.p_equivalence),) if equivalence else ()
    tests = (_pvalue(found.p), _pvalue(one.p_adjusted), *equivalent, _detectable(one))
    return (one.task, *values, interval, *tests, str(found.n), clusters, found.test)


def _detectable(one: TaskComparison) -> str:
    """Return the detectable difference, `none` if the test can find none, or a dash if there is no test."""
    if one.detectable is None and one.comparison.p is not None and reachable(one.comparison) == 0:
        return "none"
    return table.number(one.detectable)


def _pvalue(p: float | None) -> str:
    """Return a p-value with four decimals, never as 0."""
    return table.NOTHING if p is None else "<0.0001" if p < 1e-4 else f"{p:.4f}"
