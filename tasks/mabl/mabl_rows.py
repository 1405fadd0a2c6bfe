"""Reader of MABL: `mabl:<language>` for one language, and `mabl:all` for the seven test languages in turn.

Two consecutive rows are a minimal pair: two starting phrases, usually with the same two endings, and with opposite
labels. Rows 2k and 2k + 1, counted from 0, are thus a pair, except in Swahili: rows 84 and 793 have no partner, and
between them the pairs are rows 2k + 1 and 2k + 2. The order of columns differs from file to file, so they are read by
the header. English is the development and training set of Fig-QA, not a test language.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, groupby, zip_longest

from figeval.data import DataContext, Row
from figeval.data.row_files import read_rows
from figeval.errors import DataError
from figeval.io.text import near

LANGUAGES = ("hi", "id", "jv", "kn", "su", "sw", "yo")  # the test languages
FILES = {**{language: language for language in LANGUAGES}, "en": "en_dev", "en_train": "en_train"}
LABELS = {"0": 0, "1": 1}
UNPAIRED = {"sw": frozenset({84, 793})}  # rows whose partner is not in the file


def open(path: str, context: DataContext) -> Iterator[Row]:
    """Yield the rows of a language. Raises `DataError` if there is no such language."""
    if path != "all" and path not in FILES:
        names = ["all", *FILES]
        raise DataError(f"mabl has no language {path!r:.40}{near(path, names)}; it has {', '.join(names)}")
    languages = [language_rows(name, context) for name in (LANGUAGES if path == "all" else (path,))]
    pairs = [groupby(rows, key=lambda row: row["pair"] or row["id"]) for rows in languages]
    # Pairs from each language in turn, so that with --limit all languages have equally many rows.
    for turn in zip_longest(*([list(rows) for _, rows in groups] for groups in pairs), fillvalue=()):
        yield from chain.from_iterable(turn)


def language_rows(name: str, context: DataContext) -> Iterator[Row]:
    """Return the rows of one language, in file order."""
    file = context.fetch("mabl", f"langdata/{FILES[name]}.csv")
    return paired_rows(list(read_rows(file, "csv")), name, str(file))


def paired_rows(table: Sequence[Row], name: str, file: str) -> Iterator[Row]:
    """Yield the rows of a table with their minimal pairs and clusters.

    `pair` is None for a row of `UNPAIRED`. `cluster` is shared by pairs that have a starting phrase or both endings in
    common: in Kannada, one phrase occurs in up to four pairs.

    Raises:
        DataError: a column or a partner is missing, a label is invalid, or the rows of a pair have the same label.
    """
    labels = [_label(row, number, file) for number, row in enumerate(table)]
    unpaired = UNPAIRED.get(name, frozenset()) & set(range(len(table)))
    paired = [number for number in range(len(table)) if number not in unpaired]
    if len(paired) % 2:
        raise DataError(f"mabl: {file}, row {paired[-1]}: it has no partner; two successive rows are a pair")
    pairs = list(zip(paired[::2], paired[1::2], strict=True))
    for left, right in pairs:
        if labels[left] == labels[right]:
            raise DataError(
                f"mabl: {file}, rows {left} and {right}, field 'labels': both are {labels[left]}; the rows of a "
                "minimal pair have opposite labels"
            )
    groups = [*((number,) for number in sorted(unpaired)), *pairs]
    first = {number: group[0] for group in groups for number in group}
    clusters = shared_texts(table, groups)
    for number, (row, gold) in enumerate(zip(table, labels, strict=True)):
        yield {
            "id": f"{name}-{number}",
            "language": name.removesuffix("_train"),
            "phrase": row["startphrase"],
            "endings": (row["ending1"], row["ending2"]),
            "gold": gold,
            "pair": None if number in unpaired else f"{name}-{first[number]}",
            "cluster": f"{name}-{clusters[first[number]]}",
        }


def _label(row: Row, number: int, file: str) -> int:
    """Return the index of the right ending. Raises `DataError` for a missing column or an invalid label."""
    location = f"mabl: {file}, row {number}"
    for column in ("startphrase", "ending1", "ending2", "labels"):
        if column not in row:
            raise DataError(f"{location}: there is no column {column!r}; the header has {', '.join(row)}")
    if row["labels"] not in LABELS:
        raise DataError(f"{location}, field 'labels': {row['labels']!r:.40} is neither 0 nor 1")
    return LABELS[row["labels"]]


def shared_texts(table: Sequence[Row], groups: Sequence[Sequence[int]]) -> dict[int, int]:
    """Map the first row of each group to the first row of all groups that it is connected with.

    Groups are connected by a common starting phrase or a common choice of endings.
    """
    from scipy.cluster.hierarchy import DisjointSet

    connected = DisjointSet([group[0] for group in groups])
    seen: dict[object, int] = {}
    for group in groups:
        for row in (table[number] for number in group):
            endings = frozenset((_normalize(row["ending1"]), _normalize(row["ending2"])))
            for text in (_normalize(row["startphrase"]), endings):
                connected.merge(group[0], seen.setdefault(text, group[0]))
    return {group[0]: min(connected.subset(group[0])) for group in groups}


def _normalize(text: str) -> str:
    """Return a text with normalised case and white space, keeping the vowel signs of Indian scripts (not letters)."""
    return " ".join(text.casefold().split())
