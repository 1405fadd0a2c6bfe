"""A table of a paper with the published numbers, those of runs, and those of trivial models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase

from figeval.errors import OptionError
from figeval.records.measured import MeasuredNumber, MeasuredNumbers
from figeval.records.reference import Published, printed
from figeval.records.schema import RunRecord, ScoreRecord, TaskRecord
from figeval.wings.exporters.layouts import EXAMPLES, Group, Layout, Measure, Panel
from figeval.wings.exporters.side_by_side import headings, notes, roles
from figeval.wings.exporters.tex import (
    BRACKETS,
    MISSING,
    between,
    column,
    figure,
    floating,
    headed,
    printable,
    prose,
    row,
    sentence,
)

MEASURED = "Measured"
PAGE = 54  # rows that fit on a page with caption and notes, in the type size of tables
NOTE_LINE_CHARS = 120
FEW_NOTE_LINES = 12  # of notes that fit below a full page
WIDE = 7  # columns of a panel whose intervals need narrower gaps to fit into the width of a page
SEEN = {"trained": r"$^{\ddagger}$", "chosen": r"$^{\dagger}$"}
TOLD = {
    "trained": r"$\ddagger$ The model was trained on some of these examples.",
    "chosen": r"$\dagger$ The model was chosen on some of these examples; the score is a maximum.",
}


@dataclass(slots=True)
class Cell:
    """One number as printed, the mark behind it, and its interval and examples, if it was measured."""

    value: str | None = None
    mark: str = ""
    low: float | None = None
    high: float | None = None
    n: int | None = None


@dataclass(slots=True)
class Block:
    """Rows of a panel under one heading: (name, cells)."""

    head: str
    rows: list[tuple[str, list[Cell]]] = field(default_factory=list)


class Footnotes:
    """Sentences about doubtful numbers, each with one letter in order of appearance."""

    def __init__(self) -> None:
        self.sentences: dict[str, str] = {}

    def mark(self, sentence: str) -> str:
        """Return the mark of a sentence, or an empty text for none."""
        if not sentence:
            return ""
        letter = self.sentences.setdefault(sentence, _letter(len(self.sentences)))
        return f"$^{{{letter}}}$"


def layout_table(
    layout: Layout,
    runs: Sequence[RunRecord],
    own: Sequence[MeasuredNumbers] = (),
    *,
    intervals: bool,
    examples: bool,
) -> str:
    """Return the float of a layout, with the numbers of runs and numbers of your own that no run holds.

    Raises:
        OptionError: no run has a task of the layout, or `own` has numbers, but none of its columns.
    """
    runs, left_out = _with_tasks(runs, layout)
    columns = dict.fromkeys(
        (group.about, measure.metric) for panel in layout.panels for group, measure in panel.columns
    )
    numbers = [one for file in own for one in file.numbers]
    if own and not any((one.part, one.metric) in columns for one in numbers):
        known: dict[str, list[str]] = {}
        for part, metric in columns:
            known.setdefault(part, []).append(metric)
        listed = "; ".join(f"{part} {', '.join(metrics)}" for part, metrics in known.items())
        raise OptionError(f"--measured has no number for {layout.name}; its columns (part and metrics) are {listed}")
    footnotes = Footnotes()
    rows = list(printed(layout.sources))
    pages: list[list[str]] = [[]]
    for panel in layout.panels:
        blocks = [block for block in _blocks(layout, panel, rows, runs, numbers, footnotes) if block.rows]
        lines = list(_tabular(layout, panel, blocks, intervals=intervals, examples=examples)) if blocks else []
        if pages[-1] and _height(pages[-1]) + _height(lines) > PAGE:
            pages.append([])
        pages[-1] += lines
    bracketed = intervals and any(BRACKETS in line for body in pages for line in body)
    notes = [*_notes(layout, runs, own, footnotes, bracketed), *left_out]
    if pages[-1] and _note_lines(notes) > FEW_NOTE_LINES and _height(pages[-1]) + _note_lines(notes) > PAGE:
        pages.append([])  # of notes alone
    made: list[str] = []
    for number, body in enumerate(pages, 1):
        caption, label = printable(layout.caption), layout.name
        if number > 1:
            caption, label = f"{caption} (continued)", f"{label}_{number}"
        below = notes if number == len(pages) else ["The notes are below the last part of this table."]
        made += floating(body, f"{caption}.", label, below)
    return "\n".join(made)


def _height(lines: Sequence[str]) -> int:
    """Return the number of rows."""
    return sum(line.endswith(r"\\") for line in lines)


def _note_lines(notes: Sequence[str]) -> int:
    """Return about how many lines notes take."""
    return sum(1 + len(note) // NOTE_LINE_CHARS for note in notes)


def _of_layout(run: RunRecord, layout: Layout) -> list[TaskRecord]:
    return [task for task in run.tasks if task.task in layout.tasks]


def _with_tasks(runs: Sequence[RunRecord], layout: Layout) -> tuple[list[RunRecord], list[str]]:
    """Return the runs that have tasks of a layout, and a note on the others.

    Raises:
        OptionError: none of them has, and the layout has tasks.
    """
    with_tasks = [run for run in runs if _of_layout(run, layout)]
    without_tasks = [name for name, run in zip(headings(runs), runs, strict=True) if not _of_layout(run, layout)]
    have = "have" if without_tasks[1:] else "has"
    lack = f"{', '.join(without_tasks)} {have} none of the tasks of {layout.name}"
    if runs and not with_tasks and layout.tasks:
        raise OptionError(f"{lack}; run `figeval run --tasks {','.join(layout.tasks)}`")
    return with_tasks, [f"Left out: {printable(lack)}."] if without_tasks else []


def _letter(place: int) -> str:
    return ascii_lowercase[place % 26] * (place // 26 + 1)


def _blocks(
    layout: Layout,
    panel: Panel,
    rows: Sequence[Published],
    runs: Sequence[RunRecord],
    numbers: Sequence[MeasuredNumber],
    footnotes: Footnotes,
) -> Iterator[Block]:
    """Yield the blocks of a panel: published numbers by source, those of runs and other ones, and of trivial models."""
    about = {(group.about, measure.metric) for group, measure in panel.columns}
    for source in layout.sources:
        known = {(one.about, one.metric, one.model): one for one in rows if one.source == source}
        models = dict.fromkeys(model for name, metric, model in known if (name, metric) in about)
        block = Block(f"Published: {source}")
        for model in models:
            cells = [_published(known, group, measure, model, footnotes) for group, measure in panel.columns]
            block.rows.append((model, cells))
        yield block
    measured, trivial = Block(MEASURED), Block("Trivial models")
    own = [run for run in runs if {task.task for task in run.tasks} & {group.task for group in panel.groups}]
    for name, run in zip(headings(own), own, strict=True):
        tasks = {task.task: task for task in _of_layout(run, layout)}
        measured.rows.append((name, [_measured(tasks.get(group.task), measure) for group, measure in panel.columns]))
        _add_trivial(trivial, name, tasks, panel)
    chosen: dict[tuple[str, Measure, str], MeasuredNumber] = {}
    for group, measure in panel.columns:
        own_numbers = [number for number in numbers if (number.part, number.metric) == (group.about, measure.metric)]
        chosen |= {(group.about, measure, number.model): number for number in own_numbers if measure.takes(number)}
    for model in dict.fromkeys(model for _, _, model in chosen):
        cells = [_own(chosen.get((group.about, measure, model)), measure) for group, measure in panel.columns]
        measured.rows.append((model, cells))
    yield measured
    yield trivial


def _published(
    known: Mapping[tuple[str, str, str], Published], group: Group, measure: Measure, model: str, footnotes: Footnotes
) -> Cell:
    one = known.get((group.about, measure.metric, model))
    return Cell() if one is None else Cell(measure.shown(one.value), footnotes.mark(one.doubt))


def _own(one: MeasuredNumber | None, measure: Measure) -> Cell:
    return Cell() if one is None else Cell(measure.shown(one.value), "", one.low, one.high, one.n)


def _measured(task: TaskRecord | None, measure: Measure) -> Cell:
    """Return what a run has in a column, which may be nothing."""
    if task is None:
        return Cell()
    if measure.metric == EXAMPLES:
        return Cell(measure.shown(task.available))
    return _of_score(_named(task.scores, measure.metric), measure)


def _of_score(score: ScoreRecord | None, measure: Measure) -> Cell:
    if score is None:
        return Cell()
    mark = SEEN[score.seen] if score.seen else ""
    return Cell(measure.shown(score.value), mark, score.low, score.high, score.n)


def _named(scores: Sequence[ScoreRecord], metric: str) -> ScoreRecord | None:
    return next((score for score in scores if score.metric == metric), None)


def _add_trivial(block: Block, run: str, tasks: Mapping[str, TaskRecord], panel: Panel) -> None:
    """Add the trivial models of a run; a model with the same numbers as in another run stands there once."""
    names = dict.fromkeys(one.baseline for task in tasks.values() for one in task.baselines)
    for name in names:
        cells = []
        for group, measure in panel.columns:
            task = tasks.get(group.task)
            scores = [one.scores for one in task.baselines if one.baseline == name] if task else []
            cells.append(_of_score(_named(scores[0], measure.metric) if scores else None, measure))
        if not any(cell.value for cell in cells):
            continue
        same = [row for row in block.rows if row[0] == name and _agree(row[1], cells)]
        if same:
            same[0][1][:] = [old if old.value else new for old, new in zip(same[0][1], cells, strict=True)]
        else:
            taken = any(row[0] == name for row in block.rows)
            block.rows.append((f"{name} (of {run})" if taken else name, cells))


def _agree(one: Sequence[Cell], other: Sequence[Cell]) -> bool:
    """Return whether two rows nowhere have different numbers, or numbers about different examples."""
    return all(
        a.value is None or b.value is None or (a.value, a.n) == (b.value, b.n) for a, b in zip(one, other, strict=True)
    )


def _tabular(
    layout: Layout, panel: Panel, blocks: Sequence[Block], *, intervals: bool, examples: bool
) -> Iterator[str]:
    columns = panel.columns
    cells = [[row[1][place] for block in blocks for row in block.rows] for place in range(len(columns))]
    shapes = [column([cell.value for cell in found], any(cell.mark for cell in found)) for found in cells]
    narrow = intervals and len(columns) >= WIDE
    if panel.title:
        yield rf"\par\medskip\emph{{{printable(panel.title)}}}\par"
    if narrow:
        yield r"\begingroup\setlength{\tabcolsep}{2pt}"
    yield rf"\begin{{tabular}}{{@{{}}l {' '.join(shapes)}@{{}}}}"
    yield r"\toprule"
    single = all(len(group.measures) == 1 and group.head for group in panel.groups)
    if single:  # one column per task: its name is the heading
        yield row([printable(layout.rows), *(f"{{{printable(group.head)}}}" for group in panel.groups)])
    else:
        yield from headed([(printable(group.head), len(group.measures)) for group in panel.groups])
        yield row([printable(layout.rows), *(f"{{{printable(measure.head)}}}" for _, measure in columns)])
    counts = [{cell.n for cell in found if cell.n is not None} for found in cells]
    once = examples and any(counts) and all(len(found) < 2 for found in counts)
    for block in blocks:
        yield r"\midrule"
        yield rf"\multicolumn{{{len(columns) + 1}}}{{@{{}}l}}{{\emph{{{printable(block.head)}}}}} \\"
        if once and block.head == MEASURED:
            yield row(["$n$", *(f"{{{next(iter(found), MISSING)}}}" for found in counts)])
        for name, found in block.rows:
            yield row([printable(name), *(figure(cell.value, cell.mark) for cell in found)])
            if intervals and any(cell.low is not None for cell in found):
                measures = [measure for _, measure in columns]
                ends = zip(found, measures, strict=True)
                yield row(["", *(between(cell.low, cell.high, one.percent, one.digits) for cell, one in ends)])
            if examples and not once and any(cell.n is not None for cell in found):
                yield row(["", *("{}" if cell.n is None else rf"{{\scriptsize $n={cell.n}$}}" for cell in found)])
    yield r"\bottomrule"
    yield r"\end{tabular}"
    if narrow:
        yield r"\endgroup"


def _notes(
    layout: Layout, runs: Sequence[RunRecord], own: Sequence[MeasuredNumbers], footnotes: Footnotes, intervals: bool
) -> Iterator[str]:
    """Yield the lines below the table."""
    yield from (f"$^{{{letter}}}$ {printable(sentence)}" for sentence, letter in footnotes.sentences.items())
    yield from map(prose, layout.notes)
    if layout.hint and not own and not runs:
        yield prose(layout.hint)
    tasks = {name: _of_layout(run, layout) for name, run in zip(headings(runs), runs, strict=True)}
    metrics = {measure.metric for panel in layout.panels for _, measure in panel.columns}
    scored = any(measure.metric != EXAMPLES for panel in layout.panels for _, measure in panel.columns)
    yield from (f"Measured: {printable(file.source)}." for file in own)
    if scored and any(tasks.values()):
        how = "; ".join(f"{name}: {', '.join(dict.fromkeys(one.route for one in own))}" for name, own in tasks.items())
        yield f"Measured: {printable(how)}."
    if intervals:
        yield r"In brackets the 95\,\% interval, over clusters if examples are not independent."
    yield from map(sentence, notes(runs, layout.tasks, metrics))
    seen = {score.seen for own in tasks.values() for task in own for score in task.scores}
    yield from (TOLD[role] for role in roles(runs) if role in seen)
