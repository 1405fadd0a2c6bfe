"""The table of a layout in LaTeX: published numbers, those of runs and other ones, footnotes, parts of pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase

from figeval import OptionError, RunRecord, TaskRecord
from figeval.records.reference import MeasuredNumber, MeasuredNumbers, Published, published_numbers
from figeval.records.schema import ScoreRecord
from figeval.reporting.floats import COLUMN_GAP_PT, FloatStyle, table_floats, text_width
from figeval.reporting.tex import (
    BRACKETS,
    MISSING_CELL,
    SEEN_MARKS,
    SEEN_SENTENCES,
    group_headings,
    interval_cell,
    number_cell,
    number_column,
    printable,
    prose,
    sentence,
    table_row,
)
from figeval.wings.exporters.layouts import EXAMPLES, Measure, Panel, TableLayout
from figeval.wings.exporters.score_table import bracket_notes, headings, seen_roles, table_notes

MEASURED_HEAD = "Measured"
MIN_WIDE_COLUMNS = 7  # of a panel whose intervals need narrower gaps to fit into the width of a page


@dataclass(slots=True)
class TableCell:
    """One number as printed, the mark behind it, and its interval and examples, if it was measured."""

    value: str | None = None
    mark: str = ""
    low: float | None = None
    high: float | None = None
    n: int | None = None
    reliable: bool = True


@dataclass(slots=True)
class RowBlock:
    """Rows of a panel under one heading: (name, cells), and the marks behind names."""

    head: str
    rows: list[tuple[str, list[TableCell]]] = field(default_factory=list)
    marks: dict[str, str] = field(default_factory=dict)


class Footnotes:
    """Sentences about doubtful numbers, each with one letter in order of appearance."""

    def __init__(self) -> None:
        self.letters: dict[str, str] = {}

    def mark(self, text: str) -> str:
        """Return the mark of a sentence, or an empty text for none."""
        if not text:
            return ""
        letter = self.letters.setdefault(text, _letter(len(self.letters)))
        return f"$^{{{letter}}}$"


def layout_table(
    layout: TableLayout,
    runs: Sequence[RunRecord],
    files: Sequence[MeasuredNumbers],
    style: FloatStyle,
    *,
    intervals: bool,
    examples: bool,
) -> str:
    """Return the floats of a layout with the numbers of runs and of `files`, which no run holds, turned if too wide.

    Raises:
        OptionError: no run has a task of the layout, or `files` have no number of its columns.
    """
    runs, omissions = _with_tasks(runs, layout)
    columns = dict.fromkeys(
        (group.about, measure.metric) for panel in layout.panels for group, measure in panel.columns
    )
    numbers = [number for file in files for number in file.numbers]
    if files and not any((number.part, number.metric) in columns for number in numbers):
        metrics_by_part: dict[str, list[str]] = {}
        for part, metric in columns:
            metrics_by_part.setdefault(part, []).append(metric)
        names = "; ".join(f"{part} {', '.join(metrics)}" for part, metrics in metrics_by_part.items())
        raise OptionError(f"--measured has no number for {layout.name}; its columns (part and metrics) are {names}")
    footnotes = Footnotes()
    rows = list(published_numbers(layout.sources))
    parts, width_pt = [], 0.0
    for panel in layout.panels:
        blocks = [block for block in _blocks(layout, panel, rows, runs, numbers, footnotes) if block.rows]
        if blocks:
            lines, panel_width_pt = _tabular(layout, panel, blocks, intervals=intervals, examples=examples)
            width_pt = max(width_pt, panel_width_pt)
            parts.append(lines)
    has_brackets = intervals and any(BRACKETS in line for lines in parts for line in lines)
    notes = [*_notes(layout, runs, files, footnotes, intervals=has_brackets), *omissions]
    is_turned = width_pt > style.width_pt
    return "\n".join(table_floats(parts, printable(layout.caption), layout.name, notes, style, is_turned=is_turned))


def _layout_tasks(run: RunRecord, layout: TableLayout) -> list[TaskRecord]:
    return [task for task in run.tasks if task.task in layout.tasks]


def _with_tasks(runs: Sequence[RunRecord], layout: TableLayout) -> tuple[list[RunRecord], list[str]]:
    """Return the runs that have tasks of a layout, and a note on the others.

    Raises:
        OptionError: none of them has, and the layout has tasks.
    """
    with_tasks = [run for run in runs if _layout_tasks(run, layout)]
    without_tasks = [name for name, run in zip(headings(runs), runs, strict=True) if not _layout_tasks(run, layout)]
    verb = "have" if without_tasks[1:] else "has"
    gap = f"{', '.join(without_tasks)} {verb} none of the tasks of {layout.name}"
    if runs and not with_tasks and layout.tasks:
        raise OptionError(f"{gap}; run `figeval run --tasks {','.join(layout.tasks)}`")
    return with_tasks, [f"Left out: {printable(gap)}."] if without_tasks else []


def _letter(index: int) -> str:
    return ascii_lowercase[index % 26] * (index // 26 + 1)


def _blocks(
    layout: TableLayout,
    panel: Panel,
    rows: Sequence[Published],
    runs: Sequence[RunRecord],
    numbers: Sequence[MeasuredNumber],
    footnotes: Footnotes,
) -> Iterator[RowBlock]:
    """Yield the blocks of a panel: published numbers by source, those of runs and other ones, and of trivial models."""
    for source in layout.sources:
        yield _published_block(layout, panel, source, rows, footnotes)
    measured, trivial = RowBlock(MEASURED_HEAD), RowBlock("Trivial models")
    panel_tasks = {group.task for group in panel.groups}
    panel_runs = [run for run in runs if panel_tasks & {task.task for task in run.tasks}]
    for name, run in zip(headings(panel_runs), panel_runs, strict=True):
        tasks = {task.task: task for task in _layout_tasks(run, layout)}
        measured.rows.append((name, [_run_cell(tasks.get(group.task), measure) for group, measure in panel.columns]))
        _add_trivial(trivial, name, tasks, panel)
    measured.rows += _number_rows(panel, numbers)
    yield measured
    yield trivial


def _published_block(
    layout: TableLayout, panel: Panel, source: str, rows: Sequence[Published], footnotes: Footnotes
) -> RowBlock:
    columns = {(group.about, measure.metric) for group, measure in panel.columns if group.published}
    published = {
        (row.about, row.metric, row.model): row
        for row in rows
        if row.source == source and (row.about, row.metric) in columns
    }
    block = RowBlock(f"Published: {source}")
    for model in dict.fromkeys(model for _, _, model in published):
        block.marks[model] = footnotes.mark(layout.row_notes.get(model, ""))
        cells = [
            _published_cell(published.get((group.about, measure.metric, model)), measure, footnotes)
            for group, measure in panel.columns
        ]
        block.rows.append((model, cells))
    return block


def _published_cell(row: Published | None, measure: Measure, footnotes: Footnotes) -> TableCell:
    if row is None:
        return TableCell()
    significance = f"$^{{{row.significance}}}$" if row.significance else ""
    return TableCell(measure.format_published(row.value), significance + footnotes.mark(row.doubt))


def _number_rows(panel: Panel, numbers: Sequence[MeasuredNumber]) -> Iterator[tuple[str, list[TableCell]]]:
    """Yield the rows of numbers that no run holds: model and cells."""
    by_column: dict[tuple[str, Measure, str], MeasuredNumber] = {
        (group.about, measure, number.model): number
        for group, measure in panel.columns
        for number in numbers
        if (number.part, number.metric) == (group.about, measure.metric) and measure.takes(number)
    }
    for model in dict.fromkeys(model for _, _, model in by_column):
        cells = []
        for group, measure in panel.columns:
            number = by_column.get((group.about, measure, model))
            cells.append(
                TableCell()
                if number is None
                else TableCell(measure.format(number.value), "", number.low, number.high, number.n)
            )
        yield model, cells


def _run_cell(task: TaskRecord | None, measure: Measure) -> TableCell:
    """Return what a run has in a column, which may be nothing."""
    if task is None:
        return TableCell()
    if measure.metric == EXAMPLES:
        return TableCell(measure.format(task.available))
    return _score_cell(task.scores, measure)


def _score_cell(scores: Sequence[ScoreRecord], measure: Measure) -> TableCell:
    score = next((score for score in scores if score.metric == measure.metric), None)
    if score is None:
        return TableCell()
    mark = SEEN_MARKS[score.seen] if score.seen else ""
    return TableCell(measure.format(score.value), mark, score.low, score.high, score.n, score.interval.reliable)


def _add_trivial(block: RowBlock, run: str, tasks: Mapping[str, TaskRecord], panel: Panel) -> None:
    """Add the trivial models of a run; a model with the same numbers as in another run stands there once."""
    names = dict.fromkeys(baseline.baseline for task in tasks.values() for baseline in task.baselines)
    for name in names:
        cells = []
        for group, measure in panel.columns:
            task = tasks.get(group.task)
            scores = [baseline.scores for baseline in task.baselines if baseline.baseline == name] if task else []
            cells.append(_score_cell(scores[0] if scores else (), measure))
        if not any(cell.value for cell in cells):
            continue
        same = [row for row in block.rows if row[0] == name and _agree(row[1], cells)]
        if same:
            same[0][1][:] = [old if old.value else new for old, new in zip(same[0][1], cells, strict=True)]
        else:
            is_taken = any(row[0] == name for row in block.rows)
            block.rows.append((f"{name} (of {run})" if is_taken else name, cells))


def _agree(row: Sequence[TableCell], other: Sequence[TableCell]) -> bool:
    """Return whether two rows nowhere have different numbers, or numbers about different examples."""
    return all(
        a.value is None or b.value is None or (a.value, a.n) == (b.value, b.n) for a, b in zip(row, other, strict=True)
    )


def _tabular(
    layout: TableLayout, panel: Panel, blocks: Sequence[RowBlock], *, intervals: bool, examples: bool
) -> tuple[list[str], float]:
    """Return the lines of a panel, and about how wide it is in points."""
    columns = [[cells[index] for block in blocks for _, cells in block.rows] for index in range(len(panel.columns))]
    formats = [
        number_column([cell.value for cell in column], has_marks=any(cell.mark for cell in column))
        for column in columns
    ]
    sizes = [{cell.n for cell in column if cell.n is not None} for column in columns]
    in_one_row = examples and any(sizes) and all(len(column_sizes) < 2 for column_sizes in sizes)
    lines, rows = [], [[printable(layout.rows), *_heads(panel)]]
    for block in blocks:
        head = rf"\multicolumn{{{len(columns) + 1}}}{{@{{}}l}}{{\emph{{{printable(block.head)}}}}} \\"
        block_rows = [*_block_rows(panel, block, intervals=intervals, examples=examples and not in_one_row)]
        if in_one_row and block.head == MEASURED_HEAD:
            block_rows.insert(0, ["$n$", *(f"{{{next(iter(column_sizes), MISSING_CELL)}}}" for column_sizes in sizes)])
        lines += [r"\midrule", head, *map(table_row, block_rows)]
        rows += block_rows
    is_narrow = intervals and len(columns) >= MIN_WIDE_COLUMNS
    gap = COLUMN_GAP_PT / 2 if is_narrow else COLUMN_GAP_PT
    lines = [
        *([rf"\emph{{{printable(panel.title)}}}\par"] if panel.title else []),
        *([rf"\begingroup\setlength{{\tabcolsep}}{{{gap / 2:.0f}pt}}"] if is_narrow else []),
        rf"\begin{{tabular}}{{@{{}}l {' '.join(formats)}@{{}}}}",
        r"\toprule",
        *_head_rows(layout, panel),
        *lines,
        r"\bottomrule",
        r"\end{tabular}",
        *([r"\endgroup"] if is_narrow else []),
    ]
    return lines, sum(max(map(text_width, cells)) + gap for cells in zip(*rows, strict=True))


def _block_rows(panel: Panel, block: RowBlock, *, intervals: bool, examples: bool) -> Iterator[list[str]]:
    for name, cells in block.rows:
        yield [printable(name) + block.marks.get(name, ""), *(number_cell(cell.value, cell.mark) for cell in cells)]
        if intervals and any(cell.low is not None for cell in cells):
            yield ["", *_interval_cells(panel, cells)]
        if examples and any(cell.n is not None for cell in cells):
            yield ["", *("{}" if cell.n is None else rf"{{\scriptsize $n={cell.n}$}}" for cell in cells)]


def _heads(panel: Panel) -> Iterator[str]:
    """Yield the head of each column: that of its group if all groups have one column."""
    has_single_columns = _has_single_columns(panel)
    for group, measure in panel.columns:
        yield f"{{{printable(group.head if has_single_columns else measure.head)}}}"


def _has_single_columns(panel: Panel) -> bool:
    return all(len(group.measures) == 1 and group.head for group in panel.groups)


def _head_rows(layout: TableLayout, panel: Panel) -> Iterator[str]:
    if not _has_single_columns(panel):
        yield from group_headings([(printable(group.head), len(group.measures)) for group in panel.groups])
    yield table_row([printable(layout.rows), *_heads(panel)])


def _interval_cells(panel: Panel, cells: Sequence[TableCell]) -> Iterator[str]:
    for cell, (_, measure) in zip(cells, panel.columns, strict=True):
        yield interval_cell(cell.low, cell.high, measure.percent, measure.digits, reliable=cell.reliable)


def _notes(
    layout: TableLayout,
    runs: Sequence[RunRecord],
    files: Sequence[MeasuredNumbers],
    footnotes: Footnotes,
    *,
    intervals: bool,
) -> Iterator[str]:
    yield from (f"$^{{{letter}}}$ {printable(text)}" for text, letter in footnotes.letters.items())
    yield from map(prose, layout.notes)
    if layout.hint and not files and not runs:
        yield prose(layout.hint)
    tasks_by_run = {name: _layout_tasks(run, layout) for name, run in zip(headings(runs), runs, strict=True)}
    metrics = {measure.metric for panel in layout.panels for _, measure in panel.columns}
    yield from (f"Measured: {printable(file.source)}." for file in files)
    if metrics != {EXAMPLES} and any(tasks_by_run.values()):
        routes = "; ".join(
            f"{name}: {', '.join(dict.fromkeys(task.route for task in tasks))}" for name, tasks in tasks_by_run.items()
        )
        yield f"Measured: {printable(routes)}."
    if intervals:
        yield from bracket_notes(runs)
    yield from map(sentence, table_notes(runs, layout.tasks, metrics))
    roles = {score.seen for tasks in tasks_by_run.values() for task in tasks for score in task.scores}
    yield from (SEEN_SENTENCES[role] for role in seen_roles(runs) if role in roles)
