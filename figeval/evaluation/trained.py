"""What a report has to say of a model because of how it was trained.

A model that was trained on examples knows their answers. A checkpoint that was chosen on examples has there the highest
score of many: no interval around a maximum is honest (docs/statistics.md). Both hold for every model that was trained
from such a one, and for a pipeline with such a part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_
from typing import Any

from figeval.errors import FigevalError
from figeval.evaluation.harness import Harness
from figeval.evaluation.plan import Plan
from figeval.models.model import Model, open_model
from figeval.records.schema import (
    CHOSEN_ON_TEST,
    AncestorRecord,
    LineageRecord,
    OverlapRecord,
    RunRecord,
    ScoreRecord,
    TaskRecord,
)
from figeval.resources import expand_user
from figeval.textfile import is_folder
from figeval.training.seen import Ancestor, Lineage, lineage_of

TEST = "test"


# ---- where a model comes from ---------------------------------------------------------------------------------------


def line_of(model: Model) -> Lineage:
    """A model and all that it was trained from; of a model made of parts the lines of all of them.

    Raises:
        TrainError: the digests in its folder are damaged.
    """
    if model.parts:
        return reduce(or_, map(line_of, model.parts))
    folder = expand_user(model.source) if model.source else None
    return lineage_of(model.wanted or model.backend_name, folder if folder is not None and is_folder(folder) else None)


def described(line: Lineage) -> LineageRecord | None:
    """What the record says of it; None where figeval trained none of these models."""
    if not any(one.about for one in line.ancestors):
        return None
    return LineageRecord(
        ancestors=[AncestorRecord(model=one.model, about=one.about) for one in line.ancestors],
        trained=len(line.trained),
        chosen=len(line.chosen),
        unknown=list(line.unknown),
    )


def warn_of_helpers(record: RunRecord, plans: Iterable[Plan], line: Lineage, harness: Harness) -> None:
    """Say of every task whose wrong options this model has picked, or one that it was trained from, that it is at a
    disadvantage there.
    """
    tasks = {task.task: task for task in record.tasks}
    for plan in plans:
        helper = helper_of(plan.task.built_with, line, harness)
        if helper is not None:
            descent = ", an ancestor of this model" if line.ancestors[0].about else ""
            picked = f"the wrong options were picked with the help of {helper}{descent}"
            text = f"{picked}, so the score is biased downwards by construction"
            tasks[plan.name].warnings.insert(0, text)


def helper_of(built_with: Iterable[str], line: Lineage, harness: Harness) -> str | None:
    """The model among those that a task was built with from which this one descends, or which it is."""
    origins = [one for one in line.ancestors if not one.about]
    names = list(built_with) if origins else []
    called = (name for name in names if any(_called(one, name) for one in origins))
    return next(called, None) or next((name for name in names if _weighs(name, origins, harness)), None)


def _called(origin: Ancestor, name: str) -> bool:
    """Whether this is the model of that name, as registered or on the hub; a folder may have any name."""
    place = expand_user(origin.model)
    is_folder = bool(origin.weights) or place.is_absolute() or place == origin.folder
    return not is_folder and origin.model.rpartition("/")[2] == name


def _weighs(name: str, origins: Iterable[Ancestor], harness: Harness) -> bool:
    """Whether one of these has the weights of the registered model of that name."""
    weighed = [one for one in origins if one.folder is not None or one.weights]
    if not weighed or name not in harness.backends.registry:
        return False
    try:
        own = line_of(open_model(harness.backends, name, {})).ancestors[0].identified().weights
    except FigevalError:  # it is not installed here
        return False
    return bool(own) and any(one.identified().weights == own for one in weighed)


# ---- what is said of it ---------------------------------------------------------------------------------------------


def own_up(record: RunRecord, harness: Harness) -> None:
    """Say which scores rest on examples that the model has seen, and take intervals away where only the name of the
    split is known on which it was chosen. Doing it twice is once.
    """
    line = record.model.lineage
    for one in maxima(record):
        note(record.warnings, f"{one.model} was {sentence(one.about)}")
    if line is not None and line.unknown:
        note(record.warnings, unknown(line.unknown))
    for task in record.tasks:
        if not task.scores:
            continue
        for one in maxima(record):
            if concerned(task, str(one.about.get("task")), harness):
                note(task.warnings, sentence(one.about))
                if line is None or one.model in line.unknown:
                    without_intervals(task)
        count(task, line)


def maxima(record: RunRecord) -> Iterator[AncestorRecord]:
    """The models in the line that were chosen on test; before 1.4 a record knows the model itself alone."""
    line = record.model.lineage
    own = [AncestorRecord(model=record.model.name, about=record.model.description.get("about") or {})]
    yield from (one for one in (own if line is None else line.ancestors) if one.about.get("selected_on") == TEST)


def sentence(about: dict[str, Any]) -> str:
    """`chosen on the test split of epic_retrieval_seen: its score there is a maximum over 25 evaluations`."""
    evaluations = about.get("evaluations")
    most = f"a maximum over {evaluations} evaluations" if evaluations else "a maximum over evaluations"
    return f"chosen on the test split of {about.get('task')}: its score there is {most}"


def unknown(models: Iterable[str]) -> str:
    """A sentence about models whose examples are not known."""
    return (
        f"the training examples of {' and '.join(models)} are not known, so these tasks may contain some of them; "
        "if an older figeval trained it, running its `figeval train` command again adds them to its folder"
    )


def count(task: TaskRecord, line: LineageRecord | None) -> None:
    """Say how many examples of a task were seen."""
    if line is not None and not line.unknown and task.overlap is None:
        task.overlap = OverlapRecord(trained=0, chosen=0, rest=task.n)
    found = task.overlap
    if found is None:
        return
    least = "at least " if line is not None and line.unknown else ""
    share = f"{least}{found.trained + found.chosen} of {task.n} examples"
    if found.trained and found.chosen:
        note(task.warnings, f"{share} were seen: trained on {found.trained}, chosen on {found.chosen}")
    elif found.trained:
        note(task.warnings, f"{share} were trained on")
    elif found.chosen:
        note(task.warnings, f"the model was chosen on {share}")


def concerned(task: TaskRecord, chosen_on: str, harness: Harness) -> bool:
    """Whether these are the examples that the model was chosen on: the task's own, or another's from the same data."""
    name = task.of or task.task
    if name == chosen_on:
        return True
    tasks = harness.catalogue.tasks
    if name not in tasks or chosen_on not in tasks:
        return False
    one, other = tasks.get(name), tasks.get(chosen_on)
    return one.owner == other.owner and one.data.get(TEST) is not None and one.data.get(TEST) == other.data.get(TEST)


def without_intervals(task: TaskRecord) -> None:
    """No interval for the scores of a task, its breakdowns, its languages and the options that were chosen; baselines
    were not chosen and keep theirs.
    """
    drop(task.shown_scores())
    for scores in (group.scores for one in task.breakdowns for group in one.groups):
        drop(scores)


def drop(scores: Iterable[ScoreRecord]) -> None:
    """Take the intervals away."""
    for score in scores:
        score.low = score.high = score.stderr = None
        score.interval, score.seen = CHOSEN_ON_TEST, "chosen"


def note(warnings: list[str], text: str) -> None:
    """Add a warning that is not there yet."""
    if text not in warnings:
        warnings.append(text)
