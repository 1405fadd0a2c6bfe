r"""Pieces of LaTeX: text in which nothing is a command, and lines of tables."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from figeval.io.text import one_line

MISSING_CELL = "--"
BRACKETS = r"{\scriptsize ["  # begins a cell with an interval
SPECIAL = {
    **{letter: rf"\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "→": r"$\rightarrow$",
    "↛": r"$\not\rightarrow$",
    "−": "$-$",
    "×": r"$\times$",
    "²": r"\textsuperscript{2}",
    "κ": r"$\kappa$",
    "…": r"\ldots{}",
}
CODE = re.compile("`([^`]*)`")
NUMBER = re.compile(r"-?(?P<integer>\d*)\.?(?P<decimals>\d*)(?:e-?(?P<exponent>\d+))?")
LAST_LETTER = "\u017f"  # pdfLaTeX's fonts have the letters up to here, and these marks
MARKS = "–—‘’“”"
# Behind scores on examples that the model was trained or chosen on. In comparisons, a dagger is for significance.
SEEN_MARKS = {"trained": r"$^{\S}$", "chosen": r"$^{\P}$"}
SEEN_SENTENCES = {
    "trained": r"$\S$ The model was trained on some of these examples.",
    "chosen": r"$\P$ The model was chosen on some of these examples; the score is a maximum.",
}


def escape(text: str) -> str:
    """Return a text on one line in which nothing is a command or a ligature of hyphens."""
    return "".join(SPECIAL.get(letter, letter) for letter in one_line(text)).replace("--", "-{}-")


def foreign_letters(text: str) -> str:
    """Return the letters of a text that pdfLaTeX's fonts lack, each once."""
    return "".join(dict.fromkeys(letter for letter in text if letter > LAST_LETTER and letter not in MARKS))


def printable(text: str) -> str:
    """Return an escaped text without letters that pdfLaTeX's fonts lack; their code points replace them."""
    composed = unicodedata.normalize("NFC", one_line(text))
    letters = (
        letter if letter <= LAST_LETTER or letter in MARKS or letter in SPECIAL else f"[U+{ord(letter):04X}]"
        for letter in composed
    )
    return escape("".join(letters)).replace("\\textquotedbl{}", "''")


def sentence(note: str) -> str:
    """Return a note that ends with a full stop."""
    return f"{printable(note).removesuffix('.')}."


def prose(text: str) -> str:
    """Return a sentence in which words between backticks are set as code."""
    return CODE.sub(r"\\texttt{\1}", printable(text))


def table_row(cells: Iterable[str]) -> str:
    r"""Return one line of the table. Braces before `[` and `*` keep them from being an argument of the `\\` before."""
    line = " & ".join(cells)
    return rf"{'{}' if line.startswith(('[', '*')) else ''}{line} \\"


def number_cell(value: str | None, after: str = "", *, bold: bool = False) -> str:
    """Return a cell of an `S` column: a number with what follows it, or two hyphens if there is none."""
    if value is None:
        return f"{{{MISSING_CELL}{after}}}"
    return (r"\bfseries " if bold else "") + value + (f"{{{after}}}" if after else "")


def interval_cell(
    low: float | None, high: float | None, percent: bool = False, digits: int = 3, *, reliable: bool = True
) -> str:
    """Return an interval as a small cell, marked if it is unreliable, or an empty one."""
    if low is None or high is None:
        return "{}"
    bounds = (f"{bound * (100 if percent else 1):.{digits}f}".replace("-", "$-$") for bound in (low, high))
    return f"{BRACKETS}{', '.join(bounds)}]{'' if reliable else '*'}}}"


def number_column(values: Sequence[str | None], *, has_marks: bool) -> str:
    """Return an `S` column that is wide enough for these numbers, and for a mark behind them."""
    parts = [NUMBER.fullmatch(value) for value in values if value is not None]
    integers, decimals, exponents = (
        max((len(part[name] or "") for part in parts if part), default=0)
        for name in ("integer", "decimals", "exponent")
    )
    minus = "-" if any(value and value.startswith("-") for value in values) else ""
    exponent = f"e-{exponents}" if exponents else ""
    post = r", table-space-text-post={$^{a}$}" if has_marks else ""
    return f"S[table-format={minus}{max(1, integers)}.{decimals}{exponent}{post}]"


def group_headings(groups: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Yield a line with headings (text, columns) above several columns, behind the first column, and their rules."""
    if not any(head for head, _ in groups):
        return
    yield table_row(["", *(rf"\multicolumn{{{width}}}{{c}}{{{head}}}" for head, width in groups)])
    rules, first = [], 2
    for head, width in groups:
        if head and width > 1:
            rules.append(rf"\cmidrule(lr){{{first}-{first + width - 1}}}")
        first += width
    if rules:
        yield " ".join(rules)
