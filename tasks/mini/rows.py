"""The sample's files → rows: `mini:proverbs`, `mini:retrieval`, `mini:fables`. Options stand as ids in the files."""

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


PATHS: dict[str, Callable[[], Iterator[Row]]] = {"proverbs": proverbs, "retrieval": retrieval, "fables": fables}


def open(path: str, _context: DataContext) -> Iterator[Any]:
    """The rows of one path. Raises `DataError` with near names for another."""
    if path not in PATHS:
        raise DataError(f"mini has no rows {path!r}{near(path, PATHS)}; it has {', '.join(PATHS)}")
    return PATHS[path]()
