"""One number per row, for programs: CSV, JSON and Apache Parquet with the same rows.

`pandas.read_csv` needs no options for the CSV; in the JSON, numbers keep their types. The whole record is in
`run.json`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from figeval import FigevalError, RunRecord, TaskRecord
from figeval.io.text import cleaned, csv_cell, one_line, shown_json, valid
from figeval.records.conditions import described
from figeval.records.notes import notes
from figeval.records.schema import ScoreRecord

SCORE_COLUMNS = (
    *("metric", "value", "sd", "low", "high", "stderr", "n", "clusters", "effective_clusters"),
    *("interval", "higher_is_better", "seen"),
)
COLUMNS = (
    *("run", "started", "kind", "model", "backend", "task", "version", "task_type", "route", "status"),
    *SCORE_COLUMNS,
    *("examples_sha256", "sample_sha256", "remark", "conditions", "only_label", "notes"),
)
FLOAT_COLUMNS = {"value", "sd", "low", "high", "stderr", "effective_clusters"}
INTEGER_COLUMNS = {"version", "n", "clusters"}
Row: TypeAlias = Mapping[str, str | float | bool | None]  # by column


def export_csv(runs: Sequence[RunRecord]) -> str:
    """Return all runs as one CSV file; unknown values are empty cells."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in _rows(runs))
    return text.getvalue()


def export_json(runs: Sequence[RunRecord]) -> str:
    """Return all runs as one JSON list; unknown values are null."""
    return shown_json(json.dumps(list(_rows(runs)), indent=1, ensure_ascii=False, allow_nan=False)) + "\n"


def export_parquet(runs: Sequence[RunRecord]) -> bytes:
    """Return a Parquet file; unknown values are null. Texts are unchanged: no reader takes them for formulas.

    Raises:
        FigevalError: pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise FigevalError("--to parquet needs the library pyarrow; pip install 'figeval[parquet]'") from error
    types = {
        **dict.fromkeys(FLOAT_COLUMNS, pyarrow.float64()),
        **dict.fromkeys(INTEGER_COLUMNS, pyarrow.int64()),
        "higher_is_better": pyarrow.bool_(),
    }
    schema = pyarrow.schema([(name, types.get(name, pyarrow.string())) for name in COLUMNS])
    rows = [cleaned(row, valid) for row in _rows(runs)]
    stream = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), stream)
    return stream.getvalue()


def _rows(runs: Sequence[RunRecord]) -> Iterator[Row]:
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
        columns = {"run": run.identity, "started": run.started, "model": run.model.name, "backend": run.model.backend}
        for task in run.tasks:
            yield from _task_rows({**columns, "notes": _notes(run, task.task)}, task)
        for contrast in run.contrasts:
            shared = {"task": contrast.name, "status": run.status, "notes": _notes(run, contrast.name)}
            for score in contrast.scores:
                yield _row(columns, shared, {"kind": "contrast"}, _score_columns(score))
            for baseline in contrast.baselines:
                for score in baseline.scores:
                    yield _row(columns, shared, _baseline_columns(baseline.baseline), _score_columns(score))
        for macro in run.macro:
            numbers = {"metric": macro.metric, "value": macro.value, "seen": macro.seen}
            yield _row(columns, {"kind": "macro mean", "task": macro.suite, "status": run.status}, numbers)


def _task_rows(columns: Row, task: TaskRecord) -> Iterator[Row]:
    names = ("task", "version", "task_type", "status", "examples_sha256", "sample_sha256", "only_label")
    columns = {**columns, **{name: getattr(task, name) for name in names}}
    columns |= {"route": task.route, "conditions": described(task) or None}
    remarks = {name: argument.get("remark") for name, argument in task.settings.get("metric_arguments", {}).items()}
    kind = "model" if task.kind == "task" else task.kind
    parts = [(f" ({part.language})", part.scores, part.baselines) for part in task.languages]
    parts.append(("", task.scores, task.baselines))
    if task.overlap is not None:
        parts.append((" (remaining)", task.overlap.scores, task.overlap.baselines))
    if not task.scores:
        yield _row(columns, {"kind": kind})
    for examples, scores, baselines in parts:
        for score in scores:
            remark = remarks.get(score.metric)
            yield _row(columns, {"kind": f"{kind}{examples}", "remark": remark}, _score_columns(score))
        for baseline in baselines:
            for score in baseline.scores:
                remark = {"remark": remarks.get(score.metric)}
                yield _row(columns, _baseline_columns(baseline.baseline, examples), remark, _score_columns(score))
    for choices in task.choices:
        for option in choices.kinds:
            option_kind = {"kind": f"options ({choices.key}: {option.value})"}
            for score in (option.chosen, option.chosen_wrong):
                yield _row(columns, option_kind, _score_columns(score))
            expected = {"metric": "expected_wrong", "value": option.expected_wrong, "n": option.chosen_wrong.n}
            yield _row(columns, option_kind, expected)


def _notes(run: RunRecord, name: str) -> str | None:
    return "; ".join(map(one_line, notes(run, [name]))) or None


def _baseline_columns(name: str, examples: str = "") -> Row:
    columns = {"kind": f"baseline{examples}", "model": name, "backend": name}
    return columns | dict.fromkeys(("route", "conditions", "notes"))  # those of the model do not concern it


def _score_columns(score: ScoreRecord) -> Row:
    stored = score.model_dump()
    return {name: stored[name] for name in SCORE_COLUMNS}


def _row(*parts: Row) -> Row:
    values = {column: value for part in parts for column, value in part.items()}
    return {column: values.get(column) for column in COLUMNS}
