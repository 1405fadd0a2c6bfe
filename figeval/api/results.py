"""Results of the Python API: a run, a comparison of two, a training.

Each has its numbers as pandas DataFrames, shows itself in a notebook as the table that the command line prints, and
reads from its folder what it does not hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from figeval import plugins
from figeval.api import frames
from figeval.errors import FigevalError, RecordError, TrainError, near
from figeval.evaluation.compare import RunComparison, TaskComparison
from figeval.evaluation.harness import Harness
from figeval.evaluation.stored import with_breakdown
from figeval.evaluation.training.train import stored_record
from figeval.records.folder import RunFolder
from figeval.records.schema import RunRecord
from figeval.records.sweep import run_or_mean
from figeval.report import table
from figeval.report import training as training_table
from figeval.report.exporters import load_exporters
from figeval.report.grid import Grid, page, plain
from figeval.types import JSON

if TYPE_CHECKING:
    from typing import Unpack

    import pandas

    from figeval.api.options import RunOptions, Task

HEAD = ("task", "A", "B", "A − B", "95 % interval", "p", "p (Holm)", "n", "clusters", "test")


class Run:
    """A run of one model over some tasks, as `figeval.run` and `figeval.load` return it.

    In a notebook it is shown as the table that `figeval run` prints; `print(run)` prints the same as text.

    Attributes:
        record: all that `run.json` holds.
        path: the folder of the run, with `run.json` and `predictions/`.
    """

    def __init__(self, record: RunRecord, path: Path) -> None:
        self.record = record
        self.path = path

    @classmethod
    def at(cls, path: str | Path) -> Run:
        """Return the run in a folder, or the means of the runs of several seeds. Raises `RecordError` without one."""
        place = Path(path)
        return cls(run_or_mean(place), place if place.is_dir() else place.parent)

    # ---- what came of it --------------------------------------------------------------------------------------------

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks in order; a further prompt or a probe is called `task@variant`."""
        return tuple(task.task for task in self.record.tasks)

    @property
    def complete(self) -> bool:
        """True if every task is done and every example has an answer."""
        return self.record.status == "complete"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the numbers and errors of tasks that failed, one sentence each."""
        found = list(self.record.warnings)
        for task in self.record.tasks:
            found += (f"{task.task}: {warning}" for warning in task.warnings)
            if task.error:
                found.append(f"{task.task} failed: {task.error.strip().splitlines()[-1]}")
        return (*found, *map(str, self.record.model.description.get("warnings", ())))

    @property
    def scores(self) -> pandas.DataFrame:
        """The scores, a row per task and metric.

        Columns: `run` (its identity), `model`, `task`, `kind` (task, prompt or probe), `task_type`, `route`, `examples`
        (all, or unseen: without those that the model was trained or chosen on), `metric`, `value`, `low`, `high`,
        `stderr`, `n`, `clusters`, `effective_clusters`, `interval` (the method, or why there is none),
        `higher_is_better`, `seen`, and `baseline_NAME` for each trivial model. Numbers are `float64`, counts `Int64`,
        texts `string`.

        Raises:
            FigevalError: pandas is not installed.
        """
        return frames.scores(self.record)

    @property
    def macro(self) -> pandas.DataFrame:
        """The macro means of suites: `run`, `model`, `suite`, `metric`, `value`, `tasks`, `seen`.

        Raises:
            FigevalError: pandas is not installed.
        """
        return frames.macro(self.record)

    def predictions(self, task: str) -> pandas.DataFrame:
        """Return the stored answers to a task, a row per example in the task's order.

        Columns: `id`, `status`, `prediction` and `gold` (an index, a label, a span … as the task type has them), a
        column per metric (`acc` is 1 for a right answer and a share where answers tie), `tied`, `truncated`, `seen`,
        `cluster`, `group`, for models that write `raw`, `finish` and `error`, and `meta.NAME` for each column of the
        examples.

        Raises:
            RecordError: the run has no such task or no predictions, or they were changed since.
            FigevalError: pandas is not installed.
        """
        if task not in self.tasks:
            raise RecordError(f"the run has no task {task!r}{near(task, self.tasks)}; it has {', '.join(self.tasks)}")
        folder = RunFolder(self.path)
        if not folder.has_predictions(task):
            raise RecordError(f"{self.path} has no predictions of {task}; run the same command again")
        return frames.predictions(folder.rows(task))

    def by(self, key: str) -> Run:
        """Return the run with scores per value of a column of the examples, computed from the stored answers.

        Raises:
            RecordError: none of its tasks has such a column.
            UnknownName: a metric that the run was scored with is not installed.
        """
        return Run(with_breakdown(self.path, key, Harness().metrics), self.path)

    def breakdown(self, by: str) -> pandas.DataFrame:
        """Return the scores per value of a column of the examples: per idiom, proverb or corpus.

        Columns: `run`, `model`, `task`, `by` (the column), `group` (the value), and from `metric` on those of `scores`.
        The most frequent value of a task comes first.

        Raises:
            RecordError: none of its tasks has such a column.
            FigevalError: pandas is not installed.
        """
        return frames.breakdown(self.by(by).record)

    def progress(self) -> Iterator[str]:
        """Say how far a run has come that is going on, was killed, or had a task fail; nothing of a complete one."""
        if self.complete:
            return
        folder = RunFolder(self.path)
        yield f"{self.record.status}, begun {self.record.started}; the same command goes on where it stopped"
        for task in self.record.tasks:
            if task.status != "done":
                answered = {row["id"] for row in folder.rows(task.task)}
                yield f"{task.task}: {len(answered)} of {task.n} examples answered"

    # ---- how it is shown --------------------------------------------------------------------------------------------

    def export(self, form: str) -> str:
        """Return the scores in a format of `figeval export`: csv, json, latex, markdown, or one that a plugin brings.

        Raises:
            UnknownName: there is no such format.
        """
        return load_exporters(plugins.plugin_manager()).get(form)([self.record])

    def to_latex(self) -> str:
        """Return the scores as a LaTeX table."""
        return self.export("latex")

    def to_markdown(self) -> str:
        """Return the scores as a Markdown table."""
        return self.export("markdown")

    def _notes(self) -> list[str]:
        return [*table.notes(self.record), *self.progress()]

    def __str__(self) -> str:
        return plain(table.grids(self.record), self._notes())

    def __repr__(self) -> str:
        return f"<figeval.Run of {self.record.model.name!r} on {', '.join(self.tasks)}: {self.record.status}>"

    def _repr_html_(self) -> str:
        return page(table.grids(self.record), self._notes())


class Comparison:
    """Run A minus run B, task by task, as `figeval.compare` returns it.

    In a notebook it is shown as the table that `figeval compare` prints; `print(comparison)` prints the same as text.

    Attributes:
        result: all numbers, with the records of both runs.
    """

    def __init__(self, result: RunComparison) -> None:
        self.result = result

    @property
    def metric(self) -> str:
        """The metric that was compared."""
        return self.result.metric

    @property
    def family(self) -> int:
        """The number of tests that Holm's correction was made over."""
        return self.result.family

    @property
    def left_out(self) -> Mapping[str, str]:
        """Why a task could not be compared, by its name."""
        return dict(self.result.left_out)

    @property
    def differences(self) -> pandas.DataFrame:
        """The differences, a row per task.

        Columns: `task`, `metric`, `a`, `b`, `difference` (a − b), `low`, `high`, `stderr`, `p`, `p_holm`, `n`,
        `clusters`, `effective_clusters`, `test`, and the numbers of examples that did not enter: `only_in_a`,
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
        return {
            "metric": self.metric,
            **about,
            "family": self.family,
            "tasks": tasks,
            "left_out": dict(self.result.left_out),
        }

    @property
    def grid(self) -> Grid:
        """The table that the command line prints."""
        of_a, of_b = (f", prompt {prompt}" for prompt in self.result.prompts) if self.result.prompts else ("", "")
        title = f"{self.metric}: A = {self.result.a.model.name}{of_a}, B = {self.result.b.model.name}{of_b}"
        return Grid(HEAD, list(map(_cells, self.result.tasks)), title, right=HEAD[1:-1], spare=("test", "clusters"))

    def notes(self) -> Iterator[str]:
        """The lines under the table: the size of the family, and everything that did not enter the comparison."""
        yield f"Holm's correction over {self.family} test{'s' * (self.family != 1)}"
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

    def __str__(self) -> str:
        return plain([self.grid], self.notes())

    def __repr__(self) -> str:
        tasks = ", ".join(one.task for one in self.result.tasks)
        models = f"{self.result.a.model.name!r} minus {self.result.b.model.name!r}"
        return f"<figeval.Comparison of {self.metric}: {models} on {tasks}>"

    def _repr_html_(self) -> str:
        return page([self.grid], self.notes())


def _cells(one: TaskComparison) -> tuple[str, ...]:
    """One line of the table of a comparison."""
    found = one.comparison
    low, high = found.low, found.high
    interval = table.NOTHING if low is None or high is None else f"{low:+.3f} to {high:+.3f}"
    difference = table.NOTHING if found.difference is None else f"{found.difference:+.4f}"
    values = (table.number(found.value_a), table.number(found.value_b), difference)
    clusters = f"{found.clusters}{table.effective(found.clusters, found.effective_clusters)}"
    return (one.task, *values, interval, _pvalue(found.p), _pvalue(one.p_holm), str(found.n), clusters, found.test)


def _pvalue(p: float | None) -> str:
    """Four digits behind the point, and never 0."""
    return table.NOTHING if p is None else "<0.0001" if p < 1e-4 else f"{p:.4f}"


class Training:
    """A finished training, as `figeval.train` returns it; `Training(folder)` reads an earlier one.

    In a notebook it is shown as its table of scores on dev. The folder is a model like any other:
    `figeval.run(tasks, model=training.path)`.

    Attributes:
        path: the folder of the trained model.
        run: the run that the training ended with: of the tasks of `evaluate`, by default of the task itself. None if
            none was asked for, and for an earlier training; the method `evaluate` runs tasks now.
    """

    def __init__(self, path: str | Path, run: Run | None = None) -> None:
        self.path = Path(path)
        self.run = run

    @cached_property
    def record(self) -> JSON:
        """All that `training/record.json` holds: data, hyper-parameters, evaluations, cost, versions.

        Raises:
            TrainError: the folder holds no finished training.
        """
        try:
            found = stored_record(self.path)
        except FigevalError as error:
            raise TrainError(f"{self.path} holds no finished training ({error})") from error
        missing = {"config", "evaluations", "best", "task"} - found.keys()
        if missing:
            raise TrainError(f"{self.path} was not written by this version of figeval (no {sorted(missing)[0]})")
        return found

    @property
    def scores(self) -> pandas.DataFrame:
        """The scores on dev, a row per evaluation: `step`, a column per metric, and `best` for the chosen checkpoint.

        Raises:
            FigevalError: pandas is not installed.
        """
        return frames.evaluations(self.record)

    @property
    def best(self) -> dict[str, float | None]:
        """The scores on dev of the chosen checkpoint, by metric; empty where nothing was held out."""
        found = (one["scores"] for one in self.record["evaluations"] if one["step"] == self.record["best"])
        return next(found, {})

    def evaluate(self, tasks: Task | Sequence[Task], *, progress: bool = False, **options: Unpack[RunOptions]) -> Run:
        """Run tasks with the trained model; arguments, errors and result are those of `figeval.run`."""
        from figeval.api.calls import run

        return run(tasks, self.path, progress=progress, **options)

    def __str__(self) -> str:
        return plain([training_table.dev_scores(self.record)], training_table.notes(self.record))

    def __repr__(self) -> str:
        return f"<figeval.Training in {str(self.path)!r}>"

    def _repr_html_(self) -> str:
        return page([training_table.dev_scores(self.record)], training_table.notes(self.record))
