"""Names of systems, tasks and metrics as an author prints them, for those under which figeval knows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from figeval import OptionError, RunRecord
from figeval.io.text import near
from figeval.records.schema import BaselineRecord
from figeval.wings.exporters.score_table import ScoreLine


@dataclass(frozen=True, slots=True)
class TableNames:
    """Labels that replace names in a table, e.g. TF-IDF for tfidf; a name without one stays."""

    labels: Mapping[str, str] = field(default_factory=dict)

    def rename(self, runs: Sequence[RunRecord]) -> list[RunRecord]:
        """Return the runs with labels in place of the names of models and trivial models.

        Raises:
            OptionError: a label belongs to no model, trivial model, task or metric of the runs.
        """
        options = dict.fromkeys(name for run in runs for name in _names(run))
        for name in self.labels:
            if not options:
                raise OptionError(f"names has {name!r:.80}, but there is no run whose names it could replace")
            if name not in options:
                raise OptionError(f"names has {name!r:.80}{near(name, options)}; the runs have {', '.join(options)}")
        return [self._rename(run) for run in runs] if self.labels else list(runs)

    def _rename(self, run: RunRecord) -> RunRecord:
        copy = run.model_copy(deep=True)
        copy.model.name = self._label(copy.model.name)
        for baseline in _baselines(copy):
            baseline.baseline = self._label(baseline.baseline)
        return copy

    def rename_lines(self, lines: Sequence[ScoreLine]) -> list[ScoreLine]:
        """Return the lines of a table with labels in place of the names of tasks and metrics."""
        return [replace(line, task=self._label(line.task), metric=self._label(line.metric)) for line in lines]

    def _label(self, name: str) -> str:
        return self.labels.get(name, name)

    def notes(self, lines: Sequence[ScoreLine]) -> Iterator[str]:
        """Yield which tasks stand behind labels, so that others can run them."""
        tasks = [
            f"{self.labels[name]} ({name})"
            for name in dict.fromkeys(line.task for line in lines)
            if name in self.labels
        ]
        if tasks:
            yield f"Tasks in figeval: {', '.join(tasks)}"


def _names(run: RunRecord) -> Iterator[str]:
    yield run.model.name
    yield from (baseline.baseline for baseline in _baselines(run))
    for task in run.tasks:
        yield from (task.task, *(score.metric for score in task.scores))
    for contrast in run.contrasts:
        yield from (contrast.name, *(score.metric for score in contrast.scores))


def _baselines(run: RunRecord) -> Iterator[BaselineRecord]:
    for task in run.tasks:
        for _, _, baselines in task.parts():
            yield from baselines
    yield from (baseline for contrast in run.contrasts for baseline in contrast.baselines)
