"""The page of a report: one HTML file with its style, its script and its data, which loads nothing from elsewhere.

Texts of models and benchmarks are compressed JSON in base64, which cannot end a `<script>` element; the script inserts
them as text, never as HTML.
"""

from __future__ import annotations

import gzip
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from figeval.io.text import clean, cleaned, one_line
from figeval.records.provenance import installed, now
from figeval.records.schema import RunRecord, ScoreRecord, TaskRecord
from figeval.records.training import TrainingRecord
from figeval.reporting import table
from figeval.reporting.grid import Grid
from figeval.reporting.html import html_document, in_base64, markup
from figeval.reporting.training import dev_scores
from figeval.reporting.training import notes as training_notes
from figeval.types import JSON
from figeval.wings.report.html import bar, charts, download
from figeval.wings.report.html.columns import Columns

MOST_GROUPS = 200  # lines of a breakdown
# A row of the score table with a state, or with a mean that has no interval.
NO_SCORE: JSON = {
    **dict.fromkeys(("part", "interval", "n", "clusters", "baselines"), ""),
    "value": table.NOTHING,
    **dict.fromkeys(("bar", "further")),
    "first": True,
}
SECTIONS = {
    "runs": "Runs",
    "scores": "Scores",
    "comparisons": "Comparisons",
    "breakdowns": "Breakdowns",
    "calibration": "Calibration",
    "positions": "Positions",
    "answers": "Answers",
    "training": "Training",
    "samples": "Samples",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panels:
    """Content of a page besides the records of the runs; `evaluation/report_content.py` describes the JSON.

    Attributes:
        seeds: for a run that is the mean of several seeds, the places of their runs, which follow all others.
        comparisons: for each pair of runs its places `a` and `b`, the table, the notes, and the examples that differ.
        tests: sentences that explain the tests of the comparisons.
        downloads: file name → content, of the score table in several formats.
        notices: sentences at the top of the page.
    """

    seeds: Mapping[int, Sequence[int]] = field(default_factory=dict)
    comparisons: Sequence[JSON] = ()
    tests: Sequence[str] = ()
    calibration: Sequence[JSON] = ()
    positions: Sequence[JSON] = ()
    samples: Sequence[JSON] = ()
    trainings: Sequence[TrainingRecord] = ()
    downloads: Mapping[str, str]
    notices: Sequence[str] = ()


def page(title: str, runs: Sequence[RunRecord], panels: Panels, *, draw: bool = True, back: str = "") -> str:
    """Return the HTML page of a report.

    Args:
        title: heading.
        runs: records of the runs, in the order of all tables.
        panels: the other content.
        draw: whether to draw charts; they need the extra `analysis`, without which the numbers are shown as tables.
        back: address of the leaderboard that the page belongs to; empty if there is none.
    """
    columns = Columns.of(runs, panels.seeds)
    notices = list(panels.notices)
    if draw and not charts.available():
        notices.append(
            "Charts are left out, because altair and vl-convert are missing: pip install 'figeval[analysis]'."
        )
    single = frozenset(columns.parents)
    grids = [(place, grid) for place in columns.order for grid in [*table.grids(runs[place])][1:]]
    found: JSON = {
        "runs": [
            {
                **_about(runs[place]),
                "place": place,
                "seeds": [(one, _about(runs[one])) for one in columns.seeds_of(place)],
            }
            for place in columns.whole
        ],
        "scores": list(_score_rows(runs, columns)),
        "grids": [columns.named(grid, place) for place, grid in grids if place not in single],
        "grids_of_seeds": [columns.named(grid, place) for place, grid in grids if place in single],
        "notes": list(_notes(runs, columns)),
        "comparisons": panels.comparisons,
        "tests": panels.tests,
        "breakdowns": list(_breakdowns(runs, columns.labels)),
        "calibration": _calibration(panels.calibration, columns.labels),
        "positions": _positions(panels.positions, columns.labels),
        "statuses": _statuses(runs, columns),
        "trainings": [{"grid": dev_scores(one), "notes": list(training_notes(one))} for one in panels.trainings],
        "judged": {one["task"]: one["metric"] for one in panels.samples},
        "samples": [{"task": one["task"], "n": len(one["ids"]), "packed": packed(one)} for one in panels.samples],
        "downloads": [download(name, text) for name, text in panels.downloads.items()],
        "charts": _charts(runs, panels, columns) if draw and charts.available() else {},
    }
    present = {**found, "answers": found["statuses"].rows, "training": found["trainings"]}
    about: JSON = {
        "title": one_line(title),
        "labels": columns.labels,
        "colours": columns.colours,
        "columns_json": markup(json.dumps(columns.json()).replace("<", "\\u003c")),
        "notices": list(dict.fromkeys(notices)),
        "sections": [(key, name) for key, name in SECTIONS.items() if present[key]],
        "back": back,
        "made": now(),
        "version": installed("figeval") or "unknown",
    }
    styles = ("page.css", "report.css")
    return html_document(__package__, "page.html.jinja", {**found, **about}, styles=styles, script="report.js")


def packed(content: object) -> str:
    """Return a JSON value as base64 of gzip, which the page's script unpacks."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return in_base64(gzip.compress(text.encode(), mtime=0))


# ---- runs and scores -------------------------------------------------------------------------------------------------


def _about(run: RunRecord) -> JSON:
    """Return the head of a run: what it is, the command that repeats it, and its provenance."""
    model, origin = run.model, run.provenance
    git, packages = (one if isinstance(one := origin.get(key), Mapping) else {} for key in ("git", "packages"))
    commit = f"{git.get('commit', '')!s:.12}{' (changed)' if git.get('dirty') else ''}"
    head = ("backend", "started", "finished", "status", "run", "weights", "figeval")
    figeval = f"{packages.get('figeval', '')} {commit}"
    cells = (
        model.backend,
        run.started,
        run.finished or "–",
        run.status,
        run.identity,
        one_line(model.fingerprint, 24) or "–",
        figeval,
    )
    facts: dict[str, Any] = {"options": model.options, **model.description, **run.config}
    facts |= {key: value for key, value in origin.items() if key != "git"}
    rows = [(str(key), _told(value)) for key, value in facts.items() if value not in (None, "", [], {}, False)]
    command = shlex.join(["figeval", *map(clean, run.command)]) if run.command else "not recorded"
    return {"grid": Grid(head, [cells]), "command": command, "details": Grid(("", ""), rows)}


def _told(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_told(one)}" for key, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_told, value))
    return str(value)


def _score_rows(runs: Sequence[RunRecord], columns: Columns) -> Iterator[JSON]:
    """Yield the rows of the score table, sorted by task and metric, with the runs below each other."""
    tasks = list(dict.fromkeys(task.task for run in runs for task in run.tasks_with_rows()))
    own = [{task.task: task for task in run.tasks_with_rows()} for run in runs]
    for name in tasks:
        found = [(place, own[place][name]) for place in columns.order if name in own[place]]
        metrics = list(dict.fromkeys(score.metric for _, task in found for score in task.scores))
        shown = f"{name} (probe)" if found[0][1].kind == "probe" else name
        rows = [row for metric in metrics for row in _metric_rows(metric, found)]
        for place, row in enumerate(rows):
            is_new = place == 0 or rows[place - 1]["metric"] != row["metric"]
            heads = {"task": "" if place else shown, "metric": row["metric"] if is_new else ""}
            more = {"first": not place, "further": row["metric"] != metrics[0]}
            yield {**row, **heads, **more, "seed": row["run"] in columns.parents}
        for place, task in found:
            if not task.scores:
                state = "failed" if task.status == "failed" else "no scores" if task.status == "done" else "not yet"
                yield {**NO_SCORE, "task": shown, "metric": state, "run": place, "seed": place in columns.parents}
    for place in columns.order:
        for macro in runs[place].macro:
            value = table.number(macro.value) + table.MARKS[macro.seen]
            about = {"task": f"{macro.suite}: mean of {macro.tasks}", "metric": macro.metric, "value": value}
            yield {**NO_SCORE, **about, "run": place, "seed": place in columns.parents}


def _metric_rows(metric: str, found: Sequence[tuple[int, TaskRecord]]) -> Iterator[JSON]:
    """Yield the rows of one metric of one task: for each run its languages, the score, and that on unseen examples."""
    for place, task in found:
        parts = [(one.language, one.scores, one.baselines) for one in task.languages]
        parts.append(("mean" if task.languages else "", task.scores, task.baselines))
        if task.overlap is not None:
            parts.append(("remaining examples", task.overlap.scores, task.overlap.baselines))
        for part, scores, baselines in parts:
            for score in scores:
                if score.metric == metric:
                    _, value, interval, n, clusters, trivial = table.cells(score, baselines)
                    floors = [one.value for each in baselines for one in each.scores if one.metric == metric]
                    cells = {"value": value, "interval": interval, "n": n, "clusters": clusters, "baselines": trivial}
                    sd = "" if score.sd is None else f"sd {score.sd:.4f}"
                    part_of = ", ".join(filter(None, (part, sd)))
                    yield {"metric": metric, "run": place, "part": part_of, **cells, "bar": bar(score, floors)}


def _notes(runs: Sequence[RunRecord], columns: Columns) -> Iterator[str]:
    """Yield notes, each once, with the runs that it belongs to if it does not belong to all."""
    told: dict[str, list[int]] = {}
    for place in columns.order:
        for note in dict.fromkeys(table.notes(runs[place])):
            places = told.setdefault(note, [])
            if columns.parents.get(place) not in places:  # what is said of the mean holds for its seeds
                places.append(place)
    for note, places in told.items():
        names = ", ".join(columns.labels[place] for place in places)
        yield note if places == columns.whole else f"{names}: {note}"


# ---- other tables ----------------------------------------------------------------------------------------------------


def _breakdowns(runs: Sequence[RunRecord], labels: Sequence[str]) -> Iterator[JSON]:
    """Yield the tables of each breakdown of each task, one per metric with all runs: `first`, and `further` ones."""
    found: dict[tuple[str, str], dict[str, dict[int, dict[str, ScoreRecord]]]] = {}
    for place, run in enumerate(runs):
        for task in run.tasks:
            for breakdown in task.breakdowns:
                by_metric = found.setdefault((task.task, breakdown.by), {})
                for group in breakdown.groups:
                    for score in group.scores:
                        by_metric.setdefault(score.metric, {}).setdefault(place, {})[group.value] = score
    for (name, by), by_metric in found.items():
        grids = [_breakdown(f"{name} by {by}: {metric}", by, own, labels) for metric, own in by_metric.items()]
        yield {"first": grids[0], "further": grids[1:]}


def _breakdown(title: str, by: str, own: Mapping[int, Mapping[str, ScoreRecord]], labels: Sequence[str]) -> Grid:
    """Return the table of one metric of a breakdown; `own` has the scores of each run by the value of the column.

    Runs may have answered different numbers of examples, so each has its own `n`.
    """
    values = list(dict.fromkeys(value for scores in own.values() for value in scores))
    rows = []
    for value in values[:MOST_GROUPS]:
        scores = [scores.get(value) for scores in own.values()]
        cells = [
            (table.NOTHING, "", "") if score is None else (table.marked(score), table.interval(score), str(score.n))
            for score in scores
        ]
        rows.append((one_line(value), *(cell for of_run in cells for cell in of_run)))
    columns = [column for run in own for column in (labels[run], "95 % interval", "n")]
    more = f"; the {MOST_GROUPS} most frequent of {len(values)}" if len(values) > MOST_GROUPS else ""
    return Grid((by, *columns), rows, f"{title}{more}", columns)


def _calibration(entries: Sequence[JSON], labels: Sequence[str]) -> Grid | None:
    head = (
        "task",
        "run",
        "n",
        "accuracy",
        "ECE",
        "if calibrated",
        "Brier",
        "accuracy at 50 %",
        "at 80 %",
        "confidence from",
    )
    rows = []
    for one in entries:
        at = {round(share, 2): accuracy for share, accuracy in one["selective"]}
        first = (one["task"], labels[one["run"]], str(one["n"]), f"{one['accuracy']:.3f}", f"{one['ece']:.3f}")
        calibrated = f"{one['calibrated_ece']:.3f} (to {one['calibrated_ece_high']:.3f})"
        last = (f"{value:.3f}" for value in (one["brier"], at[0.5], at[0.8]))
        rows.append((*first, calibrated, *last, one["origin"]))
    return Grid(head, rows, right=head[2:-1]) if rows else None


def _positions(entries: Sequence[JSON], labels: Sequence[str]) -> Grid | None:
    head = ("task", "run", "position", "chosen", "right", "answers")
    rows = [
        (
            one["task"],
            labels[one["run"]],
            str(each["position"]),
            str(each["chosen"]),
            str(each["right"]),
            str(each["n"]),
        )
        for one in entries
        for each in one["positions"]
    ]
    return Grid(head, rows, right=head[2:]) if rows else None


def _statuses(runs: Sequence[RunRecord], columns: Columns) -> Grid:
    """Return the number of answers by status, of ties and of truncated inputs."""
    lines = [
        (task, columns.labels[place])
        for place in columns.order
        if not columns.seeds_of(place)
        for task in runs[place].tasks_with_rows()
    ]
    names = list(dict.fromkeys(task.task for task, _ in lines))
    lines.sort(key=lambda line: names.index(line[0].task))
    kinds = list(dict.fromkeys(["ok", *(kind for task, _ in lines for kind, count in task.counts.items() if count)]))
    rows = [
        (task.task, label, str(task.n), *(str(task.counts.get(kind, 0)) for kind in kinds)) for task, label in lines
    ]
    head = ("task", "run", "examples", *(kind.replace("_", " ") for kind in kinds))
    return Grid(head, rows, right=head[2:])


def _charts(runs: Sequence[RunRecord], panels: Panels, columns: Columns) -> JSON:
    """Return the charts by section."""
    colours = {columns.labels[place]: charts.COLOURS[columns.colours[place]] for place in columns.whole}
    drawn = charts.scores(
        cleaned([one for place in columns.whole for one in _points(runs[place], columns.labels[place])]), colours
    )
    calibration, positions = (
        [{**one, "label": columns.whole_label(one["run"]), "single": columns.labels[one["run"]]} for one in entries]
        for entries in (panels.calibration, panels.positions)
    )
    return {
        "scores": [drawn] if drawn is not None else [],
        "calibration": [one for task, own in _by_task(calibration) for one in charts.calibration(task, own, colours)],
        "positions": [charts.positions(task, own, colours) for task, own in _by_task(positions)],
        "training": [one for record in panels.trainings if (one := charts.learning(record)) is not None],
    }


def _points(run: RunRecord, label: str) -> Iterator[JSON]:
    """Yield the first metric of each task, if it is between 0 and 1, with the best baseline."""
    for task in run.tasks_with_rows():
        score = next((one for one in task.scores if one.value is not None and 0 <= one.value <= 1), None)
        if score is not None and task.kind != "probe":
            floors = [
                one.value
                for each in task.baselines
                for one in each.scores
                if one.metric == score.metric and one.value is not None
            ]
            about = {"task": f"{task.task}: {score.metric}", "run": label, "floor": max(floors, default=None)}
            yield {**about, "value": score.value, "low": score.low, "high": score.high}


def _by_task(entries: Sequence[JSON]) -> Iterator[tuple[str, list[JSON]]]:
    for task, own in groupby(entries, key=lambda one: one["task"]):
        yield task, list(own)
