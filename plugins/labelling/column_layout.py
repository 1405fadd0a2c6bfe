"""Find the columns of a file with a word per line: their separator, and which hold the word and its tag.

A file with two columns has words and tags. Of more columns, the task says which are meant (`conll:FILE?word=2&tag=4`),
or the file does: by its line `# global.columns = ID FORM …` (CoNLL-U Plus, .cupt), or because exactly one column holds
tags of the forms `O`, `B-KIND` and so on. Otherwise the question is asked, and nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from urllib.parse import parse_qsl

from figeval.data.text_files import ends_in_carriage_returns, text_head, text_lines
from figeval.errors import DataError
from figeval.io.text import near, one_line, whole_number

DOCUMENT = "-DOCSTART-"
COLUMN_NAMES = re.compile(r"#\s*global\.columns\s*=\s*(\S.*)")
COMMENT = re.compile(r"#(\s*$|\s*[^\s=:]+\s*[=:]|\s*(newdoc|newpar)\b|\s*(begin|end) document\b)")
TAG = re.compile(r"O|[BIESLUM]|[BIESLUM]-\S+|\S+-[BIESLUM]")
EXPRESSIONS = "PARSEME:MWE"  # the column of .cupt with the codes of expressions
CODES = re.compile(r"[*_]|\d+(:[^\s;:]+)?(;\d+(:[^\s;:]+)?)*")
TOKEN_ID = re.compile(r"(\d+)([-.]\d+)?")  # CoNLL-U also numbers surface words (1-2) and words that are not there (1.1)
Columns = list[str]


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """The columns of a file, counted from 0.

    Attributes:
        tabs: whether tabs separate the columns; otherwise any blanks do.
        width: number of columns.
        word: column of the word.
        tag: column of its tag.
        has_ids: whether the first column numbers the words of a sentence.
        has_codes: whether the tags are codes of expressions, as in .cupt.
    """

    tabs: bool
    width: int
    word: int = 0
    tag: int = 1
    has_ids: bool = False
    has_codes: bool = False

    def split(self, line: str) -> Columns:
        """Return the columns of a line, those between tabs with their blanks."""
        return line.rstrip("\r\n").split("\t") if self.tabs else line.split()

    def columns(self, line: str, location: str) -> Columns:
        """Return the columns of a line. Raises `DataError` if there are more or fewer than in the first line."""
        columns = self.split(line)
        if len(columns) != self.width:
            raise self.error(line, location)
        return columns

    def error(self, line: str, location: str) -> DataError:
        row = "a word and its tag" if self.width == 2 else f"a row of {self.width} columns, as the first one is"
        separation = "by one tab" if self.tabs else "by blanks"
        return DataError(f"{location}: {line.rstrip()!r:.80} is not {row}, separated {separation}")

    def is_comment(self, line: str) -> bool:
        """Return whether a line that begins with `#` is a comment, and not a word such as `#` or `#moon`."""
        if not line.startswith("#"):
            return False
        columns = self.split(line)
        if self.has_ids or (self.tabs and line[1:2] == " " and len(columns[0].split()) > 1):
            return True
        fits = len(columns) == self.width
        if self.tabs:
            return not fits and COMMENT.match(line) is not None
        return COMMENT.match(line) is not None or (columns[0] == "#" and not fits)


def lines_of(file: Traversable) -> Iterator[tuple[int, str]]:
    """Yield (number, line) of a file. Raises `DataError` if it cannot be read."""
    return enumerate(text_lines(file, any_end=ends_in_carriage_returns(text_head(file))), start=1)


def is_document(line: str) -> bool:
    """Return whether a line marks the beginning of a document, whatever its other columns are."""
    return line.startswith(DOCUMENT) and line.split()[0] == DOCUMENT


def find_layout(file: Traversable, declared: str = "") -> ColumnLayout:
    """Return the layout of a file.

    Args:
        file: the file, of which everything is read if the columns must be told apart by their content.
        declared: the task's choice, such as `word=2&tag=4`, with numbers from 1 or names of `# global.columns`.

    Raises:
        DataError: the declaration is wrong, or it is needed and missing.
    """
    names, first = _beginning(file)
    tabs = "\t" in first
    layout = ColumnLayout(tabs, len(first.split("\t") if tabs else first.split()), has_ids="ID" in names[:1])
    choice = _declaration(declared, names, layout.width, file)
    if layout.width <= 2 and not choice:
        return ColumnLayout(tabs, 2)
    content = _Content(layout.width)
    for number, line in lines_of(file):
        if line.strip() and not is_document(line) and not layout.is_comment(line):
            content.add(layout.columns(line, f"{file}:{number}"))
    has_ids = layout.has_ids or content.has_ids
    word = choice.get("word", names.index("FORM") if "FORM" in names else int(has_ids))
    tags = [names.index(EXPRESSIONS)] if EXPRESSIONS in names else content.tags - {word, *range(int(has_ids))}
    if "tag" not in choice and len(tags) != 1:
        raise _question(file, layout.split(first), word + 1, sorted(number + 1 for number in tags))
    tag = choice["tag"] if "tag" in choice else min(tags)
    return ColumnLayout(
        tabs, layout.width, word, tag, has_ids, tag in content.codes or names[tag:][:1] == [EXPRESSIONS]
    )


def _beginning(file: Traversable) -> tuple[Columns, str]:
    """Return the names of the columns, if the file has them, and its first line with a word."""
    names: Columns = []
    for _, line in lines_of(file):
        if match := COLUMN_NAMES.match(line):
            names = match[1].split()
        elif line.strip() and not is_document(line) and not ColumnLayout("\t" in line, 2).is_comment(line):
            return names, line.rstrip("\r\n")
    return names, "\t"


def _declaration(declared: str, names: Columns, width: int, file: Traversable) -> Mapping[str, int]:
    """Return the declared columns, counted from 0."""
    choice = {}
    for key, value in parse_qsl(declared, keep_blank_values=True):
        number = names.index(value) if value in names else (whole_number(value) or 0) - 1
        if key not in ("word", "tag"):
            raise DataError(f"{file}: the columns that can be named are word and tag, not {key!r:.40}")
        if not 0 <= number < width:
            columns = f"; its columns are {', '.join(names)}{near(value, names)}" if names else ""
            raise DataError(f"{file}: {key}={value:.40} is none of its {width} columns, counted from 1{columns}")
        choice[key] = number
    if declared and not choice:
        raise DataError(f"{file}: {declared!r:.80} names no column; write word=1&tag=4")
    return choice


def _question(file: Traversable, first: Columns, word: int, tags: list[int]) -> DataError:
    row = one_line(" | ".join(first), 120)
    answer = f"{', '.join(map(str, tags[:-1]))} and {tags[-1]} hold tags" if tags else "none surely holds the tags"
    columns = f"{file.name}?word={word}&tag={tags[-1] if tags else len(first)}"
    return DataError(
        f"{file}: of its {len(first)} columns ({row}), {answer}; name the columns of the word and of its tag, counted "
        f"from 1, behind the name of the file, such as {columns}"
    )


class _Content:
    """The columns that may hold tags, codes or numbers of words, judged by all of their values."""

    def __init__(self, width: int) -> None:
        self.tags = self._codes = set(range(width))
        self.has_ids = True
        self._starred: set[int] = set()

    def add(self, columns: Columns) -> None:
        """Take in a row; columns that it lacks are no tags."""
        self.has_ids = self.has_ids and TOKEN_ID.fullmatch(columns[0]) is not None
        self.tags = _keep_fitting(self.tags, columns, TAG.fullmatch)
        self._codes = _keep_fitting(self._codes, columns, CODES.fullmatch)
        self._starred |= {number for number in self._codes if columns[number] == "*"}

    @property
    def codes(self) -> set[int]:
        """Indexes of columns with codes of expressions; numbers alone may be labels."""
        return self._codes & self._starred


def _keep_fitting(numbers: set[int], columns: Columns, fits: Callable[[str], object]) -> set[int]:
    return {number for number in numbers if number < len(columns) and fits(columns[number].strip())}
