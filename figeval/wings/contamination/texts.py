"""The texts of a task as the measures of contamination see them: one unit for each cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from figeval.config import Size
from figeval.runs.harness import Harness
from figeval.spec import TaskSpec
from figeval.spec.examples import memorized_texts
from figeval.spec.subset import Portion
from figeval.spec.survey import survey
from figeval.types import Example


@dataclass(slots=True)
class Unit:
    """The examples of a cluster, or one example without a cluster.

    Attributes:
        name: the cluster, or the id of the example.
        ids: ids of the examples.
        subject: text that the first example asks about.
        first: the first example as it stands in a file.
        last: the last example; the first one if examples of other clusters stand between them.
        memorized: the well-known text behind the examples, or None.
    """

    name: str
    subject: str
    first: str
    last: str
    memorized: str | None = None
    ids: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TaskTexts:
    """A task with its units in the order of the file.

    Attributes:
        n: number of examples that are used.
        sha256: digest of all examples of the task, as in records of runs.
    """

    task: TaskSpec
    units: Sequence[Unit]
    n: int
    sha256: str

    @property
    def known(self) -> list[Unit]:
        """Units with a well-known text, the first one for each text."""
        found: dict[str, Unit] = {}
        for unit in self.units:
            if unit.memorized is not None:
                found.setdefault(unit.memorized.casefold(), unit)
        return list(found.values())


def read_texts(task: TaskSpec, harness: Harness, limit: Size | None = None) -> TaskTexts:
    """Return the texts of a task, or of its first examples.

    Raises:
        FigevalError: the data are missing or broken, or the expression in `memorized` is.
    """
    surveyed = survey(task.name, lambda: harness.examples(task), Portion(limit=limit), task.annotations)
    used = {example.id for example in surveyed.subset.of(harness.examples(task))}
    units: dict[tuple[bool, str], Unit] = {}
    previous: Unit | None = None
    for example, memorized in _paired(task, harness):
        if example.id not in used:
            continue
        clustered = example.cluster is not None
        text = "\n".join(example.for_prompt().asked)
        name = example.cluster if example.cluster is not None else example.id
        unit = units.setdefault((clustered, name), Unit(name, example.for_prompt().subject, text, text, memorized))
        unit.last = text if unit is previous else unit.first
        unit.ids.append(example.id)
        previous = unit
    return TaskTexts(task, list(units.values()), len(used), surveyed.sha256)


def _paired(task: TaskSpec, harness: Harness) -> Iterator[tuple[Example, str | None]]:
    """Yield the examples of a task with the well-known text behind each."""
    if task.memorized is None:
        return zip(harness.examples(task), repeat(None))
    return zip(harness.examples(task), memorized_texts(task, harness.rows(task, "test")), strict=True)
