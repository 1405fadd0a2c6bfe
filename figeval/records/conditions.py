"""What a run changed about how its tasks are asked, as tables, comparisons and exports say it.

Two runs of one model may differ in nothing else: in what was retrieved and added to the input, in the solved examples
before a question, in the system message, in the orders of the options, in calibration. Further prompts and probes are
tasks of their own, with names of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from figeval.records.schema import RunRecord, TaskRecord
from figeval.text import one_line


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that was changed.

    Attributes:
        label: a word or two behind the name of a model, such as `concepts`.
        detail: what tells it from another one with this label, such as `k=3, minilm`.
        note: the whole of it, for the lines under a table.
    """

    label: str
    detail: str
    note: str


def conditions(task: TaskRecord) -> list[Condition]:
    """Return what was changed about a task; empty where it was asked as it is."""
    settings = task.settings
    found = []
    if added := settings.get("augment"):
        found.append(_augmented(added))
    if k := settings.get("num_fewshot"):
        found.append(_shots(k, settings.get("fewshot_sampler"), settings.get("shots")))
    if system := settings.get("system_instruction"):
        said = one_line(system, 60)
        found.append(Condition("system message", said, f"asked with the system message {said!r}"))
    if orders := settings.get("orders"):
        orders = one_line(orders)
        found.append(Condition("orders", orders, f"asked with the options in several orders ({orders})"))
    if texts := settings.get("calibration"):
        free = ", ".join(repr(one_line(text, 20)) for text in texts)
        found.append(Condition("calibrated", free, f"calibrated with content-free inputs ({free})"))
    return found


def described(task: TaskRecord) -> str:
    """Return all that was changed about a task, in one line; empty where it was asked as it is."""
    return "; ".join(one.note for one in conditions(task))


def _augmented(settings: dict[str, Any]) -> Condition:
    add, split, retriever = (one_line(settings.get(key, "")) for key in ("add", "from", "retriever"))
    k = settings.get("k", 1)
    detail = f"k={k}, {retriever}" if split in {"", "train"} else f"k={k} from {split}, {retriever}"
    whose = "training" if split in {"", "train"} else split
    one = k == 1
    nearest = f"the nearest {whose} example" if one else f"the {k} nearest {whose} examples"
    what = {"neighbours": nearest, "outline": f"outline{'s' * (not one)} of {nearest}"}.get(add, f"{add} of {nearest}")
    return Condition(add, detail, f"augmented: {what} ({retriever})")


def _shots(k: int, nearest: dict[str, Any] | None, shots: str | None) -> Condition:
    if nearest:
        retriever = one_line(nearest.get("retriever", ""))
        which, detail = f"nearest to the question ({retriever})", retriever
    else:
        which, detail = "in one order for all questions" if shots == "shared" else "drawn for each question", "random"
    label, examples = f"{k}-shot", "training example" if k == 1 else "training examples"
    return Condition(f"{label} nearest" if nearest else label, shots or detail, f"{label}: {examples} {which}")


def notes(run: RunRecord) -> Iterator[str]:
    """Yield a line for each condition of a run, with the names of the tasks where it is not that of all."""
    tasks = [task for task in run.tasks if task.kind == "task"]
    found: dict[str, list[str]] = {}
    for task in tasks:
        for condition in conditions(task):
            found.setdefault(condition.note, []).append(task.task)
    for note, names in found.items():
        yield note if len(names) == len(tasks) else f"{note} ({', '.join(names)})"


def labels(runs: Sequence[RunRecord]) -> list[str]:
    """Return the name of each run's model, with the conditions that not all of the runs share: `minilm + concepts`.

    Runs that would have the same label get the details, too. They still have the same one where they differ in
    something else.
    """
    found = [dict.fromkeys(one for task in run.tasks for one in conditions(task)) for run in runs]
    own = [[one for one in mine if not all(one in other for other in found)] for mine in found]
    plain = [" + ".join((run.model.name, *(one.label for one in mine))) for run, mine in zip(runs, own, strict=True)]
    times = Counter(plain)
    return [
        label if times[label] == 1 else " + ".join((run.model.name, *(f"{one.label} ({one.detail})" for one in mine)))
        for label, run, mine in zip(plain, runs, own, strict=True)
    ]
