"""Files of word vectors: GloVe's text format, and the text and the binary format of word2vec, which may be packed.

A text file has a word and its numbers in each line, separated by blanks. word2vec's formats begin with a line of two
numbers, those of words and of dimensions; in the binary one, a word, a blank and the vector as 32-bit floats follow
each other. A header is not trusted: memory grows with the vectors that the file has.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias

from figeval.data.text_files import CONTROL, HEAD_BYTES, inner_suffix, open_unpacked
from figeval.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = Iterator[tuple[str, NDArray[np.float32]]]

HEADER = re.compile(rb"(\d{1,12}) (\d{1,6})[ \t\r]*\n")
BINARY_SUFFIX = ".bin"
MAX_DIMENSIONS = 1 << 16
MAX_WORD_BYTES = 1 << 16
MAX_LINE_BYTES = 1 << 22
PIECE_BYTES = 1 << 22  # that are read at once
FIRST_ROWS = 64  # of the table, which grows by a half
INCOMPLETE = "it is incomplete; copy or download it again"


def read_vectors(path: Path) -> tuple[dict[str, int], NDArray[np.float32]]:
    """Return the row of every word, and the vectors, shape (words, d), float32.

    If a word is listed twice, the first vector counts. A word of a text file may contain blanks (GloVe 840B has some).

    Raises:
        DataError: the file is empty or incomplete, is in none of the formats, or has a number that is not finite.
    """
    import numpy as np

    row_of: dict[str, int] = {}
    table = np.empty((0, 0), dtype=np.float32)
    for word, vector in _vectors(path):
        row = len(row_of)
        if row_of.setdefault(word, row) < row:
            continue
        if row == len(table):
            table.resize((row + row // 2 or FIRST_ROWS, len(vector)), refcheck=False)
        table[row] = vector
    if not row_of:
        raise DataError(f"{path.name} contains no vectors; a line of a GloVe text file is a word and its numbers")
    table.resize((len(row_of), table.shape[1]), refcheck=False)
    finite = np.isfinite(table.sum(axis=1, dtype=np.float64))
    if not finite.all():
        word = list(row_of)[int(finite.argmin())]
        raise DataError(f"{path.name}: the vector of {word[:80]!r} has a number that is infinite or none; {INCOMPLETE}")
    return row_of, table


def _vectors(path: Path) -> Vectors:
    """Yield (word, vector) of a file in any of the formats."""
    with open_unpacked(path) as stream:
        head = stream.read(HEAD_BYTES)
    mark = len(BOM_UTF8) if head.startswith(BOM_UTF8) else 0  # of editors; it is no part of the first word
    header = HEADER.match(head, mark)
    is_named_binary = inner_suffix(path) == BINARY_SUFFIX
    if header is None and is_named_binary:
        raise DataError(
            f"{path.name} is not in word2vec's binary format, which begins with the numbers of words and dimensions; "
            "save the vectors as text"
        )
    count, size = map(int, header.groups()) if header else (0, 0)
    with open_unpacked(path) as stream:
        stream.read(mark)
        if header is None:
            yield from _text_vectors(stream, path.name, 1)
            return
        stream.readline(header.end())
        if is_named_binary or CONTROL.search(head, header.end()):
            yield from _binary_vectors(stream, path.name, count, size)
        else:
            yield from _announced(_text_vectors(stream, path.name, 2), path.name, count)


def _announced(vectors: Vectors, name: str, count: int) -> Vectors:
    """Yield the vectors of a text file. Raises `DataError` if it has some, but fewer than its header says."""
    number = 0
    for vector in vectors:
        number += 1
        yield vector
    if 0 < number < count:
        raise DataError(f"{name} has {number} of the {count} vectors that its first line announces; {INCOMPLETE}")


def _text_vectors(stream: IO[bytes], name: str, first_line: int) -> Vectors:
    """Yield (word, vector) of every line, read as bytes because some words contain line breaks of `str`."""
    import numpy as np

    size = 0
    for number, line in enumerate(iter(partial(stream.readline, MAX_LINE_BYTES), b""), first_line):
        try:
            fields = line.decode().rstrip().split(" ")
            size = size or len(fields) - 1
            if not 0 < size < len(fields) or size > MAX_DIMENSIONS:
                raise ValueError(f"{len(fields) - 1} numbers instead of {size or 'some'}")
            yield " ".join(fields[:-size]), np.array(fields[-size:], dtype=np.float32)
        except ValueError as error:  # includes UnicodeDecodeError
            raise DataError(f"{name} line {number}: not a word and its vector ({error})") from error


def _binary_vectors(stream: IO[bytes], name: str, count: int, size: int) -> Vectors:
    """Yield (word, vector) after the header; a word that is no UTF-8 is in no text, so how it is read does not matter.

    Raises:
        DataError: the file ends before the last vector or goes on after it, or has no vectors of this size.
    """
    import numpy as np

    if not 0 < size <= MAX_DIMENSIONS:
        raise DataError(f"{name}: the first line announces vectors of {size} dimensions; {INCOMPLETE}")
    data, start, vector_bytes = b"", 0, 4 * size
    for number in range(1, count + 1):
        blank = data.find(b" ", start)
        while blank < 0 or len(data) < blank + 1 + vector_bytes:
            piece = stream.read(PIECE_BYTES)
            if not piece:
                raise DataError(f"{name} ends within vector {number} of {count}; {INCOMPLETE}")
            data, start = data[start:] + piece, 0
            blank = data.find(b" ")
            if (len(data) if blank < 0 else blank) > MAX_WORD_BYTES:
                raise DataError(f"{name}: no word before vector {number}; the file is not in word2vec's binary format")
        word = data[start:blank].lstrip(b"\n").decode("utf-8", "replace")
        yield word, np.frombuffer(data, "<f4", size, blank + 1)
        start = blank + 1 + vector_bytes
    if (data[start:] + stream.read(1)).strip(b"\n"):
        raise DataError(f"{name} goes on after the {count} vectors that its first line announces; {INCOMPLETE}")
