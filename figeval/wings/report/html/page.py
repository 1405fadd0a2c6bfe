"""The page of a report: one HTML file with its style, its script and its data, which loads nothing from elsewhere.

Texts of models and benchmarks are compressed JSON in base64, which cannot end a `<script>` element; the script inserts
them as text, never as HTML.
"""

from __future__ import annotations

import base64
import gzip
import json
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

from markupsafe import Markup

from figeval import JSON, Grid, RunRecord, TaskRecord, html_document
from figeval.io.text import clean, clean_json, one_line
from figeval.records import conditions
from figeval.records.provenance import installed_version, now, recorded_packages
from figeval.records.schema import BaselineRecord, ContrastRecord, ScoreRecord, baseline_scores
from figeval.reporting import table
from figeval.reporting.grid import EMPTY_CELL, format_interval, format_number
from figeval.reporting.training import dev_scores
from figeval.reporting.training import notes as training_notes
from figeval.wings.report.content import ReportContent
from figeval.wings.report.html import bar, charts, download, format_floors, format_limits, format_value, join_floors

MAX_GROUPS = 200  # lines of a breakdown
# A row of the score table with a state, or with a mean that has no interval.
NO_SCORE: JSON = {
    **dict.fromkeys(("part", "interval", "n", "clusters", "shared_floors", "floors", "remark"), ""),
    "value": EMPTY_CELL,
    **dict.fromkeys(("bar", "further", "number", "low", "sampled")),
    "first": True,
    "first_of_metric": True,
}
SECTIONS = {
    "scores": "Scores",
    "comparisons": "Comparisons",
    "samples": "Samples",
    "breakdowns": "Breakdowns",
    "calibration": "Calibration",
    "positions": "Positions",
    "answers": "Answers",
    "training": "Training",
    "runs": "Runs",
}
Pictures: TypeAlias = Mapping[str, Sequence[charts.Picture]]  # the charts of each section


def report_page(
    title: str, content: ReportContent, downloads: Mapping[str, str], pictures: Pictures, *, back: str = ""
) -> str:
    """Return the HTML page of a report.

    Args:
        title: heading.
        content: the records of the runs, in the order of all tables, and the other content.
        downloads: file name → content, of the score table in several formats.
        pictures: the charts (`report_pictures`), without which the numbers are shown as tables.
        back: address of the leaderboard that the page belongs to; empty if there is none.
    """
    runs = content.runs
    columns = Columns.of(runs, content.seeds)
    # The contrasts are in the table of scores.
    other_tables = {run: table.grids(runs[run].model_copy(update={"contrasts": []})) for run in columns.order}
    grids = [(run, grid) for run, tables in other_tables.items() for grid in [*tables][1:]]
    sampled = {task["task"] for task in content.samples}
    scores = list(_score_rows(runs, columns, sampled))
    first_rows = {row["task"]: row for row in reversed(scores)}
    panels: JSON = {
        "runs": [
            {**_facts(runs[run]), "place": run, "seeds": [(seed, _facts(runs[seed])) for seed in columns.seeds_of(run)]}
            for run in columns.whole_runs
        ],
        "scores": [{**row, "is_target": row is first_rows[row["task"]]} for row in scores],
        "tasks": list(dict.fromkeys(row["task"] for row in scores if row["value"] != EMPTY_CELL)),
        "grids": [columns.add_label(grid, run) for run, grid in grids if run not in columns.parents],
        "grids_of_seeds": [columns.add_label(grid, run) for run, grid in grids if run in columns.parents],
        "notes": list(_notes(runs, columns)),
        "comparisons": content.comparisons,
        "tests": content.tests,
        "breakdowns": list(_breakdowns(runs, columns.labels)),
        "calibration": _calibration(content.calibration, columns.labels),
        "positions": _positions(content.positions, columns.labels),
        "statuses": _statuses(runs, columns),
        "trainings": [
            {"grid": dev_scores(training).grid, "notes": list(training_notes(training))}
            for training in content.trainings
        ],
        "judged": {task["task"]: task["metric"] for task in content.samples},
        "samples": [{"task": task["task"], "n": len(task["ids"]), "packed": pack(task)} for task in content.samples],
        "downloads": [download(name, text) for name, text in downloads.items()],
        "charts": pictures,
    }
    present = {**panels, "answers": panels["statuses"].rows, "training": panels["trainings"]}
    frame: JSON = {
        "title": one_line(title),
        "labels": columns.labels,
        "colours": columns.colours,
        "columns_json": Markup(json.dumps(columns.json()).replace("<", "\\u003c")),
        "notices": list(dict.fromkeys(content.notices)),
        "sections": [(key, name) for key, name in SECTIONS.items() if present[key]],
        "back": back,
        "made": now(),
        "version": installed_version("figeval") or "unknown",
    }
    styles, scripts = ("page.css", "sorting.css", "report.css"), ("sorting.js", "report.js")
    return html_document(__package__, "page.html.jinja", {**panels, **frame}, styles=styles, script=scripts)


def pack(content: object) -> str:
    """Return a JSON value as base64 of gzip, which the page's script unpacks."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")


@dataclass(frozen=True, slots=True)
class Columns:
    """The runs of a page by their indices: their labels, and which are seeds of which, with the colour of their mean.

    Attributes:
        labels: label of each run; no two are equal.
        parents: index of a seed's run → index of the mean over the seeds.
    """

    labels: Sequence[str]
    parents: Mapping[int, int]

    @classmethod
    def of(cls, runs: Sequence[RunRecord], seeds: Mapping[int, Sequence[int]]) -> Columns:
        labels = [one_line(label) for label in conditions.labels(runs)]
        numbered = [f"{label} [{run + 1}]" if labels.count(label) > 1 else label for run, label in enumerate(labels)]
        return cls(numbered, {seed: parent for parent, members in seeds.items() for seed in members})

    @property
    def whole_runs(self) -> list[int]:
        """Indices of the runs, where several seeds are one."""
        return [run for run in range(len(self.labels)) if run not in self.parents]

    @property
    def order(self) -> list[int]:
        """All indices, those of seeds behind that of their mean."""
        return [column for run in self.whole_runs for column in (run, *self.seeds_of(run))]

    @property
    def colours(self) -> list[int]:
        """Number of the colour of each run; seeds have that of their mean."""
        return [self.parents.get(run, run) % len(charts.COLOURS) for run in range(len(self.labels))]

    def json(self) -> list[JSON]:
        """Return what the script needs to know of each run."""
        return [
            {
                "label": label,
                "colour": colour,
                "whole": self.parents.get(run, run),
                "mean": bool(self.seeds_of(run)),
            }
            for run, (label, colour) in enumerate(zip(self.labels, self.colours, strict=True))
        ]

    def seeds_of(self, run: int) -> list[int]:
        """Return the indices of the runs whose mean a run is."""
        return [seed for seed, parent in self.parents.items() if parent == run]

    def whole_label(self, run: int) -> str:
        """Return the label of a run, or that of the mean over seeds that it is a part of."""
        return self.labels[self.parents.get(run, run)]

    def add_label(self, grid: Grid, run: int) -> Grid:
        """Return a table of one run, with the run in its title if there are others."""
        title = f"{self.labels[run]}: {grid.title}" if len(self.labels) > 1 else grid.title
        return Grid(grid.head, grid.rows, title, grid.right)


# ---- runs and scores -------------------------------------------------------------------------------------------------


def _facts(run: RunRecord) -> JSON:
    """Return the head of a run: what it is, the command that repeats it, and its provenance."""
    model, origin = run.model, run.provenance
    git, packages = origin.get("git") or {}, recorded_packages(origin)
    commit = f"{git.get('commit', '')!s:.12}{' (changed)' if git.get('dirty') else ''}"
    cells = {
        "backend": model.backend,
        "started": run.started,
        "finished": run.finished or "–",
        "status": run.status,
        "run": run.identity,
        "weights": one_line(model.fingerprint, 24) or "–",
        "figeval": f"{packages.get('figeval', '')} {commit}",
    }
    details: dict[str, Any] = {"options": model.options, **model.description, **run.config}
    details |= {key: value for key, value in origin.items() if key != "git"}
    rows = [(str(key), _in_words(value)) for key, value in details.items() if value not in (None, "", [], {}, False)]
    command = shlex.join(["figeval", *map(clean, run.command)]) if run.command else "not recorded"
    return {"grid": Grid(tuple(cells), [tuple(cells.values())]), "command": command, "details": Grid(("", ""), rows)}


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_in_words(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_in_words, value))
    return str(value)


def _score_rows(runs: Sequence[RunRecord], columns: Columns, sampled: Collection[str]) -> Iterator[JSON]:
    """Yield the rows of the score table, sorted by task and metric, with the runs below each other.

    Contrasts come after the tasks, and means over suites at the end. `sampled` are the tasks with samples.
    """
    tasks_by_run = [{task.task: task for task in run.tasks_with_rows()} for run in runs]
    for name in dict.fromkeys(name for tasks in tasks_by_run for name in tasks):
        records = [(run, tasks_by_run[run][name]) for run in columns.order if name in tasks_by_run[run]]
        task = records[0][1]
        label = f"{name} (probe)" if task.kind == "probe" else name
        remark = "" if task.only_label is None else f"one label: {one_line(task.only_label, 40)}"
        head = {"task": name, "label": label, "remark": remark, "sampled": name in sampled}
        metrics = list(dict.fromkeys(score.metric for _, record in records for score in record.scores))
        yield from _task_rows(head, [row for metric in metrics for row in _metric_rows(metric, records)], columns)
        for run, record in records:
            if not record.scores:
                state = {"failed": "failed", "done": "no scores"}.get(record.status, "not yet")
                yield {**NO_SCORE, **head, "metric": state, "run": run, "seed": run in columns.parents}
    contrasts_by_run = [{contrast.name: contrast for contrast in run.contrasts} for run in runs]
    for name in dict.fromkeys(name for contrasts in contrasts_by_run for name in contrasts):
        contrasts = [(run, contrasts_by_run[run][name]) for run in columns.order if name in contrasts_by_run[run]]
        first = contrasts[0][1]
        remark = f"contrast: {one_line(first.label, 40)} against the rest"
        head = {"task": name, "label": name, "remark": remark, "sampled": False}
        metrics = list(dict.fromkeys(score.metric for _, contrast in contrasts for score in contrast.scores))
        yield from _task_rows(head, [row for metric in metrics for row in _contrast_rows(metric, contrasts)], columns)
    for run in columns.order:
        for macro in runs[run].macro:
            value = format_number(macro.value, ".3f") + table.MARKS[macro.seen]
            name = f"{macro.suite}: mean of {macro.tasks}"
            cells = {"task": name, "label": name, "metric": macro.metric, "value": value, "number": macro.value}
            yield {**NO_SCORE, **cells, "run": run, "seed": run in columns.parents}


def _task_rows(head: JSON, rows: Sequence[JSON], columns: Columns) -> Iterator[JSON]:
    """Yield the rows of a task with its name; baselines that all runs share by a metric are told from the others."""
    shared = {
        row["metric"]: [floor for floor in row["floors"] if all(floor in other["floors"] for other in same)]
        for row in rows
        for same in [[other for other in rows if other["metric"] == row["metric"]]]
    }
    for index, row in enumerate(rows):
        metric, is_first = row["metric"], index == 0 or rows[index - 1]["metric"] != row["metric"]
        floors = [floor for floor in row["floors"] if floor not in shared[metric]]
        flags = {"first": not index, "first_of_metric": is_first, "further": metric != rows[0]["metric"]}
        texts = {"shared_floors": join_floors(shared[metric]), "floors": join_floors(floors)}
        yield {**row, **head, **flags, **texts, "seed": row["run"] in columns.parents}


def _metric_rows(metric: str, records: Sequence[tuple[int, TaskRecord]]) -> Iterator[JSON]:
    """Yield the rows of one metric of one task: for each run its languages, the score, and that on unseen examples."""
    for run, task in records:
        names = {"": "mean" if task.languages else "", "remaining": "remaining examples"}
        for part, scores, baselines in task.parts():
            for score in scores:
                if score.metric == metric:
                    sd = "" if score.sd is None else f"sd {score.sd:.4f}"
                    label = ", ".join(filter(None, (names.get(part, part), sd)))
                    yield {"run": run, "part": label, **_cells(score, baselines)}


def _contrast_rows(metric: str, contrasts: Sequence[tuple[int, ContrastRecord]]) -> Iterator[JSON]:
    """Yield the rows of one metric of a contrast; `n` has its two kinds of examples."""
    for run, contrast in contrasts:
        for score in contrast.scores:
            if score.metric == metric:
                cells = _cells(score, contrast.baselines)
                clusters = f"{score.clusters} × {contrast.within}" if contrast.within else cells["clusters"]
                n = f"{contrast.positive} + {contrast.negative}"
                yield {"run": run, "part": "", **cells, "n": n, "clusters": clusters}


def _cells(score: ScoreRecord, baselines: Sequence[BaselineRecord]) -> JSON:
    """Return the cells of a score, and the numbers by which rows are sorted."""
    _, _, _, n, clusters, _ = table.cells(score, baselines)
    floors = [floor.value for floor in baseline_scores(baselines, score.metric).values()]
    return {
        "metric": score.metric,
        "value": format_value(score),
        "interval": format_limits(score),
        "number": score.value,
        "low": score.low,
        "n": n,
        "clusters": clusters,
        "floors": format_floors(baselines, score),
        "bar": bar(score, floors),
    }


def _notes(runs: Sequence[RunRecord], columns: Columns) -> Iterator[str]:
    """Yield notes, each once, with the runs that it belongs to if it does not belong to all."""
    runs_by_note: dict[str, list[int]] = {}
    for run in columns.order:
        for note in dict.fromkeys(table.notes(runs[run])):
            subjects = runs_by_note.setdefault(note, [])
            if columns.parents.get(run) not in subjects:  # what is said of the mean holds for its seeds
                subjects.append(run)
    for note, subjects in runs_by_note.items():
        names = ", ".join(columns.labels[run] for run in subjects)
        yield note if subjects == columns.whole_runs else f"{names}: {note}"


# ---- other tables ----------------------------------------------------------------------------------------------------


def _breakdowns(runs: Sequence[RunRecord], labels: Sequence[str]) -> Iterator[JSON]:
    """Yield the tables of each breakdown of each task, one per metric with all runs: `first`, and `further` ones."""
    breakdowns: dict[tuple[str, str], dict[str, dict[int, dict[str, ScoreRecord]]]] = {}
    for index, run in enumerate(runs):
        for task in run.tasks:
            for breakdown in task.breakdowns:
                by_metric = breakdowns.setdefault((task.task, breakdown.by), {})
                for group in breakdown.groups:
                    for score in group.scores:
                        by_metric.setdefault(score.metric, {}).setdefault(index, {})[group.value] = score
    for (name, by), by_metric in breakdowns.items():
        grids = [_breakdown(f"{name} by {by}: {metric}", by, scores, labels) for metric, scores in by_metric.items()]
        yield {"first": grids[0], "further": grids[1:]}


def _breakdown(
    title: str, by: str, scores_by_run: Mapping[int, Mapping[str, ScoreRecord]], labels: Sequence[str]
) -> Grid:
    """Return the table of one metric of a breakdown, with the scores of each run by the value of the column.

    Runs may have answered different numbers of examples, so each has its own `n`.
    """
    values = list(dict.fromkeys(value for scores in scores_by_run.values() for value in scores))
    rows = []
    for value in values[:MAX_GROUPS]:
        row = [one_line(value)]
        for scores in scores_by_run.values():
            score = scores.get(value)
            row += (EMPTY_CELL, "", "") if score is None else (format_value(score), format_limits(score), str(score.n))
        rows.append(tuple(row))
    columns = [column for run in scores_by_run for column in (labels[run], "95 % interval", "n")]
    limit = f"; the {MAX_GROUPS} most frequent of {len(values)}" if len(values) > MAX_GROUPS else ""
    return Grid((by, *columns), rows, f"{title}{limit}", columns)


def _calibration(entries: Sequence[JSON], labels: Sequence[str]) -> Grid | None:
    head = (
        *("task", "run", "answers", "accuracy", "ECE", "if calibrated", "Brier"),
        *("at 50 %", "at 80 %", "confidence from"),
    )
    rows = []
    for entry in entries:
        by_coverage = {round(share, 2): accuracy for share, accuracy in entry["selective"]}
        accuracy, ece, brier = (_with_limits(entry, name) for name in ("accuracy", "ece", "brier"))
        calibrated = f"{entry['calibrated_ece']:.3f} (to {entry['calibrated_ece_high']:.3f})"
        shares = (f"{by_coverage[share]:.3f}" for share in (0.5, 0.8))
        counts = (entry["task"], labels[entry["run"]], str(entry["n"]))
        rows.append((*counts, accuracy, ece, calibrated, brier, *shares, entry["origin"]))
    return Grid(head, rows, right=head[2:-1]) if rows else None


def _with_limits(entry: JSON, name: str) -> str:
    """Return e.g. `0.301 (0.25 to 0.36)`: a number with its 95 % interval, if there is one."""
    limits = entry[f"{name}_limits"]
    return f"{entry[name]:.3f}" + (f" ({format_interval(*limits)})" if limits else "")


def _positions(entries: Sequence[JSON], labels: Sequence[str]) -> Grid | None:
    head = ("task", "run", "position", "chosen", "right", "answers")
    rows = [
        (series["task"], labels[series["run"]], *(str(counts[key]) for key in ("position", "chosen", "right", "n")))
        for series in entries
        for counts in series["positions"]
    ]
    return Grid(head, rows, right=head[2:]) if rows else None


def _statuses(runs: Sequence[RunRecord], columns: Columns) -> Grid:
    """Return the number of answers by status, of ties and of truncated inputs."""
    lines = [
        (task, columns.labels[run])
        for run in columns.order
        if not columns.seeds_of(run)
        for task in runs[run].tasks_with_rows()
    ]
    names = list(dict.fromkeys(task.task for task, _ in lines))
    lines.sort(key=lambda line: names.index(line[0].task))
    kinds = list(dict.fromkeys(["ok", *(kind for task, _ in lines for kind, count in task.counts.items() if count)]))
    rows = [
        (task.task, label, str(task.n), *(str(task.counts.get(kind, 0)) for kind in kinds)) for task, label in lines
    ]
    head = ("task", "run", "examples", *(kind.replace("_", " ") for kind in kinds))
    return Grid(head, rows, right=head[2:])


def report_pictures(content: ReportContent) -> Pictures:
    """Return the charts of a report by section. They need the extra `analysis`."""
    columns = Columns.of(content.runs, content.seeds)
    colours = {columns.labels[run]: charts.COLOURS[columns.colours[run]] for run in columns.whole_runs}
    points = [point for run in columns.whole_runs for point in _points(content.runs[run], columns.labels[run])]
    scores = charts.scores(clean_json(points), colours)
    calibration, positions = (
        [
            {**series, "label": columns.whole_label(series["run"]), "single": columns.labels[series["run"]]}
            for series in entries
        ]
        for entries in (content.calibration, content.positions)
    )
    return {
        "scores": [scores] if scores is not None else [],
        "calibration": [
            picture for task, entries in _by_task(calibration) for picture in charts.calibration(task, entries, colours)
        ],
        "positions": [charts.positions(task, entries, colours) for task, entries in _by_task(positions)],
        "training": [picture for record in content.trainings if (picture := charts.learning(record)) is not None],
    }


def _points(run: RunRecord, label: str) -> Iterator[JSON]:
    """Yield the first metric of each task and contrast, if it is between 0 and 1, with the best baseline.

    Where one label is always right, the accuracy only says how often it is chosen. The contrast of the task is shown
    instead, if there is one.
    """
    contrasted = {name for contrast in run.contrasts for name in contrast.tasks}
    shown = [
        *(
            (task.task, task.scores, task.baselines)
            for task in run.tasks_with_rows()
            if task.kind != "probe" and (task.only_label is None or task.task not in contrasted)
        ),
        *((contrast.name, contrast.scores, contrast.baselines) for contrast in run.contrasts if not contrast.variant),
    ]
    for name, scores, baselines in shown:
        score = next((score for score in scores if score.value is not None and 0 <= score.value <= 1), None)
        if score is not None:
            trivial = baseline_scores(baselines, score.metric).values()
            floors = [floor.value for floor in trivial if floor.value is not None]
            labels = {"task": f"{name}: {score.metric}", "run": label, "floor": max(floors, default=None)}
            yield {**labels, "value": score.value, "low": score.low, "high": score.high}


def _by_task(entries: Sequence[JSON]) -> Iterator[tuple[str, list[JSON]]]:
    for task, members in groupby(entries, key=lambda entry: entry["task"]):
        yield task, list(members)
