"""Readers of the published files, which give pairs verbatim: nothing is stripped, unescaped or repaired.

There are four formats: tab-separated tables without quoting (a quotation mark is an ordinary character); a spreadsheet
whose cells hold a whole question; files that are aligned line by line; and SNLI's own JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from figeval.data.row_files import read_rows
from figeval.data.tables import table_records
from figeval.data.text_files import text_lines
from figeval.errors import DataError

LABELS = ("entailment", "neutral", "contradiction")
QUESTION = re.compile(
    r'For the statement, "(.*)", does the hypothesis "(.*)" represent entailment, contradiction, or neutrality\?',
    re.DOTALL,
)
BETWEEN = '", does the hypothesis "'  # separates premise and hypothesis, so it may occur only once


class PublishedPair(NamedTuple):
    """A pair as published; `number` counts the rows of its file from 1, and `columns` holds its other columns."""

    number: int
    premise: str
    hypothesis: str
    label: str
    columns: Mapping[str, str | None]


Reader = Callable[[Sequence[Path]], Iterator[PublishedPair]]
Record = Mapping[str, str]


def no_columns(_record: Record) -> Mapping[str, str | None]:
    return {}


@dataclass(frozen=True, slots=True)
class Table:
    """Reader of a table.

    Attributes:
        premise, hypothesis, label: names of the columns.
        columns: function that returns the further columns of a pair.
        header: names of the columns, for a file without a header.
        only: (column, value) that selects rows.
        labels: labels by the file's own names; other names are read in lower case.
    """

    premise: str
    hypothesis: str
    label: str
    columns: Callable[[Record], Mapping[str, str | None]] = no_columns
    header: tuple[str, ...] = ()
    only: tuple[str, str] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, paths: Sequence[Path]) -> Iterator[PublishedPair]:
        """Yield the pairs of one file. Raises `DataError`, with file and line, for an invalid row."""
        (path,) = paths
        for number, (line, record) in enumerate(plain_table(path, self.header), 1):
            if self.only is not None and record[self.only[0]] != self.only[1]:
                continue
            name = record[self.label]
            label = require_label(self.labels.get(name, name.lower()), f"{path}:{line}")
            yield PublishedPair(number, record[self.premise], record[self.hypothesis], label, self.columns(record))


def plain_table(path: Path, header: Sequence[str] = ()) -> Iterator[tuple[int, Record]]:
    """Yield (line, values by column) of a tab-separated table without quoting.

    The first line names the columns if `header` is empty.
    """
    names = list(header)
    for line, text in enumerate(text_lines(path), 1):
        values = text.rstrip("\r\n").split("\t")
        if not names:
            names = values
        elif len(values) != len(names):
            raise DataError(f"{path}:{line}: {len(values)} values for {len(names)} columns ({', '.join(names)})")
        else:
            yield line, dict(zip(names, values, strict=True))


def questions(paths: Sequence[Path]) -> Iterator[PublishedPair]:
    """Yield the pairs of the MultiNLI sample, in which both texts are part of a question.

    Its rows were drawn with repetition; each pair is yielded once, with the number of its first row.
    """
    (path,) = paths
    records = table_records(text_lines(path), str(path), "excel")
    next(records, None)  # the header
    seen = set()
    for number, (line, values) in enumerate(records, 1):
        match = QUESTION.fullmatch(values[0])
        if len(values) != 3 or match is None or values[0].count(BETWEEN) != 1:
            raise DataError(f"{path}:{line}: expected a question with premise and hypothesis, its answer and mnli")
        pair = PublishedPair(number, match.group(1), match.group(2), require_label(values[1], f"{path}:{line}"), {})
        if pair[1:4] not in seen:
            seen.add(pair[1:4])
            yield pair


def align_pairs(paths: Sequence[Path]) -> Iterator[PublishedPair]:
    """Yield the pairs of three files with premises, hypotheses and labels, aligned line by line."""
    columns = [[text.rstrip("\r\n") for text in text_lines(path)] for path in paths]
    if len({len(column) for column in columns}) > 1:
        counts = ", ".join(f"{path} {len(column):,}" for path, column in zip(paths, columns, strict=True))
        raise DataError(f"files that belong together have different numbers of lines: {counts}; fetch them again")
    for number, (premise, hypothesis, label) in enumerate(zip(*columns, strict=True), 1):
        yield PublishedPair(number, premise, hypothesis, require_label(label, f"{paths[-1]}:{number}"), {})


def snli_json(paths: Sequence[Path]) -> Iterator[PublishedPair]:
    """Yield the pairs of SNLI's own format, with one JSON object per line."""
    (path,) = paths
    for number, row in enumerate(read_rows(path), 1):
        match [row.get(key) for key in ("sentence1", "sentence2", "gold_label")]:
            case [str(premise), str(hypothesis), str(label)]:
                yield PublishedPair(number, premise, hypothesis, require_label(label, f"{path}:{number}"), {})
            case _:
                raise DataError(
                    f"{path}:{number}: sentence1, sentence2 and gold_label must be present and must be strings"
                )


def require_label(label: str, location: str) -> str:
    """Return a label unchanged. Raises `DataError` if it is unknown."""
    if label not in LABELS:
        raise DataError(f"{location}: {label!r} is not a label; it should be one of {', '.join(LABELS)}")
    return label


# ---- further columns of tables --------------------------------------------------------------------------------------

DIRECTION = re.compile(r"(?:^|:)(\w+)_monotone(?::|$)")
TAXONOMY = re.compile(r"(\w+)_(?:linguistic|logic|reasoning|knowledge)")


def sick_columns(record: Record) -> Mapping[str, str | None]:
    """Return the data set from which the first sentence was taken, as `genre`."""
    return {"genre": record["sentence_A_dataset"].lower()}


def med_columns(record: Record) -> Mapping[str, str | None]:
    """Return the source (crowd, paper) and the direction (upward, downward, non) of `crowd:downward_monotone:npi`."""
    direction = DIRECTION.search(record["genre"])
    return {
        "genre": record["genre"].partition(":")[0],
        "category": direction.group(1) if direction else None,
    }


def taxi_columns(record: Record) -> Mapping[str, str | None]:
    """Return the genre, and `yes` for each of the 15 categories that the pair needs; it may need several or none."""
    categories = ((TAXONOMY.fullmatch(column), value) for column, value in record.items())
    category_columns = {match.group(1): None if value == "0" else "yes" for match, value in categories if match}
    return {"genre": record["genre"], **category_columns}
