r"""A LaTeX table for a paper, which needs only booktabs (`\usepackage{booktabs}`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from figeval.records.schema import SEEN_NOTES, Role, RunRecord, ScoreRecord
from figeval.text import one_line

from .side_by_side import (
    Line,
    any_score,
    asked,
    baseline_names,
    bounds,
    deviation,
    headings,
    kind_lines,
    lines,
    notes,
    number,
    of_contrasts,
    roles,
)

MISSING = "--"
MARKS: dict[Role | None, str] = {"trained": r"$^\ddagger$", "chosen": r"$^\dagger$", None: ""}
SPECIAL = {
    **{letter: rf"\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}


def export(runs: Sequence[RunRecord]) -> str:
    """Return a float with caption and label; routes and warnings are comments above it."""
    table = lines(runs)
    trivial = baseline_names(table)
    head = ["Task", "Metric", "$n$", *map(escape, trivial), *map(escape, headings(runs))]
    return "\n".join(
        [
            *(f"% {one_line(note)}" for note in notes(runs)),
            r"\begin{table}",
            r"\centering",
            rf"\begin{{tabular}}{{ll{'r' * (len(head) - 2)}}}",
            r"\toprule",
            row(head),
            r"\midrule",
            *_body(table, trivial, len(runs)),
            r"\bottomrule",
            r"\end{tabular}",
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
                *(cell(line.scores.get(place)) for place in range(runs)),
            ]
        )
        before = line.task


def row(cells: Iterable[str]) -> str:
    r"""Return one line of the table. Braces before `[` and `*` keep them from being an argument of the `\\` before."""
    line = " & ".join(cells)
    return rf"{'{}' if line.startswith(('[', '*')) else ''}{line} \\"


def cell(score: ScoreRecord | None) -> str:
    r"""Return a cell: `0.183 {\scriptsize [0.058, 0.308]}`, or `0.183 $\pm$ 0.020 …` over seeds."""
    value, spread, interval = figure(score), deviation(score), bounds(score)
    if value is None:
        return MISSING
    if spread is not None:
        value = rf"{value} $\pm$ {spread}"
    value += MARKS[score.seen if score is not None else None]
    return value if interval is None else rf"{value} {{\scriptsize {minus(interval)}}}"


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
            *(f"{escape(note)}." for note in asked(runs)),
            *(f"{escape(remark)}.".replace("×", r"$\times$") for remark in of_contrasts(runs)),
            *marks,
        ]
    )


def escape(text: str) -> str:
    """Return a text on one line in which nothing is a command or a ligature of hyphens."""
    return "".join(SPECIAL.get(letter, letter) for letter in one_line(text)).replace("--", "-{}-")
