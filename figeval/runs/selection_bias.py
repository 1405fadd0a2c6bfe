"""Detection of examples that a model was trained or chosen on, whose scores are reported without intervals.

A model that was trained on examples knows their answers. A checkpoint that was chosen on examples has the highest of
many scores there, and no interval around a maximum is honest (docs/statistics.md). Both also hold for every model that
was trained from such a model, and for a pipeline that contains one. The score on the remaining examples, computed by
the same code, is reported next to such a score.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

from figeval.errors import FigevalError
from figeval.io.files import expand_user
from figeval.io.observer import Observer, listening
from figeval.models.model import open_model
from figeval.records.predictions import PredictionRow
from figeval.records.schema import (
    CHOSEN_ON_TEST,
    AncestorRecord,
    LineageRecord,
    OverlapRecord,
    Role,
    RunRecord,
    ScoreRecord,
    TaskRecord,
)
from figeval.records.seen import Ancestor, Lineage
from figeval.runs.harness import Harness
from figeval.runs.lineage import line_of
from figeval.runs.plan import Plan
from figeval.types import Interval

TEST = "test"
ROLES: tuple[Role, ...] = ("trained", "chosen")  # the more serious one first
Scores: TypeAlias = Callable[[Iterable[PredictionRow]], list[ScoreRecord]]


# ---- ancestors and training ------------------------------------------------------------------------------------------


def warn_of_helpers(record: RunRecord, plans: Iterable[Plan], line: Lineage, harness: Harness) -> None:
    """Add a warning to every task whose wrong options were picked with the help of this model or an ancestor of it."""
    tasks = {task.task: task for task in record.tasks}
    for plan in plans:
        helper = helper_of(plan.task.built_with, line, harness)
        if helper is not None:
            descent = ", an ancestor of this model" if line.ancestors[0].about else ""
            picked = f"the wrong options were picked with the help of {helper}{descent}"
            text = f"{picked}, so the score is biased downwards by construction"
            tasks[plan.name].warnings.insert(0, text)


def warn_of_augmentation(record: RunRecord, plans: Iterable[Plan], line: Lineage) -> None:
    """Add a warning to every task whose examples are not augmented like the model's training examples.

    Only the training of the model itself counts, not that of its ancestors.
    """
    trained: Mapping[str, Any] = line.ancestors[0].about.get("augment") or {}
    if not trained:
        return
    tasks = {task.task: task for task in record.tasks}
    flag = ",".join(f"{key}={trained[key]}" for key in sorted(trained))
    for plan in plans:
        settings = {} if plan.augment is None else plan.augment.wanted.model_dump(by_alias=True)
        options = () if plan.augment is None else plan.augment.wanted.options
        shown = {key: settings.get(key) for key in (*trained, *options)}
        if shown != trained and not (plan.variant.is_floor or plan.variant.substitute_for):
            difference = "without augmentation" if plan.augment is None else "with a different augmentation"
            mismatch = f"the model was trained on augmented examples but is asked {difference}"
            text = f"{mismatch}; give --augment {flag} as in training"
            tasks[plan.name].warnings.insert(0, text)


def helper_of(built_with: Iterable[str], line: Lineage, harness: Harness) -> str | None:
    """Return the first model in `built_with` that is this model or one of its ancestors, or None if there is none."""
    origins = [origin for origin in line.ancestors if not origin.about]
    names = list(built_with) if origins else []
    for name in names:
        if any(_has_name(origin, name) for origin in origins):
            return name
    return next((name for name in names if _has_weights(name, origins, harness)), None)


def _has_name(origin: Ancestor, name: str) -> bool:
    """Return whether this is the registered or hub model of that name; a local folder never is, as any name is free."""
    path = expand_user(origin.model)
    is_local = bool(origin.weights) or path.is_absolute() or path == origin.folder
    return not is_local and origin.model.rpartition("/")[2] == name


def _has_weights(name: str, origins: Iterable[Ancestor], harness: Harness) -> bool:
    """Return whether one of these models has the weights of the registered model of that name."""
    weighed = [origin for origin in origins if origin.folder is not None or origin.weights]
    if not weighed or name not in harness.backends.registry:
        return False
    try:
        with listening(Observer()):
            weights = line_of(open_model(harness.backends, name, {})).ancestors[0].identified().weights
    except FigevalError:  # the model is not installed
        return False
    return bool(weights) and any(origin.identified().weights == weights for origin in weighed)


# ---- seen examples ---------------------------------------------------------------------------------------------------


def roles_of(plan: Plan, lineage: Lineage) -> dict[str, Role]:
    """Return the role of each example of a task that the model has seen, by id.

    A probe removes something from an example, but its answer remains known. An example of a probe therefore counts as
    seen if the model has seen the original or the probed example.
    """
    roles: dict[str, Role] = {}
    for example in chain(plan.examples(), plan.originals()):
        role = strongest((lineage.role(example), roles.get(example.id)))
        if role is not None:
            roles[example.id] = role
    return roles


def with_role(row: PredictionRow, role: Role | None) -> PredictionRow:
    """Return a copy of the row whose `seen` is the role, or that has no `seen` if the role is None."""
    copy = row.copy()
    copy.pop("seen", None)
    if role is not None:
        copy["seen"] = role
    return copy


@dataclass(frozen=True, slots=True)
class UnseenExamples:
    """The examples of a task that the model has not seen.

    If the model has seen one member of a minimal pair, the other member counts as a single example.
    """

    seen: Collection[str]
    groups: Collection[str]

    def of(self, rows: Iterable[PredictionRow]) -> Iterator[PredictionRow]:
        for row in rows:
            if row["id"] not in self.seen:
                yield {**row, "group": None} if row["group"] in self.groups else row


def unseen_examples(rows: Iterable[PredictionRow]) -> UnseenExamples:
    """Return the unseen examples of a task, as marked in its rows."""
    seen = [(row["id"], row["group"]) for row in rows if row.get("seen")]
    return UnseenExamples(
        frozenset(name for name, _ in seen), frozenset(group for _, group in seen if group is not None)
    )


def overlap(
    task: TaskRecord, rows: Callable[[], Iterable[PredictionRow]], seen: Mapping[Role, int], scores: Scores
) -> OverlapRecord | None:
    """Return the record of a task's overlap with the examples that the model has seen.

    If it has seen none, return the record that the task already has, or None if that record counts seen examples.

    Args:
        task: record of the task; the baselines of its overlap are kept if the unseen examples are the same.
        rows: function that opens the rows of the task; they are read three times.
        seen: number of seen examples, by role.
        scores: function that computes the scores of rows.
    """
    before = task.overlap
    if not any(seen.values()):
        return before if before is None or not before.trained + before.chosen else None
    rest = unseen_examples(rows())
    ids = [row["id"] for row in rest.of(rows())]
    digest = hashlib.sha256(json.dumps(ids).encode()).hexdigest()
    return OverlapRecord(
        trained=seen.get("trained", 0),
        chosen=seen.get("chosen", 0),
        rest=len(ids),
        rest_sha256=digest,
        scores=scores(rest.of(rows())) if ids else [],
        baselines=before.baselines if before is not None and before.rest_sha256 == digest else [],
    )


def strongest(roles: Iterable[Role | None]) -> Role | None:
    """Return the most serious role: having been trained on an example outweighs having been chosen on it."""
    distinct_roles = set(roles)
    return next((role for role in ROLES if role in distinct_roles), None)


def withheld(score: ScoreRecord, seen: Mapping[Role, int], n: int | None = None) -> ScoreRecord:
    """Return the score without its interval if it includes seen examples.

    Args:
        score: computed score.
        seen: number of seen examples that it includes, by role.
        n: number of all examples that it includes, if `score.n` counts something else.
    """
    roles = [role for role in ROLES if seen.get(role)]
    if not roles:
        return score
    counts = " and ".join(f"{role} on {seen[role]}" for role in roles)
    reason = f"{counts} of {score.n if n is None else n} examples"
    return score.with_interval(Interval(reason=reason), seen=roles[0])


# ---- records ---------------------------------------------------------------------------------------------------------


def withhold_intervals(record: RunRecord, harness: Harness) -> None:
    """Add warnings about scores on examples that the model has seen to the record of a run.

    If only the name of the split on which the model was chosen is known, the intervals of the scores on that split are
    removed here. Idempotent.
    """
    line = record.model.lineage
    for ancestor in maxima(record):
        note(record.warnings, f"{ancestor.model} was {sentence(ancestor.about)}")
    if line is not None and line.unknown:
        models = " and ".join(line.unknown)
        note(
            record.warnings,
            f"the training examples of {models} are unknown, so these tasks may contain some of them; if an older "
            "figeval trained it, running its `figeval train` command again adds them to its folder",
        )
    for task in record.tasks:
        if not task.scores:
            continue
        for ancestor in maxima(record):
            if shares_test_data(task, str(ancestor.about.get("task")), harness):
                note(task.warnings, sentence(ancestor.about))
                if line is None or ancestor.model in line.unknown:
                    without_intervals(task)
        count(task, line)
    _withhold_from_contrasts(record)


def _withhold_from_contrasts(record: RunRecord) -> None:
    """Remove the intervals of contrasts whose tasks' own intervals were removed because the score is a maximum."""
    maxima_at = {
        (task.of or task.task, task.variant)
        for task in record.tasks
        if any(score.interval.reason == CHOSEN_ON_TEST for score in task.scores)
    }
    for contrast in record.contrasts:
        if maxima_at & {(name, contrast.variant) for name in contrast.tasks}:
            for score in contrast.scores:
                if score.value is not None:  # otherwise `interval` already gives another reason
                    _is_a_maximum(score)


def maxima(record: RunRecord) -> Iterator[AncestorRecord]:
    """Yield the models of the lineage that were chosen on test; records before 1.4 contain only the model itself."""
    line = record.model.lineage
    model_alone = [AncestorRecord(model=record.model.name, about=record.model.description.get("about") or {})]
    yield from (
        ancestor
        for ancestor in (model_alone if line is None else line.ancestors)
        if ancestor.about.get("selected_on") == TEST
    )


def sentence(about: dict[str, Any]) -> str:
    """Return `chosen on the test split of TASK: its score there is a maximum over 25 evaluations`."""
    evaluations = about.get("evaluations")
    maximum = f"a maximum over {evaluations} evaluations" if evaluations else "a maximum over evaluations"
    return f"chosen on the test split of {about.get('task')}: its score there is {maximum}"


def count(task: TaskRecord, line: LineageRecord | None) -> None:
    """Record how many examples of a task the model has seen, and add a warning."""
    if line is not None and not line.unknown and task.overlap is None:
        task.overlap = OverlapRecord(trained=0, chosen=0, rest=task.n)
    record = task.overlap
    if record is None:
        return
    least = "at least " if line is not None and line.unknown else ""
    share = f"{least}{record.trained + record.chosen} of {task.n} examples"
    if record.trained and record.chosen:
        note(task.warnings, f"{share} were seen: trained on {record.trained}, chosen on {record.chosen}")
    elif record.trained:
        note(task.warnings, f"the model was trained on {share}")
    elif record.chosen:
        note(task.warnings, f"the model was chosen on {share}")


def shares_test_data(task: TaskRecord, chosen_on: str, harness: Harness) -> bool:
    """Return whether a task has the examples that a model was chosen on: it is that task, or has the same test data."""
    name = task.of or task.task
    if name == chosen_on:
        return True
    tasks = harness.catalogue.tasks
    if name not in tasks or chosen_on not in tasks:
        return False
    task_spec, chosen_spec = tasks.get(name), tasks.get(chosen_on)
    return (
        task_spec.owner == chosen_spec.owner
        and task_spec.data.get(TEST) is not None
        and task_spec.data.get(TEST) == chosen_spec.data.get(TEST)
    )


def without_intervals(task: TaskRecord) -> None:
    """Remove the intervals of a task's scores, breakdowns, languages and option kinds; baselines keep theirs."""
    groups = (group.scores for breakdown in task.breakdowns for group in breakdown.groups)
    for score in chain(task.shown_scores(), chain.from_iterable(groups)):
        _is_a_maximum(score)


def _is_a_maximum(score: ScoreRecord) -> None:
    score.set_interval(Interval(reason=CHOSEN_ON_TEST))
    score.seen = "chosen"


def note(warnings: list[str], text: str) -> None:
    """Add a warning, once."""
    if text not in warnings:
        warnings.append(text)
