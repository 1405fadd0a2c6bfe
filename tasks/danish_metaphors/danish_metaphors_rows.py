"""Reader of the Danish metaphors: `danish_metaphors:words` and `danish_metaphors:expressions`, in file order.

Rows have `id`, `expression`, `example` (maybe empty), `definition`, `cut` (`yes` if the file cuts the definition off),
`culture_specific` (`yes` if English has no such picture with this meaning), `domain`, `kind` and `cluster`. White space
in cells, such as no-break spaces and escaped line ends, is a single blank. Names of columns, groups and codes must be
those that the files have: anything else is an error that names sheet and row, so nothing is ever guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from figeval.data import DataContext, Row
from figeval.data.workbooks import numbered_sheet
from figeval.errors import DataError
from figeval.io.text import near

DEFINITION_CHARS = 50  # to which the files cut definitions
FIGURATIVE_MARKS = ("overført ", "(overført) ")  # the dictionary's remark before a definition


@dataclass(frozen=True, slots=True)
class Part:
    """One of the two workbooks.

    Attributes:
        file: its name.
        sheet: the sheet with the rows.
        header: number of the row that names the columns.
        columns: field of a row → name of the column.
        codes: field of a row → cell of its column → value.
        groups: cell of a row that only names a group → domain of the rows below it.
    """

    file: str
    sheet: str
    header: int
    columns: Mapping[str, str]
    codes: Mapping[str, Mapping[str, str]]
    groups: Mapping[str, str] = field(default_factory=dict)


PARTS = {
    "words": Part(
        file="DanishSingleWordMetaphors.xlsx",
        sheet="SingleWordMetaphors",
        header=1,
        columns={
            "number": "No.",
            "expression": "Related to the hard work of farming (incl reference to animals, handcraft, cultivating the "
            "land)",
            "example": "Corpus example",
            "definition": "Definition of metaphorical meaning (up to 50 characters)",
            "kind": "POS",
            "culture_specific": "Cultural-specific means it does not exist in English with exactly the same picture or "
            "the same meaning",
        },
        codes={
            "kind": {"Noun": "noun", "Verb": "verb", "Adj": "adjective", "Adv": "adverb"},
            "culture_specific": {"Cultural-specific": "yes", "": "no"},
        },
        groups={
            "Farming:": "farming",
            "Related to shipping:": "seafaring",
            "Mixed, maybe related to ’janteloven’": "modesty",
            "Misc": "other",
        },
    ),
    "expressions": Part(
        file="DanishFixedExpressions.xlsx",
        sheet="org_data_with_meta",
        header=2,
        columns={
            "number": "Rækkefølge",
            "expression": "Udtryk",
            "example": "Citat",
            "definition": "DDO-definition (op til 50 tegn)",
            "kind": "Overført/talemåde",
            "culture_specific": "Engelsk",
            "domain": "Emne",
        },
        codes={
            "kind": {"overført": "figurative", "ofø": "figurative", "talemåde": "saying", "": "unmarked"},
            "culture_specific": {"nej": "yes", "ja": "no"},
            "domain": {"lan": "farming", "søf": "seafaring", "": "other"},
        },
    ),
}


def open(path: str, context: DataContext) -> Iterator[Row]:
    """Return the rows of a part. Raises `DataError` if there is no such part, or a row has another form."""
    if path not in PARTS:
        raise DataError(f"danish_metaphors has no part {path!r:.40}{near(path, PARTS)}; it has {', '.join(PARTS)}")
    return _with_clusters(_metaphors(PARTS[path], path, context))


def _metaphors(part: Part, name: str, context: DataContext) -> Iterator[Row]:
    file = context.fetch("danish_metaphors", part.file)
    domain = ""
    for location, cells in numbered_sheet(file, part.sheet, part.header):
        texts = _read_cells(cells, part, location)
        if not texts["number"]:
            domain = _read_group(texts, part, location)
            continue
        missing = [part.columns[key] for key in ("expression", "definition") if not texts[key]]
        if missing or not texts["number"].isdecimal():
            problem = f"{missing[0]!r:.40} is empty" if missing else f"{texts['number']!r:.40} is no number of a row"
            raise DataError(f"{location}: {problem}")
        codes = {key: _decode(texts[key], codes, f"{location}, {key}") for key, codes in part.codes.items()}
        yield {
            "id": f"{name}-{texts['number']}",
            "location": location,
            "expression": texts["expression"],
            "example": texts["example"],
            "definition": _without_mark(texts["definition"]),
            "cut": "yes" if len(cells[part.columns["definition"]]) >= DEFINITION_CHARS else "no",
            "domain": domain,
            **codes,
        }


def _read_cells(cells: Row, part: Part, location: str) -> dict[str, str]:
    """Return the texts of the columns that are read. Raises `DataError` if a column is missing."""
    for column in part.columns.values():
        if column not in cells:
            raise DataError(f"{location}: there is no column {column!r:.80}{near(column, cells)}")
    return {key: " ".join(cells[column].split()) for key, column in part.columns.items()}


def _read_group(texts: Mapping[str, str], part: Part, location: str) -> str:
    """Return the domain that a row without a number begins. Raises `DataError` if it is no such row."""
    name = texts["expression"]
    if name not in part.groups or any(text for key, text in texts.items() if key != "expression"):
        raise DataError(f"{location}: a row without a number that names no group, but {name!r:.80}")
    return part.groups[name]


def _decode(text: str, codes: Mapping[str, str], location: str) -> str:
    if text not in codes:
        raise DataError(f"{location}: {text!r:.40} is none of {', '.join(map(repr, codes))}")
    return codes[text]


def _without_mark(definition: str) -> str:
    for mark in FIGURATIVE_MARKS:
        definition = definition.removeprefix(mark)
    return definition


def _with_clusters(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield the rows with `cluster`, the id of the first row with the same expression or the same definition."""
    clusters: dict[str, str] = {}
    for row in rows:
        shared = [clusters[row[key]] for key in ("expression", "definition") if row[key] in clusters]
        cluster = shared[0] if shared else row["id"]
        clusters |= {row["expression"]: cluster, row["definition"]: cluster}
        yield {**row, "cluster": cluster}
