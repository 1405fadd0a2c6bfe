"""MultiNLI as a whole, from a user's copy: `mnli:train`, `mnli:matched` and `mnli:mismatched`.

The copy may be the authors' archive, unpacked (`multinli_1.0_train.jsonl` or `.txt`), GLUE's folder (`train.tsv`), or
an export of the hub's `nyu-mll/multi_nli` or `nyu-mll/glue` (Parquet, JSON Lines, CSV). Pairs without a gold label are
left out. The number of the others is checked and, since all layouts have them in the same order, makes their ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from figeval.data import DataContext, Row
from figeval.data.row_files import numbered_rows
from figeval.data.text_files import SUFFIXES, text_lines
from figeval.errors import DataError, MissingCopy
from figeval.io.text import near

from .parts import premise_key
from .published import LABELS, require_label

PAIRS = {"train": 392_702, "matched": 9_815, "mismatched": 9_832}  # with a gold label
SPLIT_FILES = {  # split → form of the path below the folder of a copy
    "train": re.compile(r"(?<![a-z])train(?![a-z])"),
    "matched": re.compile(r"(?=.*(?:dev|validation))(?!.*mismatched).*matched"),
    "mismatched": re.compile(r"(?=.*(?:dev|validation)).*mismatched"),
}
MULTINLI = re.compile(r"mnli|multi_?nli")  # in the path, if a folder has other corpora as well
SHARD = re.compile(r"-(\d{5})-of-(\d{5})|(?<=/)\d{4}(?=\.parquet)")
FORMATS = (".jsonl", ".tsv", ".txt", ".parquet", ".json", ".csv")  # the first of those that a copy has is read
COLUMNS = (("sentence1", "premise"), ("sentence2", "hypothesis"), ("gold_label", "label"))  # official, and the hub's
NUMBERS = dict(zip("012", LABELS, strict=True))
NO_LABEL = ("-", "-1")
LABEL_OF_ANNOTATOR = re.compile(r"label[1-5]")
CURE = "give the folder of your copy as --data mnli=FOLDER (its layouts are in tasks/nli/README.md)"


def open(path: str, context: DataContext) -> Iterator[Row]:
    """Yield the labelled pairs of a split.

    Raises:
        MissingCopy: no copy has the split.
        DataError: there is no such split, a row is broken, or pairs are missing.
    """
    if path not in PAIRS:
        raise DataError(f"mnli has no split {path!r}{near(path, PAIRS)}; it has {', '.join(PAIRS)}")
    folders = context.copies("mnli")
    files = next(filter(None, (split_files(folder, path) for folder in folders)), None)
    if files is None:
        raise MissingCopy(f"mnli: {path} was not found", CURE, folders)
    number = 0
    for number, (premise, hypothesis, label, genre) in enumerate(labelled_pairs(files), 1):
        columns = {"genre": genre} if isinstance(genre, str) else {}
        yield {
            "id": f"multinli/{path}:{number}",
            "premise": premise,
            "hypothesis": hypothesis,
            "label": label,
            "corpus": "mnli",
            "meta": {"corpus": "mnli", **columns, "premise": premise_key(premise)},
        }
    if number != PAIRS[path]:
        raise DataError(
            f"mnli: {', '.join(map(str, files))}: {number:,} labelled pairs, but {path} of MultiNLI has "
            f"{PAIRS[path]:,}; fetch it again, and {CURE}"
        )


# ---- the files of a copy ---------------------------------------------------------------------------------------------


def split_files(folder: Path, split: str) -> list[Path]:
    """Return the file of a split in a copy, or its shards in order; empty if there is none.

    Of several, the one whose path names MultiNLI is taken, then the least nested, then the first of `FORMATS`.

    Raises:
        DataError: a shard is missing.
    """

    def path_of(file: Path) -> str:
        return f"/{file.relative_to(folder).as_posix().lower()}"

    def rank(file: Path) -> tuple[bool, int, int, str]:
        path = path_of(file)
        return MULTINLI.search(path) is None, path.count("/"), FORMATS.index(suffix_of(file)), SHARD.sub("", path)

    files = (file for file in folder.rglob("*") if file.suffix and not file.name.startswith("."))
    candidates = [file for file in files if suffix_of(file) in FORMATS and SPLIT_FILES[split].search(path_of(file))]
    candidates.sort(key=lambda file: (rank(file), file.name))
    shards = list(next((group for _, group in groupby(candidates, rank)), ()))
    if shards and (shard := SHARD.search(path_of(shards[0]))) and shard[2] and int(shard[2]) != len(shards):
        raise DataError(f"mnli: {shards[0].parent} has {len(shards)} of {int(shard[2])} shards of {split}; {CURE}")
    return shards


def suffix_of(file: Path) -> str:
    """Return the suffix of a file's name without packing; the file is not opened."""
    return (file.with_suffix("") if file.suffix in SUFFIXES else file).suffix.lower()


def labelled_pairs(files: Iterable[Path]) -> Iterator[tuple[str, str, str, Any]]:
    """Yield premise, hypothesis, label and genre, if there is one, of the pairs with a gold label."""
    for location, row in chain.from_iterable(map(rows_of, files)):
        premise, hypothesis, label = (value_of(row, names, location) for names in COLUMNS)
        if label not in NO_LABEL:
            yield premise, hypothesis, require_label(NUMBERS.get(label, label), location), row.get("genre")


def value_of(row: Row, names: Sequence[str], location: str) -> str:
    """Return the text in the first of these columns that a row has; the hub's labels are numbers."""
    value = next((row[name] for name in names if name in row), None)
    if isinstance(value, str) or (type(value) is int and "label" in names):
        return str(value)
    raise DataError(f"{location}: there is no text in a column {' or '.join(names)}; {CURE}")


# ---- the rows of a file ----------------------------------------------------------------------------------------------


def rows_of(file: Path) -> Iterator[tuple[str, Row]]:
    """Yield (place, row) of a file in one of `FORMATS`."""
    suffix = suffix_of(file)
    if suffix in (".tsv", ".txt"):
        return unquoted_rows(file)
    return numbered_rows(file, suffix.removeprefix("."))


def unquoted_rows(file: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the rows of a table without quoting; the empty labels of annotators at the end of a row may be missing."""
    names: list[str] = []
    for line, text in enumerate(text_lines(file), 1):
        values = text.rstrip("\r\n").split("\t")
        if not names:
            names = values
            continue
        missing = names[len(values) :]
        if len(values) > len(names) or not all(map(LABEL_OF_ANNOTATOR.fullmatch, missing)):
            raise DataError(f"{file}:{line}: {len(values)} values for {len(names)} columns; fetch it again, and {CURE}")
        yield f"{file}:{line}", dict(zip(names, values, strict=False))
