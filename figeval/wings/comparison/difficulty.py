"""Difficulty of the examples of a task for several models, and labels that may be wrong.

Only the stored predictions are read. An example that every model answers wrongly in the same way is either hard for all
of them or labelled wrongly; someone has to look at it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from figeval.errors import RecordError, near
from figeval.records.predictions import PredictionRow
from figeval.runs.stored import stored_metrics
from figeval.wings.comparison.compare import refuse_other_examples, tasks_of
from figeval.wings.comparison.sides import Side

RIGHT = 0.5  # an answer that is right with a higher probability, as by a tie, counts as right


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
        found = [item for item in self.items if item.common_error is not None]
        return sorted(found, key=lambda item: -item.answered)


def difficulty(paths: Sequence[Path], metric: str = "acc") -> list[TaskDifficulty]:
    """Return the difficulty of the examples of each task that all runs have.

    Args:
        paths: folders of at least two runs; the values of several seeds are averaged.
        metric: a mean over examples with values from 0 to 1.

    Raises:
        RecordError: a run or its predictions are missing, the runs have no task in common, or none has the metric, or a
            task has other examples in one of them.
    """
    sides = [Side.at(path) for path in paths]
    tasks = [tasks_of(side.record, None) for side in sides]
    common = [name for name in tasks[0] if all(name in other for other in tasks[1:])]
    if not common:
        has = "; ".join(
            f"{side.record.model.name} has {', '.join(own)}" for side, own in zip(sides, tasks, strict=True)
        )
        raise RecordError(f"the runs have no task in common: {has}")
    found = []
    for name in common:
        for other in tasks[1:]:
            refuse_other_examples(tasks[0][name], other[name])
        if all(all(side.values(name, metric)) for side in sides):
            found.append(_of_task(name, sides, metric))
    if not found:
        stored = {one for side in sides for name in common for one in stored_metrics(side.folder, name)}
        known = ", ".join(sorted(stored)) or "none"
        raise RecordError(f"no task has {metric!r} per example in all runs{near(metric, stored)}; they have {known}")
    return found


def _of_task(name: str, sides: Sequence[Side], metric: str) -> TaskDifficulty:
    values = [_means(side, name, metric) for side in sides]
    rows = [[{row["id"]: row for row in folder.rows(name)} for _, folder in side.runs] for side in sides]
    examples = [one for one in values[0] if all(one in own for own in values)]
    gold = Counter(json.dumps(rows[0][0][one]["gold"], sort_keys=True) for one in examples)
    most_common = max(gold.values(), default=0) / max(1, len(examples))
    known = [[value for one in examples if (value := own[one]) is not None] for own in values]
    informed = [bool(own) and sum(own) / len(own) > most_common for own in known]
    items = []
    for example in examples:
        answers = [value for own in values if (value := own[example]) is not None]
        if not answers:
            continue
        right = sum(value > RIGHT for value in answers)
        found = [[own[example] for own in seeds if example in own] for seeds in rows]
        error = None if right else _common_error(found, informed, metric)
        row = found[0][0]
        difficulty = 1 - sum(answers) / len(answers)
        items.append(ExampleDifficulty(example, row["cluster"], difficulty, len(answers), right, row["gold"], error))
    shares = [sum(value > RIGHT for value in own) / len(own) if own else 0.0 for own in known]
    answered = [[own[item.id] is not None for own in values] for item in items]
    models = tuple(side.record.model.name for side in sides)
    return TaskDifficulty(
        task=name,
        models=models,
        items=tuple(sorted(items, key=lambda item: (-item.difficulty, item.id))),
        nobody=sum(not item.right for item in items),
        everybody=sum(item.right == len(sides) for item in items),
        nobody_expected=sum(prod(1 - share for share, has in zip(shares, own, strict=True) if has) for own in answered),
        everybody_expected=prod(shares) * sum(map(all, answered)),
        by_right=dict(sorted(Counter(item.right for item in items).items())),
        unanswered=len(examples) - sum(map(all, answered)),
        uninformed=tuple(model for model, is_informed in zip(models, informed, strict=True) if not is_informed),
    )


def _common_error(found: Sequence[Sequence[PredictionRow]], informed: Sequence[bool], metric: str) -> Any:
    """Return the answer of all seeds of all models if at least two informed models gave it without a tie, else None."""
    valid = [[row for row in seeds if row["metrics"].get(metric) is not None] for seeds in found]
    errors = {json.dumps(row["pred"], sort_keys=True) for seeds in valid for row in seeds}
    is_tied = any((row.get("tied") or 1) > 1 for seeds in valid for row in seeds)
    votes = sum(bool(seeds) and is_informed for seeds, is_informed in zip(valid, informed, strict=True))
    return json.loads(errors.pop()) if len(errors) == 1 and not is_tied and votes > 1 else None


def _means(side: Side, task: str, metric: str) -> dict[str, float | None]:
    """Return the value of each example, averaged over the seeds that answered it; None without any answer."""
    found: dict[str, float | None] = {}
    every = side.values(task, metric)
    for example in every[0]:
        known = [own[example][0] for own in every if example in own]
        valid = [value for value in known if value is not None]
        found[example] = sum(valid) / len(valid) if valid else None
    return found
