"""Names of systems, tasks and metrics as an author prints them, for those under which figeval knows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from figeval import OptionError, RunRecord
from figeval.io.text import near
from figeval.records.reference import MeasuredNumbers
from figeval.records.schema import BaselineRecord
from figeval.wings.exporters.layouts import Panel, TableLayout
from figeval.wings.exporters.score_table import ScoreLine


@dataclass(frozen=True, slots=True)
class TableNames:
    """Labels that replace names in a table, e.g. TF-IDF for tfidf; a name without one stays."""

    labels: Mapping[str, str] = field(default_factory=dict)

    def rename(self, runs: Sequence[RunRecord], further_models: Iterable[str] = ()) -> list[RunRecord]:
        """Return the runs with labels in place of the names of models and trivial models.

        Args:
            runs: the runs of the table.
            further_models: names of models in the table that no run has.

        Raises:
            OptionError: a label belongs to no model, trivial model, task or metric of the table.
        """
        options = dict.fromkeys([*(name for run in runs for name in _names(run)), *further_models])
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

    def rename_layout(self, layout: TableLayout) -> TableLayout:
        """Return a layout with labels of tasks and metrics in place of its own headings, and a note on them."""
        notes = (*layout.notes, *(f"{note}." for note in self.notes(layout.tasks)))
        return layout.model_copy(update={"panels": tuple(map(self._rename_panel, layout.panels)), "notes": notes})

    def _rename_panel(self, panel: Panel) -> Panel:
        groups = []
        for group in panel.groups:
            measures = [
                measure.model_copy(update={"head": self.labels.get(measure.metric, measure.head)})
                for measure in group.measures
            ]
            head = self.labels.get(group.task, group.head)
            groups.append(group.model_copy(update={"head": head, "measures": tuple(measures)}))
        return panel.model_copy(update={"groups": tuple(groups)})

    def rename_numbers(self, file: MeasuredNumbers) -> MeasuredNumbers:
        """Return numbers that no run holds with labels in place of the names of their models."""
        numbers = [number.model_copy(update={"model": self._label(number.model)}) for number in file.numbers]
        return file.model_copy(update={"numbers": tuple(numbers)})

    def _label(self, name: str) -> str:
        return self.labels.get(name, name)

    def notes(self, names: Iterable[str]) -> Iterator[str]:
        """Yield which of the tasks of a table stand behind labels, so that others can run them."""
        tasks = [f"{self.labels[name]} ({name})" for name in dict.fromkeys(names) if name in self.labels]
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
