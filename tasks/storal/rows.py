"""STORAL's files → rows: `storal:{mocpt,mopref,st2mo,mo2st,preference}_en_{train,valid,test}`.

English rows are the pairs with the frozen items of `items/`, which hold ids and places only. With `published_` before
them, and `en` or `zh`, the rows are those of a user's copy of the authors' archive (`archive.py`), which has no
`preference`; with `examples_` those of their repository, five of each split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import lru_cache
from importlib.resources import files
from typing import Any

from figeval.data import DataContext, Row
from figeval.data.formats import read_jsonl
from figeval.errors import DataError, near
from figeval.types import letters

from .archive import published
from .pairs import SPLITS, Pair, english_pairs
from .preference.versions import options_of

Pairs = Mapping[str, Pair]  # by id
PUBLISHED = ("mocpt", "mopref", "st2mo", "mo2st")
KNOWN = {  # name → whose rows, task, language, split
    f"{source}{source and '_'}{task}_{language}_{split}": (source, task, language, split)
    for source, tasks, languages in (
        ("", (*PUBLISHED, "preference"), ("en",)),
        ("published", PUBLISHED, ("en", "zh")),
        ("examples", PUBLISHED, ("en", "zh")),
    )
    for task in tasks
    for language in languages
    for split in SPLITS
}


def open(path: str, context: DataContext) -> Iterator[Row]:
    """The rows called `path`. Raises `DataError` if there are none of that name."""
    if path not in KNOWN:
        raise DataError(f"storal has no rows {path!r}{near(path, KNOWN)}; it has {', '.join(KNOWN)}")
    source, task, language, split = KNOWN[path]
    if source:
        folders = context.copies("storal")
        yield from clustered(published(task, language, split, folders, whole=source == "published"))
        return
    pairs = {pair.id: pair for pair in english_pairs(context)}
    firsts = {row["id"]: row["same_moral"] for row in clustered(map(asdict, pairs.values()))}
    for row in MADE[task](pairs, split):
        yield {**row, "language": language, "same_moral": firsts[row["id"]]}


def clustered(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows with the id of the first one that has the same moral, up to case and punctuation."""
    firsts: dict[str, str] = {}
    for row in rows:
        yield {**row, "same_moral": firsts.setdefault(letters(row["moral"]), row["id"])}


def story_rows(pairs: Pairs, split: str) -> Iterator[Row]:
    """Yield story and moral (st2mo)."""
    for pair in pairs.values():
        if pair.split == split:
            yield {"id": pair.id, "story": pair.story, "moral": pair.moral}


def concept_rows(pairs: Pairs, split: str) -> Iterator[Row]:
    """Yield a story with five morals of the split, four of them of other topics (moCpt)."""
    for item in frozen("mocpt_en.jsonl", split):
        options = tuple(look_up(pairs, key).moral for key in item["options"])
        yield {
            "id": item["id"],
            "story": look_up(pairs, item["id"]).story,
            "options": options,
            "option_ids": item["options"],
            "topics": item["topics"],
            "gold": item["gold"],
        }


def preference_rows(pairs: Pairs, split: str) -> Iterator[Row]:
    """Yield a story with its moral and a copy in which a word is replaced by an antonym (moPref)."""
    for item in frozen("mopref_en.jsonl", split):
        pair, (start, end) = look_up(pairs, item["id"]), item["place"]
        options = [f"{pair.moral[:start]}{item['word']}{pair.moral[end:]}"]
        options.insert(item["gold"], pair.moral)
        yield {"id": pair.id, "story": pair.story, "options": tuple(options), "gold": item["gold"]}


def version_rows(pairs: Pairs, split: str) -> Iterator[Row]:
    """Yield a story with its moral and two copies of it, in which a synonym and an antonym replace the same word."""
    for item in frozen("preference_en.jsonl", split):
        pair = look_up(pairs, item["id"])
        yield {"id": pair.id, "story": pair.story, **options_of(pair.moral, item)}


def outline_rows(pairs: Pairs, split: str) -> Iterator[Row]:
    """Yield moral, beginning, outline and the rest of the story (mo2st); not those whose beginning is all of it."""
    for item in frozen("mo2st_en.jsonl", split):
        pair = look_up(pairs, item["id"])
        rest = pair.story[item["rest"] :]
        if rest.strip():
            yield {
                "id": pair.id,
                "moral": pair.moral,
                "beginning": pair.story[: item["beginning"]],
                "outline": tuple(pair.story[start:end].lower() for start, end in item["outline"]),
                "rest": rest,
            }


MADE: dict[str, Callable[[Pairs, str], Iterator[Row]]] = {
    "mocpt": concept_rows,
    "mopref": preference_rows,
    "st2mo": story_rows,
    "mo2st": outline_rows,
    "preference": version_rows,
}


def look_up(pairs: Pairs, key: str) -> Pair:
    """Return the pair of an id. Raises `DataError` if there is none."""
    if key not in pairs:
        raise DataError(f"storal: the frozen items name {key!r}, which the data do not have")
    return pairs[key]


@lru_cache(maxsize=8)
def _items(name: str) -> tuple[Mapping[str, Any], ...]:
    return tuple(read_jsonl(files(__package__) / "items" / name))


def frozen(name: str, split: str) -> Iterator[Mapping[str, Any]]:
    """Yield the frozen items of a split."""
    return (item for item in _items(name) if item["id"].startswith(f"{split}-"))
