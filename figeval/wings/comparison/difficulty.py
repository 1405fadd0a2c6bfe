"""`figeval.difficulty`: how difficult the examples of a task are for several models, and labels that may be wrong.

Only the stored predictions are read. An example that every model answers wrongly in the same way is either hard for all
of them or labelled wrongly; someone has to look at it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from shlex import join
from typing import Any

from figeval import JSON, Column, OptionError, RecordError, Result, Table
from figeval.api.runs import Runs, run_paths
from figeval.io.text import near, one_line, pluralize, shown_json
from figeval.io.validation import checked_arguments
from figeval.runs.stored import stored_metrics
from figeval.wings.comparison.pair import refuse_other_examples, tasks_of
from figeval.wings.comparison.task_comparison import RunSide

PAIR = 2
MAX_LISTED = 10  # candidates for each task
RIGHT_SHARE = 0.5  # an answer that is right with a higher probability, as by a tie, counts as right


@checked_arguments
def difficulty(*runs: Runs, metric: str = "acc") -> Difficulty:
    """Say how difficult the examples of a task are for several models, and which labels may be wrong.

    Args:
        runs: at least two runs or their folders, one by one or as a list. The values of a folder of several seeds are
            averaged.
        metric: a mean over examples with values from 0 to 1.

    Raises:
        OptionError: an argument has another type, or there are fewer than two runs.
        RecordError: a run or its predictions are missing, the runs have no task in common, or none has the metric, or a
            task has other examples in one of them.

    Example:
        ```python
        items = figeval.difficulty("results/runs/minilm", "results/runs/smollm2", "results/runs/tfidf").to_frame()
        items[items["candidate"]]
        ```
    """
    paths = [path for argument in runs for path in run_paths(argument)]
    if len(paths) < PAIR:
        raise OptionError("give at least two runs, one by one or as a list")
    return Difficulty(tuple(_rate_tasks([RunSide.at(path) for path in paths], metric)), metric)


@dataclass(frozen=True, slots=True)
class Difficulty(Result):
    """Difficulty of the examples of some tasks, as `figeval.difficulty` returns it.

    Attributes:
        tasks: the examples and counts of each task.
        metric: the metric that says what is right.
    """

    tasks: tuple[TaskDifficulty, ...]
    metric: str

    @property
    def tables(self) -> list[Table[Any]]:
        """One row per task and example, the most difficult first, and for people one per task.

        Columns: `task`, `id`, `cluster`, `difficulty` (1 minus the mean value), `answered` and `right` (numbers of
        models), `gold`, `common_error` (the wrong answer that all models gave), and `candidate` (whether the label may
        be wrong).
        """
        items = [{"task": task.task, **asdict(item)} for task in self.tasks for item in task.items]
        return [
            Table(EXAMPLE_COLUMNS, items),
            Table(TASK_COLUMNS, self.tasks, f"{self.metric}: examples by difficulty"),
        ]

    def to_dict(self) -> list[dict[str, Any]]:
        """Return all numbers and examples as `figeval difficulty --json` prints them."""
        return [asdict(task) for task in self.tasks]

    def to_csv(self) -> str:
        """Return a line for each example, as `figeval difficulty --output` writes them; answers are JSON."""
        return self.tables[0].to_csv()

    def notes(self) -> Iterator[str]:
        """Yield the lines below the table: the candidates of each task, and what was left out."""
        for task in self.tasks:
            for item in task.candidates[:MAX_LISTED]:
                answer, gold = _shown(item.common_error), _shown(item.gold)
                yield f"{task.task} {item.id}: all {item.answered} models answer {answer}, gold is {gold}"
            if (unlisted := len(task.candidates) - MAX_LISTED) > 0:
                yield f"{task.task}: {unlisted} more; --output lists all"
            if items := (task.candidates or [item for item in task.items if not item.right])[:MAX_LISTED]:
                ids = (part for item in items for part in ("--id", one_line(item.id)))
                subject = "these" if task.candidates else "the hardest"
                yield f"{task.task}: to look at {subject}, run figeval preview {join((task.of, *ids))}"
            if task.unanswered:
                yield f"{task.task}: {pluralize(task.unanswered, 'example')} without an answer from some model"
            if task.uninformed:
                names = ", ".join(map(one_line, task.uninformed))
                yield f"{task.task}: no candidates from models no better than the most common right answer: {names}"

    def __repr__(self) -> str:
        tasks = ", ".join(task.task for task in self.tasks)
        return f"<figeval.Difficulty of {tasks} for {len(self.tasks[0].models)} models by {self.metric}>"


def _shown(answer: object) -> str:
    return shown_json(json.dumps(answer, ensure_ascii=False))


EXAMPLE_COLUMNS: tuple[Column[JSON], ...] = (
    Column("task"),
    Column("id"),
    Column("cluster"),
    Column("difficulty", "float64"),
    Column("answered", "Int64"),
    Column("right", "Int64"),
    Column("gold", "object", text=_shown),
    Column("common_error", "object", text=_shown),
    Column("candidate", "bool", lambda item: item["common_error"] is not None),
)
TASK_COLUMNS: tuple[Column[TaskDifficulty], ...] = (
    Column("task", head="task"),
    Column("n", "Int64", lambda task: len(task.items), "n"),
    Column("models", "Int64", lambda task: len(task.models), "models"),
    Column("nobody", "Int64", head="nobody"),
    Column("nobody_expected", "float64", head="expected", text="{:.1f}".format),
    Column("everybody", "Int64", head="everybody"),
    Column("everybody_expected", "float64", head="expected", text="{:.1f}".format),
    Column("candidates", "Int64", lambda task: len(task.candidates), "candidates"),
)


# ---- one task --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExampleDifficulty:
    """One example as several models answered it.

    Attributes:
        id: id of the example.
        cluster: its cluster, or None.
        difficulty: 1 minus the mean value over the models that answered, from 0 (easy) to 1.
        answered: number of models with a valid answer.
        right: number of models whose answer is right.
        gold: stored gold answer.
        common_error: wrong answer that all models with an answer gave in every seed, without a tie, if at least two of
            them are better than the most common right answer; else None.
    """

    id: str
    cluster: str | None
    difficulty: float
    answered: int
    right: int
    gold: Any
    common_error: Any = None


@dataclass(frozen=True, slots=True)
class TaskDifficulty:
    """The examples of a task that all runs have.

    `nobody` and `everybody` count the examples that no model and that every model got right; `nobody_expected` and
    `everybody_expected` are the counts for models with the same accuracies on the examples that they answered, which
    err independently of one another. `by_right` has the number of examples by the number of models that were right,
    and `unanswered` is the number of examples to which some model gave no answer. `uninformed` are the models that are
    not better than always giving the most common right answer, whose errors say nothing about a label.
    """

    task: str
    models: tuple[str, ...]
    items: tuple[ExampleDifficulty, ...]
    nobody: int
    everybody: int
    nobody_expected: float
    everybody_expected: float
    by_right: Mapping[int, int]
    unanswered: int = 0
    uninformed: tuple[str, ...] = ()

    @property
    def of(self) -> str:
        """Name of the task without that of a prompt or a probe."""
        return self.task.partition("@")[0]

    @property
    def candidates(self) -> list[ExampleDifficulty]:
        """Examples whose label may be wrong: those with a common error, given by most models first."""
        items = [item for item in self.items if item.common_error is not None]
        return sorted(items, key=lambda item: -item.answered)


def _rate_tasks(sides: Sequence[RunSide], metric: str) -> list[TaskDifficulty]:
    """Return the difficulty of the examples of each task that all runs have; the values of seeds are averaged."""
    tasks = [tasks_of(side.record, None) for side in sides]
    common = [name for name in tasks[0] if all(name in records for records in tasks[1:])]
    if not common:
        listing = "; ".join(
            f"{side.record.model.name} has {', '.join(records)}" for side, records in zip(sides, tasks, strict=True)
        )
        raise RecordError(f"the runs have no task in common: {listing}")
    rated_tasks = []
    for name in common:
        for records in tasks[1:]:
            refuse_other_examples(tasks[0][name], records[name])
        if all(all(side.values(name, metric)) for side in sides):
            rated_tasks.append(_rate_task(name, sides, metric))
    if not rated_tasks:
        metrics = {stored for side in sides for name in common for stored in stored_metrics(side.folder, name)}
        listing = ", ".join(sorted(metrics)) or "none"
        raise RecordError(f"no task has {metric!r} per example in all runs{near(metric, metrics)}; they have {listing}")
    return rated_tasks


def _rate_task(name: str, sides: Sequence[RunSide], metric: str) -> TaskDifficulty:
    means = [_means(side, name, metric) for side in sides]
    rows = [[{row["id"]: row for row in folder.rows(name)} for _, folder in side.runs] for side in sides]
    examples = [example for example in means[0] if all(example in values for values in means)]
    gold = Counter(json.dumps(rows[0][0][example]["gold"], sort_keys=True) for example in examples)
    most_common = max(gold.values(), default=0) / max(1, len(examples))
    answers = [[value for example in examples if (value := values[example]) is not None] for values in means]
    informed = [bool(values) and sum(values) / len(values) > most_common for values in answers]
    items = []
    for example in examples:
        values = [value for run in means if (value := run[example]) is not None]
        if values:
            right = sum(value > RIGHT_SHARE for value in values)
            by_seed = [[seed[example] for seed in seeds if example in seed] for seeds in rows]
            error = None if right else _common_error(by_seed, informed, metric)
            row, mean = by_seed[0][0], sum(values) / len(values)
            items.append(ExampleDifficulty(example, row["cluster"], 1 - mean, len(values), right, row["gold"], error))
    shares = [sum(value > RIGHT_SHARE for value in values) / len(values) if values else 0.0 for values in answers]
    answered = [[values[item.id] is not None for values in means] for item in items]
    models = tuple(side.record.model.name for side in sides)
    return TaskDifficulty(
        task=name,
        models=models,
        items=tuple(sorted(items, key=lambda item: (-item.difficulty, item.id))),
        nobody=sum(not item.right for item in items),
        everybody=sum(item.right == len(sides) for item in items),
        nobody_expected=sum(
            prod(1 - share for share, is_answered in zip(shares, runs, strict=True) if is_answered) for runs in answered
        ),
        everybody_expected=prod(shares) * sum(map(all, answered)),
        by_right=dict(sorted(Counter(item.right for item in items).items())),
        unanswered=len(examples) - sum(map(all, answered)),
        uninformed=tuple(model for model, is_informed in zip(models, informed, strict=True) if not is_informed),
    )


def _common_error(rows: Sequence[Sequence[Mapping[str, Any]]], informed: Sequence[bool], metric: str) -> Any:
    """Return the answer of all seeds of all models if at least two informed models gave it without a tie, else None."""
    valid = [[row for row in seeds if row["metrics"].get(metric) is not None] for seeds in rows]
    errors = {json.dumps(row["pred"], sort_keys=True) for seeds in valid for row in seeds}
    is_tied = any((row.get("tied") or 1) > 1 for seeds in valid for row in seeds)
    votes = sum(bool(seeds) and is_informed for seeds, is_informed in zip(valid, informed, strict=True))
    return json.loads(errors.pop()) if len(errors) == 1 and not is_tied and votes > 1 else None


def _means(side: RunSide, task: str, metric: str) -> dict[str, float | None]:
    """Return the value of each example, averaged over the seeds that answered it; None without any answer."""
    means: dict[str, float | None] = {}
    runs = side.values(task, metric)
    for example in runs[0]:
        values = [value for run in runs if example in run and (value := run[example][0]) is not None]
        means[example] = sum(values) / len(values) if values else None
    return means
