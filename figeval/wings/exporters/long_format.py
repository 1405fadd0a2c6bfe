"""One number per row, for programs: CSV and JSON with the same rows.

`pandas.read_csv` needs no options for the CSV; in the JSON, numbers keep their types. The whole record is in
`run.json`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from figeval.io.text import csv_cell, one_line, shown_json
from figeval.records.conditions import described
from figeval.records.notes import notes
from figeval.records.schema import RunRecord, ScoreRecord, TaskRecord

OF_SCORE = (
    *("metric", "value", "sd", "low", "high", "stderr", "n", "clusters", "effective_clusters"),
    *("interval", "higher_is_better", "seen"),
)
COLUMNS = (
    *("run", "started", "kind", "model", "backend", "task", "version", "task_type", "route", "status"),
    *OF_SCORE,
    *("examples_sha256", "sample_sha256", "remark", "conditions", "only_label", "notes"),
)


Row: TypeAlias = Mapping[str, str | float | bool | None]  # by column


def rows(runs: Sequence[RunRecord]) -> Iterator[Row]:
    """Yield every number of every run with its circumstances.

    `kind` is model, baseline, contrast or macro mean, or prompt or probe for variants of a task. If the model has seen
    some of the examples, as `seen` says, the scores on the others follow, with "(remaining)" after their kind. For a
    task in several languages, the rows of each language have its name there, and those without one are means. Rows of
    kind "options (…)" give the kinds of options that were chosen.

    `remark` is a note that belongs to every score of a metric made from an argument. `conditions` are those of the
    model's prompts, e.g. augmented inputs; they do not concern the baselines. `only_label` is the right answer of every
    example of a task, if all share one, and `notes` are those about a model that tables for people have below them.

    A task without scores keeps a row that says so in `status`.
    """
    for run in runs:
        about = {"run": run.identity, "started": run.started, "model": run.model.name, "backend": run.model.backend}
        for task in run.tasks:
            yield from _of_task({**about, "notes": _notes(run, task.task)}, task)
        for contrast in run.contrasts:
            shared = {"task": contrast.name, "status": run.status, "notes": _notes(run, contrast.name)}
            for score in contrast.scores:
                yield _row(about, shared, {"kind": "contrast"}, _numbers(score))
            for one in contrast.baselines:
                for score in one.scores:
                    trivial = {"kind": "baseline", "model": one.baseline, "backend": one.baseline, "notes": None}
                    yield _row(about, shared, trivial, _numbers(score))
        for macro in run.macro:
            numbers = {"metric": macro.metric, "value": macro.value, "seen": macro.seen}
            yield _row(about, {"kind": "macro mean", "task": macro.suite, "status": run.status}, numbers)


def _of_task(about: Row, task: TaskRecord) -> Iterator[Row]:
    same = ("task", "version", "task_type", "status", "examples_sha256", "sample_sha256", "only_label")
    shared = {key: getattr(task, key) for key in same}
    remarks = {name: one.get("remark") for name, one in task.settings.get("metric_arguments", {}).items()}
    kind = "model" if task.kind == "task" else task.kind
    how = {"route": task.route, "conditions": described(task) or None}
    scored = [(f" ({one.language})", one.scores, one.baselines) for one in task.languages]
    scored.append(("", task.scores, task.baselines))
    if task.overlap is not None:
        scored.append((" (remaining)", task.overlap.scores, task.overlap.baselines))
    if not task.scores:
        yield _row(about, shared, how, {"kind": kind})
    for examples, scores, baselines in scored:
        for score in scores:
            own = {"kind": f"{kind}{examples}", "remark": remarks.get(score.metric)}
            yield _row(about, shared, how, own, _numbers(score))
        for one in baselines:
            trivial = {"kind": f"baseline{examples}", "model": one.baseline, "backend": one.baseline, "notes": None}
            for score in one.scores:
                yield _row(about, shared, trivial, {"remark": remarks.get(score.metric)}, _numbers(score))
    for table in task.choices:
        for option in table.kinds:
            about_option = {**how, "kind": f"options ({table.key}: {option.value})"}
            for score in (option.chosen, option.chosen_wrong):
                yield _row(about, shared, about_option, _numbers(score))
            expected = {"metric": "expected_wrong", "value": option.expected_wrong, "n": option.chosen_wrong.n}
            yield _row(about, shared, about_option, expected)


def _notes(run: RunRecord, name: str) -> str | None:
    """Return the notes about a task or contrast in one cell."""
    return "; ".join(map(one_line, notes(run, [name]))) or None


def _numbers(score: ScoreRecord) -> Row:
    stored = score.model_dump()
    return {key: stored[key] for key in OF_SCORE}


def _row(*parts: Row) -> Row:
    known = {column: value for part in parts for column, value in part.items()}
    return {column: known.get(column) for column in COLUMNS}


def export_csv(runs: Sequence[RunRecord]) -> str:
    """Return all runs as one CSV file; unknown values are empty cells."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows(runs))
    return text.getvalue()


def export_json(runs: Sequence[RunRecord]) -> str:
    """Return all runs as one JSON list; unknown values are null."""
    return shown_json(json.dumps(list(rows(runs)), indent=1, ensure_ascii=False, allow_nan=False)) + "\n"
