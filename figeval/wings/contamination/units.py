"""The texts of a task as the measures of contamination see them: one unit for each cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from figeval import Example, Harness, TaskSpec
from figeval.spec.survey import Portion, survey


@dataclass(slots=True)
class TextUnit:
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
class TaskUnits:
    """A task with its units in the order of the file.

    Attributes:
        n: number of examples that are used.
        sha256: digest of all examples of the task, as in records of runs.
    """

    task: TaskSpec
    units: Sequence[TextUnit]
    n: int
    sha256: str

    @property
    def with_memorized_text(self) -> list[TextUnit]:
        """Units with a well-known text, the first one for each text."""
        units: dict[str, TextUnit] = {}
        for unit in self.units:
            if unit.memorized is not None:
                units.setdefault(unit.memorized.casefold(), unit)
        return list(units.values())


def read_units(task: TaskSpec, harness: Harness, limit: int | None = None) -> TaskUnits:
    """Return the units of a task, or of its first examples.

    Raises:
        FigevalError: the data are missing or broken, or the expression in `memorized` is.
    """
    overview = survey(task.name, lambda: harness.examples(task), Portion(limit=limit), task.annotations)
    ids = {example.id for example in overview.subset.of(harness.examples(task))}
    units: dict[tuple[bool, str], TextUnit] = {}
    previous: TextUnit | None = None
    for example, memorized in _with_memorized_texts(task, harness):
        if example.id not in ids:
            continue
        text = "\n".join(example.for_prompt().asked)
        name = example.id if example.cluster is None else example.cluster
        new_unit = TextUnit(name, example.for_prompt().subject, text, text, memorized)
        unit = units.setdefault((example.cluster is not None, name), new_unit)
        unit.last = text if unit is previous else unit.first
        unit.ids.append(example.id)
        previous = unit
    return TaskUnits(task, list(units.values()), len(ids), overview.sha256)


def _with_memorized_texts(task: TaskSpec, harness: Harness) -> Iterator[tuple[Example, str | None]]:
    if task.memorized is None:
        return zip(harness.examples(task), repeat(None))
    return zip(harness.examples(task), harness.memorized_texts(task), strict=True)
