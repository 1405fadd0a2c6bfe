"""The page of a report: one HTML file with its style, its script and its data, which loads nothing from elsewhere.

Texts of models and benchmarks are compressed JSON in base64, which cannot end a `<script>` element; the script inserts
them as text, never as HTML.
"""

from __future__ import annotations

import gzip
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from figeval.errors import RecordError
from figeval.records import conditions
from figeval.records.provenance import installed, now
from figeval.records.schema import RunRecord, ScoreRecord, TaskRecord
from figeval.reporting import table
from figeval.reporting.grid import Grid
from figeval.reporting.html import charts
from figeval.reporting.html.document import bar, document, download, in_base64, markup
from figeval.reporting.training import dev_scores, scored_steps
from figeval.reporting.training import notes as training_notes
from figeval.text import clean, cleaned, one_line
from figeval.types import JSON

MOST_GROUPS = 200  # lines of a breakdown
# A row of the score table with a state, or with a mean that has no interval.
NO_SCORE: JSON = {
    **dict.fromkeys(("part", "interval", "n", "clusters", "baselines"), ""),
    "value": table.NOTHING,
    **dict.fromkeys(("bar", "inner", "further")),
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
        comparisons: for each pair of runs its places `a` and `b`, the table, the notes, and the examples that differ.
        tests: sentences that explain the tests of the comparisons.
        downloads: file name → content, of the score table in several formats.
        notices: sentences at the top of the page.
    """

    comparisons: Sequence[JSON] = ()
    tests: Sequence[str] = ()
    calibration: Sequence[JSON] = ()
    positions: Sequence[JSON] = ()
    samples: Sequence[JSON] = ()
    trainings: Sequence[JSON] = ()
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
    labels = [one_line(label) for label in _distinct(conditions.labels(runs))]
    notices = list(panels.notices)
    if draw and not charts.available():
        notices.append(
            "Charts are left out, because altair and vl-convert are missing: pip install 'figeval[analysis]'."
        )
    found: JSON = {
        "runs": [_about(run) for run in runs],
        "scores": list(_score_rows(runs)),
        "grids": [_named(grid, labels, place) for place, run in enumerate(runs) for grid in [*table.grids(run)][1:]],
        "notes": list(_by_label(labels, [table.notes(run) for run in runs])),
        "comparisons": panels.comparisons,
        "tests": panels.tests,
        "breakdowns": list(_breakdowns(runs, labels)),
        "calibration": _calibration(panels.calibration, labels),
        "positions": _positions(panels.positions, labels),
        "statuses": _statuses(runs, labels),
        "trainings": list(map(_training, panels.trainings)),
        "samples": [{"task": one["task"], "n": len(one["ids"]), "packed": packed(one)} for one in panels.samples],
        "downloads": [download(name, text) for name, text in panels.downloads.items()],
        "charts": _charts(runs, panels, labels) if draw and charts.available() else {},
    }
    present = {**found, "answers": found["statuses"].rows, "training": found["trainings"]}
    about: JSON = {
        "title": one_line(title),
        "labels": labels,
        "labels_json": markup(json.dumps(labels).replace("<", "\\u003c")),
        "notices": list(dict.fromkeys(notices)),
        "sections": [(key, name) for key, name in SECTIONS.items() if present[key]],
        "back": back,
        "made": now(),
        "version": installed("figeval") or "unknown",
    }
    return document("page.html.jinja", ("page.css", "report.css"), "report.js", {**found, **about})


def packed(content: object) -> str:
    """Return a JSON value as base64 of gzip, which the page's script unpacks."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return in_base64(gzip.compress(text.encode(), mtime=0))


# ---- runs and scores -------------------------------------------------------------------------------------------------


def _distinct(labels: Sequence[str]) -> list[str]:
    """Number labels that are equal."""
    return [f"{label} [{place + 1}]" if labels.count(label) > 1 else label for place, label in enumerate(labels)]


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


def _score_rows(runs: Sequence[RunRecord]) -> Iterator[JSON]:
    """Yield the rows of the score table, sorted by task and metric, with the runs below each other."""
    tasks = list(dict.fromkeys(task.task for run in runs for task in run.tasks_with_rows()))
    own = [{task.task: task for task in run.tasks_with_rows()} for run in runs]
    for name in tasks:
        found = [(place, mine[name]) for place, mine in enumerate(own) if name in mine]
        metrics = list(dict.fromkeys(score.metric for _, task in found for score in task.scores))
        shown = f"{name} (probe)" if found[0][1].kind == "probe" else name
        rows = [row for metric in metrics for row in _metric_rows(metric, found)]
        for place, row in enumerate(rows):
            is_new = place == 0 or rows[place - 1]["metric"] != row["metric"]
            heads = {"task": "" if place else shown, "metric": row["metric"] if is_new else ""}
            yield {**row, **heads, "inner": place < len(rows) - 1, "further": row["metric"] != metrics[0]}
        for place, task in found:
            if not task.scores:
                state = "failed" if task.status == "failed" else "no scores" if task.status == "done" else "not yet"
                yield {**NO_SCORE, "task": shown, "metric": state, "run": place}
    for place, run in enumerate(runs):
        for macro in run.macro:
            value = table.number(macro.value) + table.MARKS[macro.seen]
            name = f"{macro.suite}: mean of {macro.tasks}"
            yield {**NO_SCORE, "task": name, "metric": macro.metric, "run": place, "value": value}


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
                    yield {"metric": metric, "run": place, "part": part, **cells, "bar": bar(score, floors)}


def _named(grid: Grid, labels: Sequence[str], place: int) -> Grid:
    title = f"{labels[place]}: {grid.title}" if len(labels) > 1 else grid.title
    return Grid(grid.head, grid.rows, title, grid.right)


def _by_label(labels: Sequence[str], notes: Sequence[Iterator[str]]) -> Iterator[str]:
    """Yield notes, each once, with the runs that it belongs to if it does not belong to all."""
    told: dict[str, list[str]] = {}
    for label, own in zip(labels, notes, strict=True):
        for note in dict.fromkeys(own):
            told.setdefault(note, []).append(label)
    for note, names in told.items():
        yield note if len(names) == len(labels) else f"{', '.join(names)}: {note}"


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
    """Return the table of one metric of a breakdown; `own` has the scores of each run by the value of the column."""
    values = list(dict.fromkeys(value for scores in own.values() for value in scores))
    rows = []
    for value in values[:MOST_GROUPS]:
        scores = [scores.get(value) for scores in own.values()]
        n = max(score.n for score in scores if score is not None)
        cells = [(table.marked(one), table.interval(one)) if one is not None else ("–", "") for one in scores]
        rows.append((one_line(value), str(n), *(cell for pair in cells for cell in pair)))
    columns = [column for place in own for column in (labels[place], "95 % interval")]
    more = f"; the {MOST_GROUPS} most frequent of {len(values)}" if len(values) > MOST_GROUPS else ""
    return Grid((by, "n", *columns), rows, f"{title}{more}", {"n", *labels, "95 % interval"})


def _calibration(entries: Sequence[JSON], labels: Sequence[str]) -> Grid | None:
    head = ("task", "run", "n", "accuracy", "ECE", "Brier", "accuracy at 50 %", "at 80 %", "confidence from")
    rows = []
    for one in entries:
        at = {round(share, 2): accuracy for share, accuracy in one["selective"]}
        numbers = (one["accuracy"], one["ece"], one["brier"], at[0.5], at[0.8])
        rows.append(
            (one["task"], labels[one["run"]], str(one["n"]), *(f"{value:.3f}" for value in numbers), one["origin"])
        )
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


def _statuses(runs: Sequence[RunRecord], labels: Sequence[str]) -> Grid:
    """Return the number of answers by status, of ties and of truncated inputs."""
    lines = [(task, label) for run, label in zip(runs, labels, strict=True) for task in run.tasks_with_rows()]
    kinds = list(dict.fromkeys(["ok", *(kind for task, _ in lines for kind, count in task.counts.items() if count)]))
    rows = [
        (task.task, label, str(task.n), *(str(task.counts.get(kind, 0)) for kind in kinds)) for task, label in lines
    ]
    rows.sort(key=lambda row: [task.task for task, _ in lines].index(row[0]))
    return Grid(
        ("task", "run", "examples", *(kind.replace("_", " ") for kind in kinds)),
        rows,
        right={"examples", *(kind.replace("_", " ") for kind in kinds)},
    )


def _training(record: JSON) -> JSON:
    """Return the dev scores of a training and the notes on it. Raises `RecordError` for a record that has none."""
    try:
        return {"grid": dev_scores(record), "notes": list(training_notes(record))}
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        OverflowError,
    ) as error:  # a training's record has no schema
        raise RecordError(f"training/record.json was not written by this version of figeval ({error})") from error


def _charts(runs: Sequence[RunRecord], panels: Panels, labels: Sequence[str]) -> JSON:
    """Return the charts by section."""
    first = []
    for run, label in zip(runs, labels, strict=True):
        for task in run.tasks_with_rows():
            score = next((one for one in task.scores if one.value is not None and 0 <= one.value <= 1), None)
            if score is not None and task.kind != "probe":
                floors = [
                    one.value
                    for each in task.baselines
                    for one in each.scores
                    if one.metric == score.metric and one.value is not None
                ]
                first.append(
                    {
                        "task": f"{task.task}: {score.metric}",
                        "run": label,
                        "value": score.value,
                        "low": score.low,
                        "high": score.high,
                        "floor": max(floors, default=None),
                    }
                )
    drawn = charts.scores(cleaned(first), labels)
    calibration = [
        picture for task, own in _by_task(panels.calibration) for picture in charts.calibration(task, own, labels)
    ]
    return {
        "scores": [drawn] if drawn is not None else [],
        "calibration": calibration,
        "positions": [charts.positions(task, own, labels) for task, own in _by_task(panels.positions)],
        "training": [
            one for record in panels.trainings if (one := charts.learning(record, scored_steps(record))) is not None
        ],
    }


def _by_task(entries: Sequence[JSON]) -> Iterator[tuple[str, list[JSON]]]:
    for task, own in groupby(entries, key=lambda one: one["task"]):
        yield task, list(own)
