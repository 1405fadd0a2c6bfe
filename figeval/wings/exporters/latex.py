r"""A LaTeX table for a paper, which needs only booktabs (`\usepackage{booktabs}`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from figeval import OptionError, Registry, RunRecord
from figeval.records.reference import read_measured
from figeval.records.schema import SEEN_NOTES, Role, ScoreRecord
from figeval.wings.exporters.comparison_table import comparison_table
from figeval.wings.exporters.layout_table import layout_table
from figeval.wings.exporters.layouts import COMPARISON, TableLayout
from figeval.wings.exporters.score_table import (
    CellFormat,
    ScoreLine,
    any_score,
    format_deviation,
    format_interval,
    format_value,
    headings,
    option_table,
    route_notes,
    score_lines,
    score_table,
    seen_roles,
    sign_notes,
    table_notes,
)
from figeval.wings.exporters.tex import MISSING_CELL, escape, notes_block, sentence, table_row

MARKS: dict[Role | None, str] = {"trained": r"$^\ddagger$", "chosen": r"$^\dagger$", None: ""}


def export(  # noqa: PLR0913 - one argument per choice of the user
    runs: Sequence[RunRecord],
    *,
    layouts: Registry[TableLayout] | None = None,
    compare: Callable[..., Any] | None = None,
    layout: str = "",
    tasks: Sequence[str] = (),
    metrics: Sequence[str] = (),
    against: int | None = None,
    intervals: bool = False,
    examples: bool = False,
    measured: Sequence[Path] = (),
) -> str:
    """Return a table of all scores, or one in a layout: that of a paper's table, or `comparison`.

    Args:
        runs: the runs.
        layouts: the layouts of all plugins.
        compare: function that compares the runs (`figeval.wings.exporters.api`).
        layout: name of the layout.
        tasks: tasks of the layout `comparison`, in this order.
        metrics: metrics of the layout `comparison`, in this order; by default the first one of each task.
        against: place of the run that others are compared with in the layout `comparison`; by default the best.
        intervals: whether a layout has intervals.
        examples: whether a layout has numbers of examples.
        measured: files with further numbers for the layout of a paper's table (`figeval.records.reference`).

    Raises:
        OptionError: the layout cannot be filled, or does not have these choices.
        UnknownName: there is no such layout.
    """
    choices = [name for name, value in (("tasks", tasks), ("metrics", metrics)) if value]
    choices += ["against"] if against is not None else []
    if measured and layout in ("", COMPARISON):
        raise OptionError("--measured is for the tables of papers; add --layout NAME, e.g. --layout storal_table_8")
    if layout == COMPARISON:
        assert compare is not None
        return comparison_table(
            runs,
            compare,
            tasks=[tasks] if isinstance(tasks, str) else tasks,
            metrics=[metrics] if isinstance(metrics, str) else metrics,
            against=against,
            intervals=intervals,
            examples=examples,
        )
    if choices:
        raise OptionError(f"{choices[0]} is for the layout {COMPARISON}; add --layout {COMPARISON}")
    if layout:
        assert layouts is not None
        files = list(read_measured(measured))
        return layout_table(layouts.get(layout), runs, files, intervals=intervals, examples=examples)
    if intervals or examples:
        raise OptionError("intervals and examples are for layouts; add --layout, e.g. --layout comparison")
    if not runs:
        raise OptionError("there is no run; name the folder of a run, or add --layout")
    return _every_score(runs)


def _every_score(runs: Sequence[RunRecord]) -> str:
    """Return the float with all scores, and one with the kinds of chosen options if a task has kinds."""
    lines = score_lines(runs)
    grid = score_table(runs, lines, CELLS).grid
    head = ["Task", "Metric", "$n$", *map(escape, grid.head[3:])]
    # A task's name is only in its first line.
    rows = [
        ("" if index and row[0] == grid.rows[index - 1][0] else row[0], *row[1:]) for index, row in enumerate(grid.rows)
    ]
    notes = map(sentence, (*route_notes(runs), *table_notes(runs)))
    floats = [*_float(f"ll{'r' * (len(head) - 2)}", [head, *rows], notes, _caption(runs, lines), "figeval")]
    options = option_table(runs, CELLS).grid
    if options.rows:
        caption = "Kinds of options that were chosen; expected are the shares of wrong answers drawn at random."
        heads = [head.capitalize() for head in options.head]
        floats += _float("llrlrrr", [heads, *options.rows], (), caption, "figeval-choices")
    return "\n".join(floats)


def _float(
    columns: str, rows: Sequence[Sequence[str]], notes: Iterable[str], caption: str, label: str
) -> Iterator[str]:
    yield from (r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{columns}}}", r"\toprule")
    yield from (table_row(rows[0]), r"\midrule", *map(table_row, rows[1:]))
    yield from (r"\bottomrule", r"\end{tabular}", *notes_block(notes))
    yield from (rf"\caption{{{caption}}}", rf"\label{{tab:{label}}}", r"\end{table}", "")


def _cell(score: ScoreRecord | None, n: int | None = None) -> str:
    r"""Return a cell: `0.183 {\scriptsize [0.058, 0.308]}`, or `0.183 $\pm$ 0.020 …` over seeds.

    The number of examples follows if it is smaller than that of the line.
    """
    value, spread, interval = _format_value(score), format_deviation(score), format_interval(score)
    if value is None:
        return MISSING_CELL
    if spread is not None:
        value = rf"{value} $\pm$ {spread}"
    value += MARKS[score.seen if score is not None else None]
    small = [*([] if interval is None else [_with_minus(interval)]), *([] if n is None else [f"($n = {n}$)"])]
    return rf"{value} {{\scriptsize {' '.join(small)}}}" if small else value


def _format_value(score: ScoreRecord | None) -> str | None:
    text = format_value(score)
    return None if text is None else _with_minus(text)


CELLS = CellFormat(text=escape, value=lambda score: _format_value(score) or MISSING_CELL, score=_cell)


def _with_minus(text: str) -> str:
    return text.replace("-", "$-$")


def _caption(runs: Sequence[RunRecord], lines: Sequence[ScoreLine]) -> str:
    """Return the caption: models and conditions, number of examples, and the meaning of the brackets."""
    models = ", ".join(map(escape, headings(runs)))
    sizes = sorted({line.n for line in lines if not line.unit})
    counts = "" if not sizes else f"$n = {sizes[0]}$" if len(sizes) == 1 else f"$n = {sizes[0]}$ to ${sizes[-1]}$"
    examples = f" on {counts} examples" if counts else ""
    means = r"$\pm$ is the standard deviation over seeds, whose intervals are over seeds and examples."
    marks = [f"{MARKS[role]}: {SEEN_NOTES[role]}." for role in seen_roles(runs)]
    return "\n".join(
        [
            f"Scores of {models}{examples}, with trivial baselines;",
            r"in brackets the 95\,\% interval, over clusters if examples are not independent.",
            *([means] if any_score(runs, format_deviation) else ()),
            *(f"{escape(note)}." for note in sign_notes(runs)),
            *marks,
        ]
    )
