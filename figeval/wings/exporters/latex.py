r"""LaTeX tables for a paper; each names the packages that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from figeval import OptionError, Registry, RunRecord
from figeval.records.reference import read_measured
from figeval.records.schema import SEEN_NOTES, ScoreRecord
from figeval.reporting.floats import FloatStyle, Tabular, table_floats
from figeval.reporting.tex import MISSING_CELL, SEEN_MARKS, escape, sentence
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
from figeval.wings.exporters.table_names import TableNames


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
    label: str = "",
    caption: str = "",
    names: Mapping[str, str] | None = None,
    wide: bool = False,
    width: str = "",
) -> str:
    """Return a table of all scores, or one in a layout: that of a paper's table, or `comparison`.

    The arguments are those of `figeval.wings.exporters.api.TableChoices`, and `layouts` those of all plugins.

    Raises:
        OptionError: the layout cannot be filled, or does not have these choices; TeX could not read the
            caption; a name is none of the runs.
        UnknownName: there is no such layout.
    """
    choices = [name for name, value in (("tasks", tasks), ("metrics", metrics)) if value]
    choices += ["against"] if against is not None else []
    if measured and layout in ("", COMPARISON):
        raise OptionError("--measured is for the tables of papers; add --layout NAME, e.g. --layout storal_table_8")
    style, table_names = FloatStyle(label, caption, wide, width), TableNames(dict(names or {}))
    files = list(read_measured(measured))
    runs = table_names.rename(runs, (number.model for file in files for number in file.numbers))
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
            style=style,
            names=table_names,
        )
    if choices:
        raise OptionError(f"{choices[0]} is for the layout {COMPARISON}; add --layout {COMPARISON}")
    if layout:
        assert layouts is not None
        table_layout = table_names.rename_layout(layouts.get(layout))
        files = [*map(table_names.rename_numbers, files)]
        return layout_table(table_layout, runs, files, style, intervals=intervals, examples=examples)
    if intervals or examples:
        raise OptionError("intervals and examples are for layouts; add --layout, e.g. --layout comparison")
    if not runs:
        raise OptionError("there is no run; name the folder of a run, or add --layout")
    return _every_score(runs, style, table_names)


def _every_score(runs: Sequence[RunRecord], style: FloatStyle, names: TableNames) -> str:
    """Return the floats with all scores, and one with the kinds of chosen options if a task has kinds."""
    lines = score_lines(runs)
    grid = score_table(runs, lines, CELLS).grid
    blocks: list[list[list[str]]] = []
    task = None
    for line, (_, _, *cells) in zip(names.rename_lines(lines), grid.rows, strict=True):
        if line.task != task:  # the rows of a task stay together, and its name is only in the first one
            blocks.append([])
        name = "" if line.task == task else escape(line.task)
        blocks[-1].append([name, escape(line.metric), *cells])
        task = line.task
    head = ["Task", "Metric", "$n$", *map(escape, grid.head[3:])]
    tabular = Tabular(["l", "l", *"r" * (len(head) - 2)], head, blocks, 3)
    notes = [*map(sentence, (*route_notes(runs), *table_notes(runs), *names.notes(line.task for line in lines)))]
    floats = [*table_floats([*tabular.parts(style.width_pt)], _caption(runs, lines), "figeval", notes, style)]
    options = option_table(runs, CELLS).grid
    if options.rows:
        caption = "Kinds of options that were chosen; expected are the shares of wrong answers drawn at random"
        heads = [head.capitalize() for head in options.head]
        tabular = Tabular([*"llrlrrr"], heads, [[[*row]] for row in options.rows], 4)
        label = f"{style.label or 'figeval'}-choices"
        style = replace(style, label=label, caption="")
        floats += table_floats([*tabular.parts(style.width_pt)], caption, label, [], style)
    return "\n".join(floats)


def _cell(score: ScoreRecord | None, n: int | None = None) -> str:
    r"""Return a cell: `0.183 {\scriptsize [0.058, 0.308]}`, or `0.183 $\pm$ 0.020 …` over seeds.

    The number of examples follows if it is smaller than that of the line.
    """
    value, spread, interval = _format_value(score), format_deviation(score), format_interval(score)
    if value is None:
        return MISSING_CELL
    if spread is not None:
        value = rf"{value} $\pm$ {spread}"
    value += SEEN_MARKS[score.seen] if score is not None and score.seen else ""
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
    marks = [f"{SEEN_MARKS[role]}: {SEEN_NOTES[role]}." for role in seen_roles(runs)]
    return "\n".join(
        [
            f"Scores of {models}{examples}, with trivial baselines;",
            r"in brackets the 95\,\% interval, over clusters if examples are not independent.",
            *([means] if any_score(runs, format_deviation) else ()),
            *(f"{escape(note)}." for note in sign_notes(runs)),
            *marks,
        ]
    ).removesuffix(".")
