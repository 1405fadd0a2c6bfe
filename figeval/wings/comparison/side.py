"""A run of a comparison, with the values that it stored for each example."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from figeval import RunRecord, TaskRecord
from figeval.records.run_folder import RunFolder
from figeval.records.sweep import run_or_seeds
from figeval.runs.stored import Features, Values, seen_ids, stored_features, stored_values

Value = TypeVar("Value")
GIVEN = "predictions"  # backend of a run that was made from the predictions of another system
DEFAULT = "default"  # a task's own prompt


@dataclass(frozen=True)
class RunSide:
    """A run with its predictions, or the runs of several seeds and a record of their means.

    Everything is read once, since a run may be in many comparisons. `subsets` limits tasks to some of their examples.
    """

    record: RunRecord
    runs: list[tuple[RunRecord, RunFolder]]
    subsets: Mapping[str, Collection[str]] = field(default_factory=dict)
    _values: dict[tuple[str, str], list[Values]] = field(default_factory=dict)
    _features: dict[tuple[str, str], Mapping[str, tuple[Features, str | None]]] = field(default_factory=dict)
    _seen: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def at(cls, path: Path) -> RunSide:
        """Read a run folder, or that of several seeds. Raises `RecordError` if there is no run."""
        return cls(*run_or_seeds(path))

    @property
    def folder(self) -> RunFolder:
        """Folder of the run, or of that of the first seed."""
        return self.runs[0][1]

    def has_predictions(self, task: TaskRecord) -> bool:
        """Return whether the predictions of a task are there, of every seed."""
        return all(folder.has_predictions(task.task) for _, folder in self.runs)

    @property
    def varies(self) -> bool:
        """True if another training could give other answers: the model was trained with a seed, or came as predictions.

        A model that figeval did not train, such as TF-IDF or a published checkpoint, is what it is. Nothing is known
        about the origin of predictions that were imported.
        """
        return self.runs[0][0].model.backend == GIVEN or self.is_trained

    @property
    def is_trained(self) -> bool:
        """True if figeval trained the model, or what it was trained from, with a random seed."""
        lineage = self.runs[0][0].model.lineage
        return lineage is not None and any("seed" in ancestor.about for ancestor in lineage.ancestors)

    def values(self, task: str, metric: str) -> list[Values]:
        """Return the values of a mean for every run, each empty if the metric is no mean."""
        if (task, metric) not in self._values:
            self._values[task, metric] = [stored_values(folder, task, metric) for _, folder in self.runs]
        return [self._in_subset(values, task) for values in self._values[task, metric]]

    def features(self, task: str, metric: str) -> Mapping[str, tuple[Features, str | None]]:
        """Return the numbers of a score that is no mean, for the (first) run; empty if the metric is a mean."""
        if (task, metric) not in self._features:
            self._features[task, metric] = stored_features(self.folder, task, metric)
        return self._in_subset(self._features[task, metric], task)

    def _in_subset(self, values: Mapping[str, Value], task: str) -> Mapping[str, Value]:
        return keep_ids(values, self.subsets[task]) if task in self.subsets else values

    def answered_ids(self, task: str, metric: str) -> set[str]:
        """Return the ids of the examples to which all runs gave a valid answer that the metric applies to."""
        runs: list[Mapping[str, tuple[object, str | None]]] = [*self.values(task, metric)]
        if not all(runs):
            runs = [self.features(task, metric)]
        return set.intersection(*({name for name, (value, _) in run.items() if value is not None} for run in runs))

    def seen_ids(self, task: str) -> set[str]:
        """Return the ids of the examples that a training was trained or chosen on."""
        if task not in self._seen:
            self._seen[task] = set[str]().union(*(seen_ids(folder, task) for _, folder in self.runs))
        return self._seen[task]


def keep_ids(values: Mapping[str, Value], ids: Collection[str]) -> dict[str, Value]:
    return {name: value for name, value in values.items() if name in ids}


def drop_ids(values: Mapping[str, Value], ids: Collection[str]) -> dict[str, Value]:
    return {name: value for name, value in values.items() if name not in ids}
