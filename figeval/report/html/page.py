"""The page of a report: one HTML file with its style, its script and its data, which loads nothing from elsewhere.

A Content-Security-Policy allows exactly the page's own style and script, by their digests, and images within the page.
Names, notes and numbers are escaped by Jinja. Texts of models and benchmarks are compressed JSON in base64, which
cannot end a `<script>` element; the script inserts them as text, never as HTML.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from typing import Any
from urllib.parse import quote

from figeval.errors import RecordError
from figeval.records import conditions
from figeval.records.provenance import installed, now
from figeval.records.schema import RunRecord, ScoreRecord, TaskRecord
from figeval.report import table
from figeval.report.grid import Grid
from figeval.report.html import charts
from figeval.report.training import dev_scores, scored_steps
from figeval.report.training import notes as training_notes
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
        downloads: file name → content, of the score table in several formats.
        notices: sentences at the top of the page.
    """

    comparisons: Sequence[JSON] = ()
    family: int = 0
    calibration: Sequence[JSON] = ()
    positions: Sequence[JSON] = ()
    samples: Sequence[JSON] = ()
    trainings: Sequence[JSON] = ()
    downloads: Mapping[str, str]
    notices: Sequence[str] = ()


def page(title: str, runs: Sequence[RunRecord], panels: Panels, *, draw: bool = True) -> str:
    """Return the HTML page of a report.

    Args:
        title: heading.
        runs: records of the runs, in the order of all tables.
        panels: the other content.
        draw: whether to draw charts; they need the extra `analysis`, without which the numbers are shown as tables.
    """
    from jinja2 import Environment

    labels = [one_line(label) for label in _distinct(conditions.labels(runs))]
    style, script = (_asset(name) for name in ("report.css", "report.js"))
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
        "comparisons": [{**pair, "grid": _comparison(pair)} for pair in panels.comparisons],
        "family": panels.family,
        "breakdowns": list(_breakdowns(runs, labels)),
        "calibration": _calibration(panels.calibration, labels),
        "positions": _positions(panels.positions, labels),
        "statuses": _statuses(runs, labels),
        "trainings": list(map(_training, panels.trainings)),
        "samples": [{"task": one["task"], "n": len(one["ids"]), "packed": packed(one)} for one in panels.samples],
        "downloads": [
            {"name": name, "address": f"data:text/plain;charset=utf-8;base64,{_base64(text.encode())}"}
            for name, text in panels.downloads.items()
        ],
        "charts": _charts(runs, panels, labels) if draw and charts.available() else {},
    }
    present = {**found, "answers": found["statuses"].rows, "training": found["trainings"]}
    environment = Environment(autoescape=True, finalize=_harmless)
    environment.filters["quoted"] = lambda text: quote(clean(text), safe="")
    environment.globals["zip"] = zip
    return environment.from_string(_asset("page.html.jinja")).render(
        **found,
        title=one_line(title),
        labels=labels,
        labels_json=_markup(json.dumps(labels).replace("<", "\\u003c")),
        notices=list(dict.fromkeys(notices)),
        sections=[(key, name) for key, name in SECTIONS.items() if present[key]],
        style=_markup(style),
        script=_markup(script),
        policy=policy(style, script),
        made=now(),
        version=installed("figeval") or "unknown",
    )


def policy(style: str, script: str) -> str:
    """Return the Content-Security-Policy that allows one style and one script by their digests, and nothing else."""
    styles, scripts = (f"'sha256-{_base64(hashlib.sha256(text.encode()).digest())}'" for text in (style, script))
    allowed = f"script-src {scripts}; style-src {styles}; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def packed(content: object) -> str:
    """Return a JSON value as base64 of gzip, which the page's script unpacks."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return _base64(gzip.compress(text.encode(), mtime=0))


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _asset(name: str) -> str:
    return (files("figeval.report.html") / name).read_text(encoding="utf-8")


def _markup(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)  # only for the page's own style and script, and for JSON without "<"


def _harmless(value: Any) -> Any:
    """Clean each text that the template inserts, unless it is the page's own."""
    return clean(value) if type(value) is str else value


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
                    yield {"metric": metric, "run": place, "part": part, **cells, "bar": _bar(score, floors)}


def _bar(score: ScoreRecord, floors: Sequence[float | None]) -> JSON | None:
    """Return the places on a bar from 0 to 100, or None for a score that is not between 0 and 1."""
    if score.value is None or not 0 <= score.value <= 1:
        return None
    value, low, high = (
        None if one is None else round(100 * min(max(one, 0), 1), 2) for one in (score.value, score.low, score.high)
    )
    return {
        "value": value,
        "low": low,
        "high": high,
        "floors": [round(100 * one, 2) for one in floors if one is not None and 0 <= one <= 1],
    }


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


def _comparison(pair: JSON) -> Grid:
    head = ("task", "A", "B", "A − B", "95 % interval", "p", "p (Holm)", "n", "clusters", "test")
    rows = []
    for one in pair["tasks"]:
        low, high, difference = one["low"], one["high"], one["difference"]
        interval = table.NOTHING if low is None or high is None else f"{low:+.3f} to {high:+.3f}"
        values = (table.number(one["value_a"]), table.number(one["value_b"]))
        gap = table.NOTHING if difference is None else f"{difference:+.4f}"
        chances = (_chance(one["p"]), _chance(one["p_adjusted"]))
        rows.append((one["task"], *values, gap, interval, *chances, str(one["n"]), str(one["clusters"]), one["test"]))
    return Grid(head, rows, right=head[1:-1])


def _chance(p: float | None) -> str:
    """Return a p-value with four decimals, never as 0."""
    return table.NOTHING if p is None else "<0.0001" if p < 1e-4 else f"{p:.4f}"


def _breakdowns(runs: Sequence[RunRecord], labels: Sequence[str]) -> Iterator[Grid]:
    """Yield a table for each breakdown of each task, with the first metric of all runs."""
    found: dict[tuple[str, str, str], dict[int, dict[str, ScoreRecord]]] = {}
    for place, run in enumerate(runs):
        for task in run.tasks:
            for breakdown in task.breakdowns:
                for group in breakdown.groups:
                    for score in group.scores[:1]:
                        key = (task.task, breakdown.by, score.metric)
                        found.setdefault(key, {}).setdefault(place, {})[group.value] = score
    for (name, by, metric), own in found.items():
        values = list(dict.fromkeys(value for scores in own.values() for value in scores))
        rows = []
        for value in values[:MOST_GROUPS]:
            scores = [scores.get(value) for scores in own.values()]
            n = max(score.n for score in scores if score is not None)
            cells = [(table.marked(one), table.interval(one)) if one is not None else ("–", "") for one in scores]
            rows.append((one_line(value), str(n), *(cell for pair in cells for cell in pair)))
        columns = [column for place in own for column in (labels[place], "95 % interval")]
        more = f"; the {MOST_GROUPS} most frequent of {len(values)}" if len(values) > MOST_GROUPS else ""
        yield Grid((by, "n", *columns), rows, f"{name} by {by}: {metric}{more}", {"n", *labels, "95 % interval"})


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
