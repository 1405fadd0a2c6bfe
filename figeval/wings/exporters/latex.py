r"""A LaTeX table for a paper, which needs only booktabs (`\usepackage{booktabs}`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from figeval.errors import OptionError
from figeval.records.measured import read_measured
from figeval.records.schema import SEEN_NOTES, Role, RunRecord, ScoreRecord
from figeval.registry import Registry
from figeval.wings.exporters.comparison_table import comparison_table
from figeval.wings.exporters.layout_table import layout_table
from figeval.wings.exporters.layouts import COMPARISON, Layout
from figeval.wings.exporters.side_by_side import (
    Line,
    any_score,
    baseline_names,
    bounds,
    deviation,
    headings,
    kind_lines,
    lines,
    notes,
    number,
    roles,
    routes,
    signs,
)
from figeval.wings.exporters.tex import MISSING, below, escape, row, sentence

MARKS: dict[Role | None, str] = {"trained": r"$^\ddagger$", "chosen": r"$^\dagger$", None: ""}


def export(  # noqa: PLR0913 - one argument per choice of the user
    runs: Sequence[RunRecord],
    *,
    layouts: Registry[Layout] | None = None,
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
        compare: see `figeval.wings.exporters.contract`.
        layout: name of the layout.
        tasks: tasks of the layout `comparison`, in this order.
        metrics: metrics of the layout `comparison`, in this order; by default the first one of each task.
        against: place of the run that others are compared with in the layout `comparison`; by default the best.
        intervals: whether a layout has intervals.
        examples: whether a layout has numbers of examples.
        measured: files with further numbers for the layout of a paper's table (`figeval.records.measured`).

    Raises:
        OptionError: the layout cannot be filled, or does not have these choices.
        UnknownName: there is no such layout.
    """
    chosen = [name for name, value in (("tasks", tasks), ("metrics", metrics)) if value]
    chosen += ["against"] if against is not None else []
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
    if chosen:
        raise OptionError(f"{chosen[0]} is for the layout {COMPARISON}; add --layout {COMPARISON}")
    if layout:
        assert layouts is not None
        own = list(read_measured(measured))
        return layout_table(layouts.get(layout), runs, own, intervals=intervals, examples=examples)
    if intervals or examples:
        raise OptionError("intervals and examples are for layouts; add --layout, e.g. --layout comparison")
    if not runs:
        raise OptionError("there is no run; name the folder of a run, or add --layout")
    return _every_score(runs)


def _every_score(runs: Sequence[RunRecord]) -> str:
    """Return a float with caption and label, and the notes below the numbers."""
    table = lines(runs)
    trivial = baseline_names(table)
    head = ["Task", "Metric", "$n$", *map(escape, trivial), *map(escape, headings(runs))]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\begin{{tabular}}{{ll{'r' * (len(head) - 2)}}}",
            r"\toprule",
            row(head),
            r"\midrule",
            *_body(table, trivial, len(runs)),
            r"\bottomrule",
            r"\end{tabular}",
            *below(sentence(note) for note in (*routes(runs), *notes(runs))),
            rf"\caption{{{caption(runs, table)}}}",
            r"\label{tab:figeval}",
            r"\end{table}",
            "",
            *_chosen(runs),
        ]
    )


def _chosen(runs: Sequence[RunRecord]) -> Iterable[str]:
    """Yield a second float with the kinds of chosen options, or nothing if no task has kinds."""
    found = kind_lines(runs)
    if not found:
        return
    yield from (r"\begin{table}", r"\centering", r"\begin{tabular}{llrlrrr}", r"\toprule")
    yield row(["Task", "Options", "Offered", "Model", "Chosen", "Of wrong answers", "Expected"])
    yield r"\midrule"
    for line in found:
        kind = line.kind
        expected = MISSING if line.expected is None else f"{line.expected:.3f}"
        about = (escape(line.task), escape(f"{line.key}: {kind.value}"), str(kind.offered), escape(line.model))
        yield row([*about, cell(kind.chosen), cell(kind.chosen_wrong), expected])
    yield from (r"\bottomrule", r"\end{tabular}")
    yield r"\caption{Kinds of options that were chosen; expected are the shares of wrong answers drawn at random.}"
    yield from (r"\label{tab:figeval-choices}", r"\end{table}", "")


def _body(table: Sequence[Line], trivial: Sequence[str], runs: int) -> Iterable[str]:
    """Yield the body of the table; a task's name is only in its first line."""
    before = None
    for line in table:
        yield row(
            [
                escape(line.task) if line.task != before else "",
                escape(line.metric),
                rf"{line.n} $\times$ {escape(line.unit)}" if line.unit else str(line.n),
                *(figure(line.baselines.get(name)) or MISSING for name in trivial),
                *(cell(line.scores.get(place), line.own_n(place)) for place in range(runs)),
            ]
        )
        before = line.task


def cell(score: ScoreRecord | None, n: int | None = None) -> str:
    r"""Return a cell: `0.183 {\scriptsize [0.058, 0.308]}`, or `0.183 $\pm$ 0.020 …` over seeds.

    The number of examples follows if it is smaller than that of the line.
    """
    value, spread, interval = figure(score), deviation(score), bounds(score)
    if value is None:
        return MISSING
    if spread is not None:
        value = rf"{value} $\pm$ {spread}"
    value += MARKS[score.seen if score is not None else None]
    small = [*([] if interval is None else [minus(interval)]), *([] if n is None else [f"($n = {n}$)"])]
    return rf"{value} {{\scriptsize {' '.join(small)}}}" if small else value


def figure(score: ScoreRecord | None) -> str | None:
    """Return the value in LaTeX, or None if there is none."""
    text = number(score)
    return None if text is None else minus(text)


def minus(text: str) -> str:
    """Return a text with a minus sign for each hyphen."""
    return text.replace("-", "$-$")


def caption(runs: Sequence[RunRecord], table: Sequence[Line]) -> str:
    """Return the caption: models and conditions, number of examples, and the meaning of the brackets."""
    models = ", ".join(map(escape, headings(runs)))
    sizes = sorted({line.n for line in table if not line.unit})
    counts = "" if not sizes else f"$n = {sizes[0]}$" if len(sizes) == 1 else f"$n = {sizes[0]}$ to ${sizes[-1]}$"
    examples = f" on {counts} examples" if counts else ""
    means = r"$\pm$ is the standard deviation over seeds, whose intervals are over seeds and examples."
    marks = [f"{MARKS[role]}: {SEEN_NOTES[role]}." for role in roles(runs)]
    return "\n".join(
        [
            f"Scores of {models}{examples}, with trivial baselines;",
            r"in brackets the 95\,\% interval, over clusters if examples are not independent.",
            *([means] if any_score(runs, deviation) else ()),
            *(f"{escape(note)}." for note in signs(runs)),
            *marks,
        ]
    )
