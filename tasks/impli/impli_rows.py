"""Reader of IMPLI: `impli:<column>` for the nine columns of the paper's Table 5, and `impli:all` for all 26,124 rows.

The files have no header and use the excel-tab dialect (344 rows are quoted); all but one are UTF-8. Texts are given as
published: the double encoding of 45 rows of `replacement_cc_e` and the damaged quotation marks of the SemEval files are
not repaired, so that figures stay comparable with other people's. Such rows, repeated rows and pairs with both labels
are flagged (`flaw`), and `impli:clean/<column>` leaves them out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path

from figeval.data import DataContext, Row
from figeval.data.tables import table_records
from figeval.data.text_files import text_lines
from figeval.errors import DataError
from figeval.io.text import near

from . import folds
from .idioms import Idiom, Lexicon

IDIOM_CORPORA = ("magpie", "pie", "semeval")
COLUMNS = {
    "idioms_silver_ent": tuple(f"idioms/fig_context_{corpus}_e" for corpus in IDIOM_CORPORA),
    "idioms_silver_lit": tuple(f"idioms/lit_context_{corpus}_ne" for corpus in IDIOM_CORPORA),
    "idioms_silver_adv": tuple(f"idioms/adversarial_definition_ne_{corpus}" for corpus in IDIOM_CORPORA),
    "idioms_gold_ent": ("idioms/manual_e",),
    "idioms_gold_ant": ("idioms/manual_antonyms_ne",),
    "idioms_gold_non": ("idioms/manual_ne",),
    "metaphors_silver_ent": ("metaphors/replacement_tsvetkov_e", "metaphors/replacement_cc_e"),
    "metaphors_gold_ent": ("metaphors/manual_e",),
    "metaphors_gold_non": ("metaphors/manual_ne",),
}
ENTAILING = frozenset(file for column, files in COLUMNS.items() if column.endswith("_ent") for file in files)
CLEAN, IDIOMS = "clean/", "idioms/"
PARTS = ("train", "dev", "seen", "unseen")
FLAWS = {"contradictory": "with both labels", "encoding": "with a damaged encoding", "repeated": "repeated"}
FILES = tuple(file for column in COLUMNS.values() for file in column)
CORPUS = re.compile(r"_(magpie|pie|semeval|tsvetkov|cc)(?:_|$)")
NO_LETTER = re.compile(r"[\W_]+")
ENCODINGS = {"metaphors/replacement_tsvetkov_e": "cp1252"}


def open(path: str, context: DataContext) -> Iterator[Row]:
    """Yield the rows of a column.

    The prefix `clean/` leaves out rows with a flaw and records their number in the notes. `idioms/train` and so on are
    parts of all idiom columns (`folds.py`).

    Raises:
        DataError: no column has that name.
    """
    if path.startswith(IDIOMS):
        yield from idiom_part(path.removeprefix(IDIOMS), context)
        return
    column = path.removeprefix(CLEAN)
    if column != "all" and column not in COLUMNS:
        names = [*COLUMNS, "all", *(f"{IDIOMS}{part}" for part in PARTS)]
        raise DataError(f"impli has no column {column!r}{near(column, names)}; it has {', '.join(names)}")
    columns = list(COLUMNS) if column == "all" else [column]
    rows = (row for name in columns for row in column_rows(name, context))
    if column == path:
        yield from rows
        return
    left_out: Counter[str] = Counter()
    total = 0
    for row in rows:
        total += 1
        if row["flaw"] is None:
            yield row
        else:
            left_out[row["flaw"]] += 1
    context.notes["left_out"] = dict(sorted(left_out.items()))
    kinds = ", ".join(f"{count:,} {FLAWS[flaw]}" for flaw, count in sorted(left_out.items()))
    context.notes["remark"] = (
        f"{total - left_out.total():,} of {total:,} pairs, without {kinds}"
        if kinds
        else f"all {total:,} pairs, without flaws"
    )


def idiom_part(part: str, context: DataContext) -> Iterator[Row]:
    """Yield the pairs of a part of the idioms (`folds.part`). Raises `DataError` if no part has that name."""
    if part not in PARTS:
        raise DataError(f"impli has no part {part!r} of its idioms{near(part, PARTS)}; it has {', '.join(PARTS)}")
    yield from folds.part(idiom_rows(context), part)


def idiom_rows(context: DataContext) -> Iterator[Row]:
    """Yield the pairs without a flaw of all idiom columns."""
    columns = (column for column in COLUMNS if column.startswith("idioms"))
    return (row for column in columns for row in column_rows(column, context) if row["flaw"] is None)


def column_rows(column: str, context: DataContext) -> Iterator[Row]:
    """Yield the rows of all files of a column; a pair that occurs in an earlier row of the column is `repeated`."""
    seen_pairs: set[tuple[str, str]] = set()
    contradictory = contradictory_pairs(*(fetch(file, context) for file in FILES))
    for file in COLUMNS[column]:
        for row in file_rows(file, column, context):
            pair = normalize_pair(row["premise"], row["hypothesis"])
            if pair in contradictory:
                flaw: str | None = "contradictory"
            elif pair in seen_pairs:
                flaw = "repeated"
            else:
                flaw = "encoding" if is_damaged(file, row["premise"] + row["hypothesis"]) else None
            seen_pairs.add(pair)
            yield {**row, "flaw": flaw}


def file_rows(file: str, column: str, context: DataContext) -> Iterator[Row]:
    """Yield the rows of one file of a column.

    `idiom`, `surface`, `idiom_start`, `idiom_end` and `idiom_confidence` are those of `Idiom`; all are None for
    metaphors and for unknown idioms.
    """
    figure = "idiom" if column.startswith("idioms") else "metaphor"
    path = fetch(file, context)
    source = CORPUS.search(file)
    shared = {
        "label": "entailment" if column.endswith("_ent") else "non-entailment",
        "corpus": source.group(1) if source else "manual",
        "figure": figure,
    }
    file_idioms = idioms(file, path) if figure == "idiom" else None
    for number, (premise, hypothesis) in enumerate(pairs(file, path), 1):
        idiom = file_idioms[number - 1] if file_idioms is not None else None
        yield {
            "id": f"{file}:{number}",
            "premise": premise,
            "hypothesis": hypothesis,
            "premise_key": premise_key(premise),
            **shared,
            "idiom": idiom and idiom.name,
            "surface": idiom and idiom.surface,
            "idiom_start": idiom and idiom.start,
            "idiom_end": idiom and idiom.end,
            "idiom_confidence": idiom and round(idiom.confidence, 2),
        }


def normalize_pair(premise: str, hypothesis: str) -> tuple[str, str]:
    """Return a pair with normalised white space; rows for which it is equal have the same pair."""
    return " ".join(premise.split()), " ".join(hypothesis.split())


@lru_cache(maxsize=1)
def contradictory_pairs(*paths: Path) -> frozenset[tuple[str, str]]:
    """Return the pairs with both labels, over all files, whose paths are in the order of `FILES`."""
    labelled: dict[bool, set[tuple[str, str]]] = {True: set(), False: set()}
    for file, path in zip(FILES, paths, strict=True):
        labelled[file in ENTAILING].update(normalize_pair(*pair) for pair in pairs(file, path))
    return frozenset(labelled[True] & labelled[False])


def is_damaged(file: str, text: str) -> bool:
    """Return whether a text was decoded with another encoding than it was written in.

    In the SemEval files, every text beyond ASCII is damaged (typographic quotes, decoded wrongly several times). In
    other files, a text is damaged if it can be encoded as Latin-1 and decoded as UTF-8 with another result, which is
    not possible with a correct text beyond ASCII.
    """
    if text.isascii() or "semeval" in file:
        return not text.isascii()
    try:
        return text.encode("latin-1").decode("utf-8") != text
    except UnicodeError:
        return False


def premise_key(premise: str) -> str:
    """Return a digest of the premise's letters and digits, which identifies a shared premise without revealing it."""
    return blake2b(NO_LETTER.sub("", premise.casefold()).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def fetch(file: str, context: DataContext) -> Path:
    return context.fetch("impli", f"{file}.tsv")


def pairs(file: str, path: Path) -> Iterator[tuple[str, str]]:
    """Yield premise and hypothesis of every row; a third value, the annotators' idiomaticity score, is dropped."""
    for line, values in table_records(text_lines(path, ENCODINGS.get(file, "utf-8")), str(path), "excel-tab"):
        if len(values) not in (2, 3):
            raise DataError(f"{path}:{line}: {len(values)} values, expected premise, hypothesis and perhaps a score")
        yield values[0], values[1]


@lru_cache(maxsize=len(FILES))
def idioms(file: str, path: Path) -> tuple[Idiom | None, ...]:
    """Return the idiom of every pair of a file, found once per process, on first use."""
    return tuple(lexicon().idiom(premise, hypothesis) for premise, hypothesis in pairs(file, path))


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    """Return the idioms of the benchmark, as listed in `idioms.txt`."""
    return Lexicon(files(__package__).joinpath("idioms.txt").read_text(encoding="utf-8").splitlines())
