"""BibTeX entries of figeval, and of the benchmarks and methods that a table uses.

`papers.yaml` has the publications, `methods.yaml` says on which of them a metric, an interval or a test rests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, field_validator

from figeval import Citation, Harness, OptionError, RecordError, Registry, RunRecord, StoredRun
from figeval.io.text import one_line
from figeval.io.yaml_files import read_yaml
from figeval.records.provenance import recorded_packages
from figeval.runs.stored import installed_task, sources_of
from figeval.wings.exporters.bibtex_entries import Entry, bibliography, citation_key
from figeval.wings.exporters.comparison_table import compare_lines, comparison_lines, task_name
from figeval.wings.exporters.layouts import COMPARISON, TableLayout
from figeval.wings.exporters.score_table import ScoreLine, score_lines

if TYPE_CHECKING:
    from figeval.wings.exporters.comparison_table import Compare

FIGEVAL = "the-figeval-developers-2026-figeval"


class Papers(BaseModel):
    """Content of `papers.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    papers: Mapping[str, Citation]

    @field_validator("papers")
    @classmethod
    def _keys_are_those_of_entries(cls, papers: Mapping[str, Citation]) -> Mapping[str, Citation]:
        if different := {key for key, paper in papers.items() if citation_key(paper) != key}:
            raise ValueError(f"the entry of {min(different)} has the key {citation_key(papers[min(different)])}")
        return papers


class Methods(BaseModel):
    """Content of `methods.yaml`: keys of papers by the names of metrics, and by words of intervals and tests."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    metrics: Mapping[str, tuple[str, ...]]
    intervals: Mapping[str, tuple[str, ...]]
    tests: Mapping[str, tuple[str, ...]]

    def keys(self, table: TableContent) -> Iterator[str]:
        """Yield the keys of the papers that a table rests on."""
        for pattern, keys in self.metrics.items():
            if any(fnmatchcase(metric.partition("=")[0], pattern) for metric in table.metrics):
                yield from keys
        for keys_by_words, names in ((self.intervals, table.intervals), (self.tests, table.tests)):
            for words, keys in keys_by_words.items():
                if any(re.search(rf"\b{re.escape(words)}\b", name) for name in names):
                    yield from keys


@dataclass(frozen=True, slots=True)
class TableContent:
    """Names of the tasks, metrics, methods of intervals, tests and corrections that a table uses."""

    tasks: tuple[str, ...]
    metrics: tuple[str, ...]
    intervals: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()


def export(  # noqa: PLR0913 - one argument per choice of the user
    runs: Sequence[RunRecord],
    *,
    stored: Sequence[StoredRun],
    layouts: Registry[TableLayout],
    compare: Compare,
    layout: str = "",
    tasks: Sequence[str] = (),
    metrics: Sequence[str] = (),
    against: int | None = None,
    intervals: bool = False,
) -> str:
    """Return the entries of what `--to latex` with the same choices prints: all scores, or a layout.

    Raises:
        OptionError: there is neither a run nor a layout, or the runs have no such task or metric.
        UnknownName: there is no such layout.
    """
    if layout == COMPARISON:
        tasks = [tasks] if isinstance(tasks, str) else tasks
        lines = comparison_lines(runs, tasks, [metrics] if isinstance(metrics, str) else metrics)
        table = _content(runs, lines, intervals=intervals, tests=_tests(lines, compare, against))
    elif tasks or metrics or against is not None:
        raise OptionError(f"tasks, metrics and against are for the layout {COMPARISON}; add --layout {COMPARISON}")
    elif layout:
        table = _layout_content(layouts.get(layout), runs, intervals=intervals)
    elif runs:
        table = _content(runs, score_lines(runs), intervals=True)
    else:
        raise OptionError("there is no run; name the folder of a run, or add --layout")
    harness = stored[0].harness if stored else Harness()
    papers = _papers()
    entries, gaps = [Entry.of(papers[FIGEVAL], note=_versions(runs))], []
    for task in table.tasks:
        publications = list(_publications(task, harness))
        entries += publications
        gaps += [] if publications else [task]
    entries += [Entry.of(papers[key]) for key in _methods().keys(table)]
    note = f"% No publication is known of {one_line(', '.join(gaps)).replace('@', ' ')}.\n\n" if gaps else ""
    return note + bibliography(entries)


# ---- what a table uses -----------------------------------------------------------------------------------------------


def _content(
    runs: Sequence[RunRecord], lines: Sequence[ScoreLine], *, intervals: bool, tests: Iterable[str] = ()
) -> TableContent:
    scores = [score for line in lines for score in (*line.scores.values(), *line.baselines.values())]
    methods = dict.fromkeys(score.interval.method for score in scores if score.low is not None)
    tasks = {task: None for line in lines for task in _tasks_of(task_name(line), runs)}
    metrics = dict.fromkeys(line.metric for line in lines)
    return TableContent(tuple(tasks), tuple(metrics), tuple(methods) if intervals else (), tuple(tests))


def _layout_content(layout: TableLayout, runs: Sequence[RunRecord], *, intervals: bool) -> TableContent:
    columns = {(group.about, measure.metric) for panel in layout.panels for group, measure in panel.columns}
    lines = [line for line in score_lines(runs) if (line.task, line.metric) in columns]
    metrics = dict.fromkeys(measure.metric for panel in layout.panels for _, measure in panel.columns)
    methods = _content(runs, lines, intervals=intervals).intervals
    return TableContent(tuple(layout.tasks), tuple(metrics), methods)


def _tasks_of(name: str, runs: Sequence[RunRecord]) -> Iterator[str]:
    """Yield the tasks behind a line: the task of a prompt or a probe, or those of a contrast."""
    for run in runs:
        yield from (task.of or task.task for task in run.tasks if task.task == name)
        for contrast in run.contrasts:
            if name.partition("@")[0] == contrast.name:
                yield from contrast.tasks


def _tests(lines: Sequence[ScoreLine], compare: Compare, against: int | None) -> Iterator[str]:
    """Yield the names of the tests on these lines, and that of the correction of their p-values."""
    comparisons, _ = compare_lines(lines, compare, against)
    for comparison in comparisons.values():
        yield comparison.correction
        for pair in comparison.pairs.values():
            yield from (task.comparison.test for task in pair.tasks)


# ---- publications ----------------------------------------------------------------------------------------------------


def _publications(name: str, harness: Harness) -> Iterator[Entry]:
    """Yield the entries of a task and its benchmark; a text only if no publication is described by its facts."""
    task = installed_task(name, harness)
    if task is None:
        return
    sources = sources_of(task, harness)
    listed = [*([] if sources is None else [sources.citation]), task.citation]
    facts = [citation for citation in listed if isinstance(citation, Citation)]
    yield from map(Entry.of, facts)
    if not facts:
        texts = [text for text in map(str, listed) if text]  # the first one, in `sources.yaml`, is the longer one
        yield from map(Entry.of_text, texts[:1])


def _versions(runs: Sequence[RunRecord]) -> str:
    versions = {recorded_packages(run.provenance).get("figeval") for run in runs} - {None}
    return f"Version {', '.join(sorted(map(str, versions)))}" if versions else ""


def _papers() -> Mapping[str, Citation]:
    return read_yaml(files(__package__) / "papers.yaml", Papers, RecordError).papers


def _methods() -> Methods:
    return read_yaml(files(__package__) / "methods.yaml", Methods, RecordError)
