"""Rewritten morals: a user's file `rewritten_en` or `rewritten_zh` in a folder that `--data storal=FOLDER` names.

A row has the fields `synonym` (the moral rewritten with the same sense) and `antonym` (with the opposite one), and
either `id`, which names a story of STORAL's test split, or `story` and `moral`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from figeval.data import DataContext, Row
from figeval.data.row_files import RowFile, UserRow
from figeval.errors import DataError, MissingCopy
from figeval.io.text import near

from .archive import labelled_pairs
from .pairs import wording
from .preference.options import ANTONYM, KINDS, MORAL, SYNONYM, draw_orders, ordered_options

SUFFIXES = (".jsonl", ".json", ".csv", ".tsv")
FORMAT = "its rows have the fields synonym and antonym, and id, or story and moral (tasks/storal/README.md)"
SEED = "0 rewritten"  # of the orders of options


def rewritten_rows(language: str, context: DataContext) -> Iterator[Row]:
    """Yield the rows of the user's file, with `options`, `versions` and `gold` as those of `preference`.

    Raises:
        MissingCopy: there is no such file.
        DataError: there is more than one; a row lacks a field, repeats an id, names an unknown story,
            or has two versions that read the same.
    """
    file = RowFile(_find_file(f"rewritten_{language}", context.copies("storal")), FORMAT, flag="")
    texts_by_id: dict[str, Mapping[str, str]] = {}
    find_stories = cache(lambda: _stories(language, context))
    for row in file.rows():
        identity = row.optional("id") or str(row.number)
        if identity in texts_by_id:
            raise row.error("id", f"{identity:.80} has been used by a row above")
        pair: Mapping[str, str]
        if row.optional("story"):
            pair = {name: row.text(name) for name in ("story", MORAL)}
        else:
            pair = _look_up(row, find_stories)
        texts_by_id[identity] = _with_versions(row, pair)
    if not texts_by_id:
        raise DataError(f"storal: {file.path} has no rows; {FORMAT}")
    orders = draw_orders(len(texts_by_id), SEED)
    for (identity, texts), order in zip(texts_by_id.items(), orders, strict=True):
        story, moral = texts["story"], texts[MORAL]
        yield {"id": identity, "language": language, "story": story, "moral": moral, **ordered_options(texts, order)}


def _find_file(name: str, folders: Sequence[Path]) -> Path:
    """Return the user's file. Raises `MissingCopy` if there is none, `DataError` for several."""
    files = [file for folder in folders for suffix in SUFFIXES if (file := folder / f"{name}{suffix}").is_file()]
    if len(files) > 1:
        raise DataError(f"storal: there are {' and '.join(map(str, files[:2]))}; keep one of them")
    if not files:
        raise MissingCopy(
            f"storal: there is no file {name} ({', '.join(SUFFIXES)}) of rewritten morals",
            f"write one and give its folder as --data storal=FOLDER; {FORMAT}",
            folders,
        )
    return files[0]


def _stories(language: str, context: DataContext) -> Mapping[str, Mapping[str, str]]:
    """Return story and moral of the test split by id."""
    pairs = labelled_pairs(language, context, ("test",))
    return {pair.id: {"story": pair.story, MORAL: pair.moral} for pair in pairs}


def _look_up(row: UserRow, find_stories: Callable[[], Mapping[str, Mapping[str, str]]]) -> Mapping[str, str]:
    if not (identity := row.optional("id")):
        raise DataError(f"{row.where}: neither an id nor a story; {FORMAT}")
    stories = find_stories()
    if identity not in stories:
        raise row.error("id", f"{identity:.80} is no story of the test split{near(identity, stories)}")
    return stories[identity]


def _with_versions(row: UserRow, pair: Mapping[str, str]) -> Mapping[str, str]:
    texts = {**pair, SYNONYM: row.text(SYNONYM), ANTONYM: row.text(ANTONYM)}
    words = {kind: wording(texts[kind]) for kind in KINDS}
    for kind, other in ((SYNONYM, MORAL), (ANTONYM, MORAL), (ANTONYM, SYNONYM)):
        if words[kind] == words[other]:
            raise row.error(kind, f"has the words of the {other}")
    return texts
