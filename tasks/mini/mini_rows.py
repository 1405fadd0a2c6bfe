"""Reader of the sample's files, in which options are ids.

The rows are `mini:proverbs`, `mini:retrieval`, `mini:fables`, `mini:alignment`, `mini:joint`, `mini:narrative`,
`mini:narrative_train`, `mini:motif`, `mini:situations_train` and `mini:situations_dev`. Those to learn from are
`mini:proverbs_train`, `mini:retrieval_train`, `mini:fables_train`, `mini:alignment_train` and `mini:joint_train`, from
the files `train_*.jsonl`, which have other proverbs and fables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.resources import files
from typing import Any

from figeval.data import DataContext, Row
from figeval.data.row_files import read_rows
from figeval.errors import DataError
from figeval.io.text import near

TRAIN = "train_"  # prefix of the files with rows to learn from


def _read(name: str) -> Iterator[Row]:
    return read_rows(files(__name__.rpartition(".")[0]) / name)


def _texts(name: str, text: str) -> dict[str, str]:
    return {row["id"]: row[text] for row in _read(name)}


def _with_options(rows: Iterator[Row], texts: Mapping[str, str]) -> Iterator[Row]:
    for row in rows:
        yield {**row, "options": [texts[identity] for identity in row["options"]], "option_ids": row["options"]}


def proverbs(prefix: str = "") -> Iterator[Row]:
    """Return the narratives with five proverbs each, from the files with a prefix."""
    return _with_options(_read(f"{prefix}narratives.jsonl"), _texts(f"{prefix}proverbs.jsonl", "proverb"))


def retrieval(prefix: str = "") -> Iterator[Row]:
    """Return the narratives with all proverbs."""
    return _with_candidates(_read(f"{prefix}narratives.jsonl"), prefix)


def situations(split: str) -> Iterator[Row]:
    """Return the situations of a split with all thirty proverbs."""
    rows = (row for row in _read("situations.jsonl") if row["split"] == split)
    return _with_candidates({**row, "narrative": row["situation"]} for row in rows)


def _with_candidates(rows: Iterator[Row], prefix: str = "") -> Iterator[Row]:
    """Yield the rows with all proverbs, and the index of the right one."""
    texts = _texts(f"{prefix}proverbs.jsonl", "proverb")
    candidates, indices = tuple(texts.values()), {identity: index for index, identity in enumerate(texts)}
    for row in rows:
        yield {**row, "candidates": candidates, "relevant": indices[row["proverb_id"]]}


def fables(prefix: str = "") -> Iterator[Row]:
    """Return the fables with five morals each."""
    return _with_options(_read(f"{prefix}fables.jsonl"), _texts(f"{prefix}fables.jsonl", "moral"))


def motif() -> Iterator[Row]:
    """Return all narratives; two of them share each motif."""
    return retrieval()


def joint(prefix: str = "") -> Iterator[Row]:
    """Yield the first narrative of each proverb, with its aligned spans and its keywords."""
    alignments = {row["id"]: row for row in _read(f"{prefix}alignments.jsonl")}
    for row in retrieval(prefix):
        if row["id"] in alignments:
            yield {**row, **_alignment_fields(row, alignments[row["id"]])}


def _alignment_fields(row: Row, annotation: Row) -> Row:
    """Return the proverb, the parts and the keywords of one narrative."""
    proverb = row["candidates"][row["relevant"]]
    spans = enumerate(annotation["parts"], 1)
    parts = [
        {"id": f"{row['id']}S{number}", "given": span["given"], "known": proverb, "gold": span["words"]}
        for number, span in spans
    ]
    return {"proverb": proverb, "parts": parts, "keywords": annotation["keywords"]}


def other_narratives() -> Iterator[Row]:
    """Yield the second narrative of each proverb, which has no annotated spans or keywords."""
    aligned_ids = {row["id"] for row in _read("alignments.jsonl")}
    for row in retrieval():
        if row["id"] not in aligned_ids:
            yield {**row, "proverb": row["candidates"][row["relevant"]], "keywords": []}


def alignment(prefix: str = "") -> Iterator[Row]:
    """Yield one row per span."""
    for row in joint(prefix):
        for part in row["parts"]:
            yield {**row, **part, "weight": 1 / len(row["parts"])}


PATHS: dict[str, Callable[[], Iterator[Row]]] = {
    "proverbs": proverbs,
    "retrieval": retrieval,
    "fables": fables,
    "alignment": alignment,
    "joint": joint,
    "narrative": joint,
    "narrative_train": other_narratives,
    "motif": motif,
    **{f"{rows.__name__}_train": partial(rows, TRAIN) for rows in (proverbs, retrieval, fables, alignment, joint)},
    "situations_train": partial(situations, "train"),
    "situations_dev": partial(situations, "dev"),
}


def open(path: str, _context: DataContext) -> Iterator[Any]:
    """Return the rows of a path. Raises `DataError`, with similar names, for an unknown path."""
    if path not in PATHS:
        raise DataError(f"mini has no rows {path!r}{near(path, PATHS)}; it has {', '.join(PATHS)}")
    return PATHS[path]()
