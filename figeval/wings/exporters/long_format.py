"""One number per row, for programs: CSV, JSON and Apache Parquet with the same rows.

`pandas.read_csv` needs no options for the CSV; in the JSON, numbers keep their types. The whole record is in
`run.json`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence

from figeval import JSON, Column, RunRecord, Table, TaskRecord
from figeval.io.text import clean_json, one_line, shown_json, valid
from figeval.records.conditions import describe_conditions
from figeval.records.notes import notes

COLUMNS: tuple[Column[JSON], ...] = (
    *map(Column, ("run", "started", "kind", "model", "backend", "task")),
    Column("version", "Int64"),
    *map(Column, ("task_type", "route", "status", "metric")),
    *(Column(name, "float64") for name in ("value", "sd", "low", "high", "stderr")),
    *(Column(name, "Int64") for name in ("n", "clusters")),
    Column("effective_clusters", "float64"),
    Column("interval"),
    Column("higher_is_better", "bool"),
    *map(Column, ("seen", "examples_sha256", "sample_sha256", "remark", "conditions", "only_label", "notes")),
)
VARIANCE = (
    *("sampling", "interaction", "between_items", "between_clusters", "between_prompts"),
    *("sampling_share", "enough_samples"),
)


def export_csv(runs: Sequence[RunRecord]) -> str:
    """Return all runs as one CSV file; unknown values are empty cells."""
    return _table(runs).to_csv()


def export_json(runs: Sequence[RunRecord]) -> str:
    """Return all runs as one JSON list; unknown values are null."""
    rows = list(_table(runs).records())
    return shown_json(json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False)) + "\n"


def export_parquet(runs: Sequence[RunRecord]) -> bytes:
    """Return a Parquet file; unknown values are null. Texts are unchanged: no reader takes them for formulas.

    Raises:
        MissingPackage: pyarrow is not installed.
    """
    import pyarrow
    from pyarrow import parquet

    types = {"float64": pyarrow.float64(), "Int64": pyarrow.int64(), "bool": pyarrow.bool_()}
    schema = pyarrow.schema([(column.name, types.get(column.dtype, pyarrow.string())) for column in COLUMNS])
    rows = [clean_json(row, valid) for row in _table(runs).records()]
    stream = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), stream)
    return stream.getvalue()


def _table(runs: Sequence[RunRecord]) -> Table[JSON]:
    return Table(COLUMNS, list(_rows(runs)))


def _rows(runs: Sequence[RunRecord]) -> Iterator[JSON]:
    """Yield every number of every run with its circumstances.

    `kind` is model, baseline, contrast or macro mean, or prompt or probe for variants of a task. If the model has seen
    some of the examples, as `seen` says, the scores on the others follow, with "(remaining)" after their kind. For a
    task in several languages, the rows of each language have its name there, and those without one are means. Rows of
    kind "options (…)" give the kinds of options that were chosen. Rows of kind "variance (…)" give the components of
    the variance of sampled answers, and those of kind "mean over prompts" an interval that is about other prompts, too.

    `remark` is a note that belongs to every score of a metric made from an argument. `conditions` are those of the
    model's prompts, e.g. augmented inputs; they do not concern the baselines. `only_label` is the right answer of every
    example of a task, if all share one, and `notes` are those about a model that tables for people have below them.

    A task without scores keeps a row that says so in `status`.
    """
    for run in runs:
        about = {"run": run.identity, "started": run.started, "model": run.model.name, "backend": run.model.backend}
        for task in run.tasks:
            yield from _task_rows({**about, "notes": _notes(run, task.task)}, task)
        for contrast in run.contrasts:
            columns = {**about, "task": contrast.name, "status": run.status, "notes": _notes(run, contrast.name)}
            yield from ({**columns, "kind": "contrast", **score.model_dump()} for score in contrast.scores)
            for baseline in contrast.baselines:
                row = columns | _baseline_columns(baseline.baseline)
                yield from ({**row, **score.model_dump()} for score in baseline.scores)
        yield from _variance_rows({**about, "status": run.status}, run)
        for macro in run.macro:
            numbers = macro.model_dump(include={"metric", "value", "seen"})
            yield {**about, "kind": "macro mean", "task": macro.suite, "status": run.status, **numbers}


def _task_rows(columns: JSON, task: TaskRecord) -> Iterator[JSON]:
    names = ("task", "version", "task_type", "status", "examples_sha256", "sample_sha256", "only_label")
    columns = {**columns, **{name: getattr(task, name) for name in names}}
    columns |= {"route": task.route, "conditions": describe_conditions(task) or None}
    remarks = {name: argument.get("remark") for name, argument in task.settings.get("metric_arguments", {}).items()}
    kind = "model" if task.kind == "task" else task.kind
    if not task.scores:
        yield {**columns, "kind": kind}
    for part, scores, baselines in task.parts():
        examples = f" ({part})" if part else ""
        for score in scores:
            yield {**columns, "kind": f"{kind}{examples}", "remark": remarks.get(score.metric), **score.model_dump()}
        for baseline in baselines:
            row = {**columns, **_baseline_columns(baseline.baseline, examples)}
            for score in baseline.scores:
                yield {**row, "remark": remarks.get(score.metric), **score.model_dump()}
    for choices in task.choices:
        for option in choices.kinds:
            row = {**columns, "kind": f"options ({choices.key}: {option.value})"}
            yield from ({**row, **score.model_dump()} for score in (option.chosen, option.chosen_wrong))
            yield {**row, "metric": "expected_wrong", "value": option.expected_wrong, "n": option.chosen_wrong.n}


def _variance_rows(about: JSON, run: RunRecord) -> Iterator[JSON]:
    for variance in run.variances:
        columns = {**about, "task": variance.task, "metric": variance.metric, "n": variance.items}
        for name in VARIANCE:
            if (value := getattr(variance, name)) is not None:
                yield {**columns, "kind": f"variance ({name.replace('_', ' ')})", "value": value}
        if variance.prompts > 1:
            numbers = variance.model_dump(include={"low", "high", "stderr", "interval"})
            yield {**columns, "kind": "mean over prompts", "value": variance.mean, **numbers}


def _notes(run: RunRecord, name: str) -> str | None:
    return "; ".join(map(one_line, notes(run, [name]))) or None


def _baseline_columns(name: str, examples: str = "") -> JSON:
    columns = {"kind": f"baseline{examples}", "model": name, "backend": name}
    return columns | dict.fromkeys(("route", "conditions", "notes"))  # those of the model do not concern it
