"""The sample's files → rows: `mini:proverbs`, `mini:retrieval`, `mini:fables`, `mini:alignment`, `mini:joint`,
`mini:narrative`, `mini:narrative_train`, `mini:motif`. Options stand as ids in the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from typing import Any

from figeval.data import DataContext, Row
from figeval.data.formats import read_jsonl
from figeval.errors import DataError, near


def _read(name: str) -> Iterator[Row]:
    return read_jsonl(files(__name__.rpartition(".")[0]) / name)


def _texts(name: str, text: str) -> dict[str, str]:
    """The texts of a file by id."""
    return {row["id"]: row[text] for row in _read(name)}


def _with_options(rows: Iterator[Row], texts: Mapping[str, str]) -> Iterator[Row]:
    """The rows with their option ids replaced by texts."""
    for row in rows:
        yield {**row, "options": [texts[identity] for identity in row["options"]], "option_ids": row["options"]}


def proverbs() -> Iterator[Row]:
    """Narratives with five proverbs each."""
    return _with_options(_read("narratives.jsonl"), _texts("proverbs.jsonl", "proverb"))


def retrieval() -> Iterator[Row]:
    """Narratives with all thirty proverbs."""
    texts = _texts("proverbs.jsonl", "proverb")
    candidates, places = tuple(texts.values()), {identity: place for place, identity in enumerate(texts)}
    for row in _read("narratives.jsonl"):
        yield {**row, "candidates": candidates, "relevant": places[row["proverb_id"]]}


def fables() -> Iterator[Row]:
    """Fables with five morals each."""
    return _with_options(_read("fables.jsonl"), _texts("fables.jsonl", "moral"))


def motif() -> Iterator[Row]:
    """All narratives, as texts of which two each have the same motif."""
    return retrieval()


def joint() -> Iterator[Row]:
    """The first narrative of each proverb, with the spans that stand for parts of it and words out of it."""
    aligned = {row["id"]: row for row in _read("alignments.jsonl")}
    for row in retrieval():
        if row["id"] in aligned:
            yield {**row, **_aligned(row, aligned[row["id"]])}


def _aligned(row: Row, found: Row) -> Row:
    """Parts and keywords of one narrative."""
    known = row["candidates"][row["relevant"]]
    spans = enumerate(found["parts"], 1)
    parts = [
        {"id": f"{row['id']}S{number}", "given": span["given"], "known": known, "gold": span["words"]}
        for number, span in spans
    ]
    return {"proverb": known, "parts": parts, "keywords": found["keywords"]}


def other_narratives() -> Iterator[Row]:
    """The second narrative of each proverb: what people wrote for it, of which no words are marked."""
    aligned = {row["id"] for row in _read("alignments.jsonl")}
    for row in retrieval():
        if row["id"] not in aligned:
            yield {**row, "proverb": row["candidates"][row["relevant"]], "keywords": []}


def alignment() -> Iterator[Row]:
    """One row per span."""
    for row in joint():
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
}


def open(path: str, _context: DataContext) -> Iterator[Any]:
    """The rows of one path. Raises `DataError` with near names for another."""
    if path not in PATHS:
        raise DataError(f"mini has no rows {path!r}{near(path, PATHS)}; it has {', '.join(PATHS)}")
    return PATHS[path]()
