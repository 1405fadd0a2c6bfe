"""`figeval.compare`, and the `Comparison` that it returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from figeval import JSON, Column, Grid, Harness, OptionError, Result, Table
from figeval.api.runs import Runs, read_task_files, run_paths
from figeval.config import Names
from figeval.io.text import pluralize
from figeval.io.validation import checked_arguments, names_in
from figeval.metrics.differences import ALPHA, PairedTest
from figeval.records import conditions
from figeval.records import notes as run_notes
from figeval.records.schema import to_json
from figeval.reporting.grid import UNRELIABLE_NOTE, format_interval, format_number
from figeval.reporting.table import effective
from figeval.wings.comparison.detectable import reachable
from figeval.wings.comparison.family import ComparisonDesign, RankedRun, RunComparisons, compare_all
from figeval.wings.comparison.pair import RunComparison, tasks_of
from figeval.wings.comparison.runs_by_task import CORRECTED, RunOfTask, confidence_set, format_p_value, table_by_task
from figeval.wings.comparison.task_comparison import TaskComparison, argument_of

if TYPE_CHECKING:
    import pandas

PAIR = 2
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
    metric: str | None = None,
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
            Scores that are not means, such as macro-F1 and correlations, are tested by permutation. By default `acc`,
            or `acc_of_all` if a run left examples without an answer: a model cannot win by answering only what it is
            sure of.
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
    paths = [path for argument in runs for path in run_paths(argument)]
    if len(paths) < PAIR:
        raise OptionError("give at least two runs, one by one or as a list")
    if prompts is not None and len(paths) > PAIR:
        raise OptionError("prompts are for two runs; leave out the others")
    if against is not None and not 0 <= against < len(paths):
        raise OptionError(f"against {against} is no place of a run, from 0 to {len(paths) - 1}")
    if margin is not None and margin <= 0:
        raise OptionError(f"a margin of {margin:g} is not positive; give the largest difference that does not matter")
    task_names, files = read_task_files(names_in(tasks))
    names = frozenset(task_names)
    design = ComparisonDesign(against=against, correction=correction, margin=margin, tasks=names or None)
    return Comparison(compare_all(paths, metric, seed, prompts, design, Harness(include=files) if names else None))


class Comparison(Result):
    """Differences between runs, task by task, as `figeval.compare` returns them.

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
        labels = conditions.labels(self.result.runs)
        return [f"{label} [{index}]" if labels.count(label) > 1 else label for index, label in enumerate(labels)]

    @property
    def left_out(self) -> Mapping[str, str]:
        """Reasons why tasks could not be compared, by task; for several pairs, the last reason."""
        return {task: reason for pair in self.result.pairs.values() for task, reason in pair.left_out.items()}

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
        return self._differences.to_frame()

    @property
    def ranks(self) -> pandas.DataFrame:
        """Ranks of three or more runs, one row per task and run, with 95 % confidence sets from `best` to `worst`.

        The values are of the `n` examples of a task that all runs answered.

        Raises:
            FigevalError: pandas is not installed.
        """
        return self._ranks.to_frame()

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
            return {**shared, "runs": runs, "pairs": pairs, "ranks": [asdict(rank) for rank in result.ranks]}
        ((indices, pair),) = result.pairs.items()
        sides: JSON = {key: runs[index] for key, index in zip("ab", indices, strict=True)}
        for key, prompt in zip("ab", pair.prompts or (), strict=False):
            sides[key]["prompt"] = prompt
        return {**shared, **sides, **_numbers(pair)}

    @property
    def tables(self) -> list[Table[Any]]:
        """The differences, and the ranks of three or more runs."""
        return [self._differences, self._ranks]

    @property
    def grids(self) -> list[Grid]:
        """Tables that the command line prints: a row for each task, or of three or more runs for each task and run."""
        if len(self.result.runs) == PAIR:
            return [*super().grids]
        return [self._by_task.grid]

    @cached_property
    def _by_task(self) -> Table[RunOfTask]:
        return table_by_task(self.result, self.labels, self.metric)

    @property
    def _differences(self) -> Table[PairedTask]:
        result, labels = self.result, self.labels
        rows = [PairedTask(a, b, task) for (a, b), pair in result.pairs.items() for task in pair.tasks]
        columns = difference_columns(self.metric, CORRECTED[result.correction], equivalence=result.margin is not None)
        if len(result.runs) > 2:
            runs: list[Column[PairedTask]] = [
                Column(value=lambda row: labels[row.a], head="run A"),
                Column(value=lambda row: labels[row.b], head="run B"),
            ]
            return Table([*columns[:3], *runs, *columns[3:]], rows, f"{self.metric}: differences between runs")
        ((indices, pair),) = result.pairs.items()
        of_a, of_b = (f", prompt {prompt}" for prompt in pair.prompts) if pair.prompts else ("", "")
        title = f"{self.metric}: A = {labels[indices[0]]}{of_a}, B = {labels[indices[1]]}{of_b}"
        return Table(columns, rows, title)

    @property
    def _ranks(self) -> Table[RankedRun]:
        labels = self.labels
        columns: list[Column[RankedRun]] = [
            Column("task", head="task"),
            Column("run", "Int64"),
            Column("label", value=lambda rank: labels[rank.run], head="run"),
            Column("value", "float64", head=self.metric, text=format_number),
            Column("rank", "Int64", head="rank"),
            Column("best", "Int64"),
            Column("worst", "Int64"),
            Column(value=confidence_set, head="95 % set", align="right"),
            Column("n", "Int64", head="n"),
        ]
        return Table(columns, self.result.ranks, f"{self.metric}: ranks")

    def notes(self) -> Iterator[str]:
        """Yield the lines below the tables: conditions of the runs, number of tests, and what was left out."""
        yield from self._notes_of_runs()
        yield from self._notes_of_columns()
        yield from self._notes_of_pairs()

    def _notes_of_pairs(self) -> Iterator[str]:
        """Yield what holds for two runs: of three or more, for each run and the one that it is shown beside."""
        result, labels = self.result, self.labels
        if len(result.runs) == PAIR:
            ((_, pair),) = result.pairs.items()
            yield from (*_omissions(pair, ("A", "B"), pair.tasks), *_missing_tasks(pair))
            return
        lines: dict[str, dict[int, list[int]]] = {}
        for (a, b), pair in result.pairs.items():
            rows = {row.task: row for row in self._by_task.rows if {row.run, row.reference} == {a, b}}
            tasks = [task for task in pair.tasks if task.task in rows]
            reference = next((row.reference for row in rows.values()), b)
            for line in _omissions(pair, (labels[a], labels[b]), tasks):
                lines.setdefault(line, {}).setdefault(reference, []).append(a if reference == b else b)
        for line, runs in lines.items():
            subjects = (f"{', '.join(labels[run] for run in of)} against {labels[other]}" for other, of in runs.items())
            yield self._about_pairs(line, subjects, sum(map(len, runs.values())))
        pairs_by_line: dict[str, list[str]] = {}
        for (a, b), pair in result.pairs.items():
            for line in _missing_tasks(pair):
                pairs_by_line.setdefault(line, []).append(f"A = {labels[a]}, B = {labels[b]}")
        for line, pairs in pairs_by_line.items():
            yield self._about_pairs(line, pairs, len(pairs))

    def _about_pairs(self, line: str, subjects: Iterable[str], count: int) -> str:
        """Return a line about so many pairs, with their names unless it holds for all pairs."""
        return line if count == len(self.result.pairs) else f"{'; '.join(subjects)}: {line}"

    def _notes_of_runs(self) -> Iterator[str]:
        result = self.result
        names = ("A", "B") if len(result.runs) == 2 and (0, 1) in result.pairs else self.labels
        of_runs = [
            list(run_notes.notes(run, self._tasks_of(index), [self.metric])) for index, run in enumerate(result.runs)
        ]
        for note in dict.fromkeys(note for notes in of_runs for note in notes):
            subjects = [name for name, notes in zip(names, of_runs, strict=True) if note in notes]
            subject = "all runs" if len(subjects) == len(names) > 2 else " and ".join(subjects)
            yield note if note.startswith(f"{subject}: ") else f"{subject}: {note}"

    def _notes_of_columns(self) -> Iterator[str]:
        result = self.result
        method = {"holm": "Holm's", "bh": "Benjamini and Hochberg's"}[result.correction]
        yield f"{method} correction over {self.family} test{'s' * (self.family != 1)}"
        scores = (score for run in result.runs for task in run.tasks for score in task.scores)
        if any(score.metric == self.metric and not score.higher_is_better for score in scores):
            sign = "A is better where A − B" if len(result.runs) == PAIR else "a run is better where the difference"
            yield f"{self.metric}: lower is better, so that {sign} is negative"
        tasks = [task for pair in result.pairs.values() for task in pair.tasks]
        methods = [task.comparison.interval.method for task in tasks]
        if texts := dict.fromkeys(INTERVALS[method] for method in methods if method):
            yield f"95 % interval: {'; '.join(texts)}"
        if len(result.runs) > PAIR and any(row.is_unreliable for row in self._by_task.rows):
            yield UNRELIABLE_NOTE
        if len(result.runs) > PAIR and result.against is None:
            yield "other pairs of runs: figeval compare --json, or `differences` in Python"
        if len(result.runs) == PAIR and any(task.detectable is not None for task in tasks):
            of_tests = f" after correction over {pluralize(result.family, 'test')}" if result.family > 1 else ""
            yield f"detectable: the difference that p < {ALPHA:g}{of_tests} would find with probability 0.8"
        if result.margin is not None:
            yield f"p (equivalent): two one-sided tests of a difference of {result.margin:g} or more, uncorrected"
            yield "p (equivalent): for each task alone; none if fewer than ten clusters differ in values not 0 or 1"
        if result.ranks:
            yield "ranks: 95 % confidence sets from Holm-corrected tests of all pairs, on examples all runs answered"
        yield from dict.fromkeys(f"{self.metric}: {remark}" for remark in self._remarks())

    def _tasks_of(self, run: int) -> set[str]:
        """Return the tasks and contrasts of a run, as it names them, that were compared."""
        tasks = set[str]()
        record = self.result.runs[run]
        for indices, pair in self.result.pairs.items():
            if run not in indices:
                continue
            prompt = pair.prompts[indices.index(run)] if pair.prompts else None
            records = tasks_of(record, prompt)
            names = {task.task.partition(" (")[0] for task in pair.tasks}
            tasks |= {records[name].task for name in names if name in records}
            tasks |= {contrast.name for contrast in record.contrasts if contrast.name in names}
        return tasks

    def _remarks(self) -> Iterator[str]:
        """Yield the remarks that must accompany every score of a metric with an argument."""
        arguments = (argument_of(task, self.metric) for run in self.result.runs for task in run.tasks)
        yield from (str(argument["remark"]) for argument in arguments if argument.get("remark"))

    def __repr__(self) -> str:
        tasks = ", ".join(dict.fromkeys(task.task for pair in self.result.pairs.values() for task in pair.tasks))
        names = [repr(run.model.name) for run in self.result.runs]
        models = f"{names[0]} minus {names[1]}" if len(names) == 2 else ", ".join(names)
        return f"<figeval.Comparison of {self.metric}: {models} on {tasks}>"


def _numbers(pair: RunComparison) -> JSON:
    tasks = []
    for task in pair.tasks:
        fields = to_json(task)
        if not task.same_as:
            del fields["same_as"]
        tasks.append({"task": fields.pop("task"), **fields.pop("comparison"), **fields})
    problem = {"problem": pair.problem} if pair.problem else {}
    caveats = {"caveats": list(pair.caveats)} if pair.caveats else {}
    return {"tasks": tasks, "left_out": dict(pair.left_out), **problem, **caveats}


def _omissions(pair: RunComparison, sides: tuple[str, str], tasks: Sequence[TaskComparison]) -> Iterator[str]:
    """Yield a pair's caveats, and lines about the tasks that are shown.

    Args:
        pair: the comparison of two runs.
        sides: what the runs are called.
        tasks: those of its tasks of which a difference is shown.
    """
    yield from pair.caveats if tasks else ()
    for task in tasks:
        counts = {
            f"only in {sides[0]}": task.unmatched_a,
            f"only in {sides[1]}": task.unmatched_b,
            "without a valid answer": task.unanswered,
            "that a model was trained or chosen on": task.seen,
        }
        parts = [f"{count} {kind}" for kind, count in counts.items() if count]
        if parts:
            yield f"{task.task}: left out {', '.join(parts)}"
        if task.comparison.note:
            yield f"{task.task}: {task.comparison.note}"
    repeats: dict[str, list[str]] = {}
    for task in tasks:
        if task.same_as:
            repeats.setdefault(task.same_as, []).append(task.task)
    for original, names in repeats.items():
        yield f"{', '.join(names)}: the same rows as {original} in both runs, counted as one test"


def _missing_tasks(pair: RunComparison) -> Iterator[str]:
    """Yield which tasks of runs A and B were not compared, and why."""
    reasons: dict[str, list[str]] = {}
    for name, reason in pair.left_out.items():
        reasons.setdefault(reason, []).append(name)
    yield from (f"{', '.join(names)} not compared: {reason}" for reason, names in reasons.items())
    if pair.problem:
        yield f"not compared: {pair.problem}"


# ---- tables ----------------------------------------------------------------------------------------------------------


class PairedTask(NamedTuple):
    """A row of the differences: the indices of runs A and B, and their comparison on a task."""

    a: int
    b: int
    task: TaskComparison

    @property
    def test(self) -> PairedTest:
        """The difference and its test."""
        return self.task.comparison


def difference_columns(metric: str, correction: str, *, equivalence: bool) -> list[Column[PairedTask]]:
    """Return the columns of the differences by a metric; people see tests of equivalence only if there are some."""
    return [
        Column("run_a", "Int64", lambda row: row.a),
        Column("run_b", "Int64", lambda row: row.b),
        Column("task", "string", lambda row: row.task.task, "task"),
        Column("metric", "string", lambda _row: metric),
        Column("a", "float64", lambda row: row.test.value_a, "A", format_number),
        Column("b", "float64", lambda row: row.test.value_b, "B", format_number),
        Column("difference", "float64", lambda row: row.test.difference, "A − B", partial(format_number, form="+.4f")),
        Column("low", "float64", lambda row: row.test.low),
        Column("high", "float64", lambda row: row.test.high),
        Column(
            value=lambda row: format_interval(row.test.low, row.test.high, "+.3f"), head="95 % interval", align="right"
        ),
        Column("stderr", "float64", lambda row: row.test.stderr),
        Column("p", "float64", lambda row: row.test.p, "p", format_p_value),
        Column("p_adjusted", "float64", lambda row: row.task.p_adjusted, f"p ({correction})", format_p_value),
        Column("detectable", "float64", lambda row: row.task.detectable),
        Column(
            "p_equivalence",
            "float64",
            lambda row: row.task.p_equivalence,
            "p (equivalent)" if equivalence else None,
            format_p_value,
        ),
        Column(value=lambda row: _detectable(row.task), head="detectable", align="right"),
        Column("n", "Int64", lambda row: row.test.n, "n"),
        Column("clusters", "Int64", lambda row: row.test.clusters),
        Column("effective_clusters", "float64", lambda row: row.test.effective_clusters),
        Column(value=_clusters, head="clusters", align="right", is_spare=True),
        Column("interval", "string", lambda row: str(row.test.interval) if row.test.low is not None else ""),
        Column("test", "string", lambda row: row.test.test, "test", is_spare=True),
        Column("only_in_a", "Int64", lambda row: row.task.unmatched_a),
        Column("only_in_b", "Int64", lambda row: row.task.unmatched_b),
        Column("unanswered", "Int64", lambda row: row.task.unanswered),
        Column("seen", "Int64", lambda row: row.task.seen),
    ]


def _clusters(row: PairedTask) -> str:
    return f"{row.test.clusters}{effective(row.test.clusters, row.test.effective_clusters)}"


def _detectable(task: TaskComparison) -> str:
    """Return the detectable difference, `none` if the test can find none, or a dash if there is no test."""
    if task.detectable is None and task.comparison.p is not None and reachable(task.comparison, task.level) == 0:
        return "none"
    return format_number(task.detectable)
