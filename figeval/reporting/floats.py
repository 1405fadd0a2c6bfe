r"""Floats of LaTeX, with captions and notes: tables that are wider or higher than a page are split or turned."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from figeval.errors import OptionError
from figeval.reporting.captions import check_caption
from figeval.reporting.tex import MISSING_CELL, foreign_letters, printable, sentence, table_row

PT_PER_UNIT = {"pt": 1.0, "in": 72.27, "cm": 28.45, "mm": 2.845}
ARTICLE_WIDTH_PT = 345.0  # a line of LaTeX's class article, the narrowest page with one column that is common
TWO_COLUMNS_WIDTH_PT = 455.0  # both columns of a page, e.g. of ACL's papers
TURNED_WIDTH_PT = 550.0  # the height of such a page
MAX_PAGE_ROWS = 42  # that fit on a page with caption and notes, in the type size of tables
MAX_TURNED_ROWS = 24
MAX_NOTE_LINES = 12  # of notes that fit below a full page
MAX_LETTERS = 20  # that a comment lists
NOTE_CHAR_PT = 4.2  # mean width of a letter of the notes
COLUMN_GAP_PT = 8.0  # twice \tabcolsep
FONT_PT = 9.0  # \small
SMALL_RATIO = 7 / 9  # \scriptsize beside it
BOLD_RATIO = 1.15
EM_BY_LETTER = {
    **dict.fromkeys("ijltfI.,:;'!|()[]{}` -", 0.36),
    **dict.fromkeys("mwMW%@&–—", 0.95),
    **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ+=<>", 0.74),
}
MEAN_EM = 0.54  # of all other letters
SIGN = re.compile(r"\\[a-zA-Z]+(?:\{\})?\s?|\\(?=\W)|[{}$^]")
LENGTH = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>pt|in|cm|mm)")
LABEL_PREFIX = "tab:"
EMPTY_CELLS = {"", "{}", "–", MISSING_CELL, f"{{{MISSING_CELL}}}"}


@dataclass(frozen=True, slots=True)
class FloatStyle:
    r"""The label, caption and width of a table's floats, as the author of a paper chooses them.

    Attributes:
        label: label, with or without `tab:`; by default that of the kind of table.
        caption: caption in LaTeX; by default one that names systems and tasks.
        is_wide: whether the floats span both columns of a page (`table*`).
        width: width of a line of text, e.g. "345pt" or "16cm"; by default that of the class article, or of ACL's pages.
    """

    label: str = ""
    caption: str = ""
    is_wide: bool = False
    width: str = ""

    @property
    def width_pt(self) -> float:
        """Width of a line of text in points. Raises `OptionError` if `width` is no length."""
        if not self.width:
            return TWO_COLUMNS_WIDTH_PT if self.is_wide else ARTICLE_WIDTH_PT
        length = LENGTH.fullmatch(self.width.strip())
        points = float(length["number"]) * PT_PER_UNIT[length["unit"]] if length else 0.0
        if points < FONT_PT:
            raise OptionError(f"width={self.width!r:.80} is no width of a page; write e.g. 345pt, 16cm or 6.5in")
        return points

    @property
    def printed_caption(self) -> str:
        """Return the caption without the full stop that the table puts behind it."""
        return self.caption.strip().removesuffix(".")

    def __post_init__(self) -> None:
        """Check the caption, which is LaTeX, and the label. Raises `OptionError`."""
        check_caption(self.printed_caption)
        if re.search(r"[^\w:.+/-]", self.label):
            raise OptionError(f"label={self.label!r:.80}: a label has letters, digits and : . + / - _ only")


@dataclass(frozen=True, slots=True)
class Tabular:
    """A table that can be split: by columns behind the first ones, which each part repeats, and by blocks of rows.

    Attributes:
        columns: what `tabular` says of each column, e.g. `l`.
        head: cells of the head.
        blocks: rows that stay together, each a list of cells.
        leading: number of columns that each part repeats.
    """

    columns: Sequence[str]
    head: Sequence[str]
    blocks: Sequence[Sequence[Sequence[str]]]
    leading: int

    def parts(self, width_pt: float) -> Iterator[list[str]]:
        """Yield the lines of each part, none of which is wider than this or higher than a page if that is possible.

        A part leaves out the columns in which it has no number.
        """
        for blocks in _split_rows(self.blocks):
            rows = [row for block in blocks for row in block]
            columns = [
                index
                for index in range(self.leading, len(self.head))
                if any(row[index] not in EMPTY_CELLS for row in rows)
            ]
            widths = {
                index: max(text_width(row[index]) for row in (self.head, *rows)) + COLUMN_GAP_PT
                for index in (*range(self.leading), *columns)
            }
            room = width_pt - sum(widths[index] for index in range(self.leading))
            for part in _split_columns({index: widths[index] for index in columns}, room):
                indices = [*range(self.leading), *part]
                yield [
                    rf"\begin{{tabular}}{{@{{}}{' '.join(self.columns[index] for index in indices)}@{{}}}}",
                    r"\toprule",
                    table_row(self.head[index] for index in indices),
                    r"\midrule",
                    *(table_row(row[index] for index in indices) for row in rows),
                    r"\bottomrule",
                    r"\end{tabular}",
                ]


def text_width(cell: str) -> float:
    r"""Return about how wide the text of a cell is in points, in the type size of tables."""
    is_bold = r"\bfseries" in cell
    normal, _, small = cell.partition(r"\scriptsize")
    ems = _text_ems(normal) * (BOLD_RATIO if is_bold else 1) + _text_ems(small) * SMALL_RATIO
    return ems * FONT_PT


def _text_ems(latex: str) -> float:
    return sum(EM_BY_LETTER.get(letter, MEAN_EM) for letter in SIGN.sub(_replace_sign, latex))


def _replace_sign(match: re.Match[str]) -> str:
    is_letter = match[0].startswith("\\") and len(match[0]) > 1 and not match[0].startswith((r"\bfseries", r"\script"))
    return "x" if is_letter else ""


def _split_columns(widths: Mapping[int, float], room: float) -> list[list[int]]:
    """Return the columns of each part: as few parts as possible, with about as many columns each if they fit."""
    parts: list[list[int]] = [[]]
    for index, width in widths.items():
        if parts[-1] and sum(widths[other] for other in parts[-1]) + width > room:
            parts.append([])
        parts[-1].append(index)
    columns, number = [*widths], len(parts)
    bounds = [part * len(columns) // number for part in range(number + 1)]
    even = [columns[start:end] for start, end in pairwise(bounds)]
    return even if all(sum(widths[index] for index in part) <= room for part in even) else parts


def _split_rows(blocks: Sequence[Sequence[Sequence[str]]]) -> Iterator[Sequence[Sequence[Sequence[str]]]]:
    start, height = 0, 0
    for index, block in enumerate(blocks):
        if height + len(block) >= MAX_PAGE_ROWS and index > start:
            yield blocks[start:index]
            start, height = index, 0
        height += len(block)
    yield blocks[start:]


def table_floats(
    parts: Sequence[Sequence[str]],
    caption: str,
    label: str,
    notes: Sequence[str],
    style: FloatStyle,
    *,
    is_turned: bool = False,
) -> Iterator[str]:
    """Yield the floats of a table.

    Args:
        parts: lines of its parts, each of which fits on a page; a page has as many as fit.
        caption: caption in LaTeX without a full stop, unless the style has one.
        label: label without `tab:`, unless the style has one.
        notes: paragraphs below the last part.
        style: choices of the author.
        is_turned: whether the pages are turned by 90 degrees.
    """
    environment = ("sidewaystable" if is_turned else "table") + "*" * style.is_wide
    width = TURNED_WIDTH_PT if is_turned else style.width_pt
    caption, label = style.printed_caption or caption, style.label.removeprefix(LABEL_PREFIX) or label
    pages = _fill_pages(parts, notes, width, MAX_TURNED_ROWS if is_turned else MAX_PAGE_ROWS)
    for number, page in enumerate(pages, 1):
        is_continued = number > 1
        has_numbers = any("S[" in line for line in page.lines)
        foreign = foreign_letters("".join((caption, *page.lines, *page.notes)))
        fonts = "{fontspec}" if foreign else "[T1]{fontenc}"
        packages = ["{booktabs}", *["{siunitx}"] * has_numbers, fonts, *["{rotating}"] * is_turned]
        yield from (rf"% \usepackage{package}" for package in packages)
        if foreign:
            yield rf"% needs LuaLaTeX or XeLaTeX, and a \setmainfont with these letters: {foreign[:MAX_LETTERS]}"
        yield rf"\begin{{{environment}}}"
        yield r"\centering\small"
        yield r"\setlength{\tabcolsep}{4pt}"
        yield r"\setlength{\belowcaptionskip}{6pt}"
        if has_numbers:
            yield r"\sisetup{detect-weight=true, mode=text, table-align-text-post=false}"
        yield rf"\caption{{{caption}{' (continued)' if is_continued else ''}.}}"
        yield rf"\label{{{LABEL_PREFIX}{label}{f'_{number}' if is_continued else ''}}}"
        yield from page.lines
        yield from notes_block(page.notes or ["The notes are below the last part of this table."] * bool(notes))
        yield rf"\end{{{environment}}}"
        yield ""


@dataclass(slots=True)
class Page:
    """Lines of the tables on a page, and the notes below them."""

    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _fill_pages(parts: Sequence[Sequence[str]], notes: Sequence[str], width_pt: float, max_rows: int) -> list[Page]:
    """Return the pages; notes that do not fit below the last part have pages of their own."""
    pages = [Page()]
    for lines in parts:
        if pages[-1].lines and _count_rows(pages[-1].lines) + _count_rows(lines) > max_rows:
            pages.append(Page())
        pages[-1].lines += [r"\par\medskip", *lines] if pages[-1].lines else lines
    sizes = [1 + int(len(note) * NOTE_CHAR_PT / width_pt) for note in notes]
    used = _count_rows(pages[-1].lines)
    if pages[-1].lines and sum(sizes) > MAX_NOTE_LINES and used + sum(sizes) > max_rows:
        pages.append(Page())
        used = 0
    for note, size in zip(notes, sizes, strict=True):
        if pages[-1].notes and sum(sizes) > MAX_NOTE_LINES and used + size > max_rows:
            pages.append(Page())
            used = 0
        pages[-1].notes.append(note)
        used += size
    return pages


def _count_rows(lines: Sequence[str]) -> int:
    """Return how many rows of a table are as high as the lines, rules and gaps included."""
    return sum(line.endswith(r"\\") + 2 * (line == r"\toprule") for line in lines)


def notes_block(notes: Sequence[str]) -> Iterator[str]:
    """Yield the notes below a table, each as a paragraph."""
    if notes:
        yield r"\par\smallskip"
        yield r"\parbox{\linewidth}{\raggedright\footnotesize"
        yield "\\par\n".join(notes)
        yield "}"


def text_floats(
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Collection[str],
    notes: Sequence[str],
    style: FloatStyle,
) -> str:
    """Return a table of texts as floats; the columns whose heads are in `right` are aligned to the right."""
    columns = ["r" if text in right else "l" for text in head]
    tabular = Tabular(columns, [*map(printable, head)], [[[*map(printable, row)]] for row in rows], 1)
    parts = [*tabular.parts(style.width_pt)]
    return "\n".join(table_floats(parts, printable(title).removesuffix("."), "figeval", [*map(sentence, notes)], style))
