"""IMPLI's files → rows: `impli:<column>` for the nine columns of the paper's Table 5, `impli:all` for all 26,124 rows.

The files have no header and are written in the excel-tab dialect (344 rows are quoted); all are UTF-8 but one. Texts
are given as published: the double encoding of 45 rows of `replacement_cc_e` and the damaged quotation marks of the
SemEval files are left alone, so that figures stay comparable with other people's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from figeval.data import DataContext, Row
from figeval.data.formats import table_records, text_lines
from figeval.errors import DataError, near

from .idioms import premise_key, recover

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
FILES = tuple(file for files in COLUMNS.values() for file in files)
CORPUS = re.compile(r"_(magpie|pie|semeval|tsvetkov|cc)(?:_|$)")
ENCODINGS = {"metaphors/replacement_tsvetkov_e": "cp1252"}


def open(path: str, context: DataContext) -> Iterator[Row]:
    """The rows of a column. Raises `DataError` if there is none of that name."""
    if path != "all" and path not in COLUMNS:
        known = [*COLUMNS, "all"]
        raise DataError(f"impli has no column {path!r}{near(path, known)}; it has {', '.join(known)}")
    for column in COLUMNS if path == "all" else [path]:
        for file in COLUMNS[column]:
            yield from file_rows(file, column, context)


def file_rows(file: str, column: str, context: DataContext) -> Iterator[Row]:
    """The rows of one file of a column."""
    figure = "idiom" if column.startswith("idioms") else "metaphor"
    names = recovered(tuple((other, fetch(other, context)) for other in FILES if other.startswith(figure)))
    source = CORPUS.search(file)
    same = {
        "label": "entailment" if column.endswith("_ent") else "non-entailment",
        "corpus": source.group(1) if source else "manual",
        "figure": figure,
    }
    for number, (premise, hypothesis) in enumerate(pairs(file, fetch(file, context)), 1):
        key = premise_key(premise)
        texts = {"premise": premise, "hypothesis": hypothesis, "premise_key": key}
        yield {"id": f"{file}:{number}", **texts, **same, "idiom": names[key]}


def fetch(file: str, context: DataContext) -> Path:
    """The local path of a file."""
    return context.fetch("impli", f"{file}.tsv")


def pairs(file: str, path: Path) -> Iterator[tuple[str, str]]:
    """(premise, hypothesis) of every row; a third value, the annotators' idiomaticity score, is left out."""
    for line, values in table_records(text_lines(path, ENCODINGS.get(file, "utf-8")), str(path), "excel-tab"):
        if len(values) not in (2, 3):
            raise DataError(f"{path}:{line}: {len(values)} values, expected premise, hypothesis and perhaps a score")
        yield values[0], values[1]


@lru_cache(maxsize=2)
def recovered(files: tuple[tuple[str, Path], ...]) -> Mapping[str, str]:
    """Premise key → name of the idiom or metaphor, from all files of one figure: once per process, on first use."""
    return recover(pair for file, path in files for pair in pairs(file, path))
