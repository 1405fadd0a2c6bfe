"""Rows of STORAL: `storal:{mocpt,mopref,st2mo,mo2st,faithfulness,preference}_en_{train,valid,test}` and others.

English rows combine the pairs with the frozen items of `items/`, which hold ids and spans only. With the prefix
`published_`, and `en` or `zh`, the rows are those of a user's copy of the authors' archive (`archive.py`), which has no
`preference`; with `examples_`, they are those of the authors' repository, five of each split. The rows of faithfulness
are made from those of st2mo. `storal:rewritten_en` and `storal:rewritten_zh` are those of a user's file
(`rewritten.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

from figeval.data import DataContext, Row
from figeval.data.row_files import read_rows
from figeval.errors import DataError
from figeval.io.text import near

from .archive import published_rows
from .pairs import SPLITS, Pair, english_pairs, wording
from .preference.options import options_of
from .rewritten import rewritten_rows

Pairs = Mapping[str, Pair]  # by id
PUBLISHED = ("mocpt", "mopref", "st2mo", "mo2st", "faithfulness")
MATCHED, MISMATCHED = "matched", "mismatched"  # the labels of faithfulness
SEED = 0  # of the permutation of morals
CLUSTER = 16  # hex digits of the digest of a moral
ROW_SOURCES = {  # name → source, task, language, split
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
REWRITTEN = {"rewritten_en": "en", "rewritten_zh": "zh"}  # name → language


def open(path: str, context: DataContext) -> Iterator[Row]:
    """Yield the rows called `path`. Raises `DataError` if there are no rows of that name."""
    if path in REWRITTEN:
        yield from add_clusters(rewritten_rows(REWRITTEN[path], context))
        return
    if path not in ROW_SOURCES:
        names = (*ROW_SOURCES, *REWRITTEN)
        raise DataError(f"storal has no rows {path!r}{near(path, names)}; it has {', '.join(names)}")
    source, task, language, split = ROW_SOURCES[path]
    of_stories = "st2mo" if task == "faithfulness" else task
    if source:
        folders = context.copies("storal")
        published = list(published_rows(of_stories, language, split, folders, complete=source == "published"))
        if task == "mo2st" and not any(row["outline"] for row in published):
            context.notes["remark"] = "this copy has no outlines, so stories are written from moral and beginning alone"
        rows = add_clusters(published)
    else:
        rows = _english(of_stories, split, context)
    yield from matched_and_mismatched(list(rows)) if task == "faithfulness" else rows


def _english(task: str, split: str, context: DataContext) -> Iterator[Row]:
    """Yield the rows made from the pairs and the frozen items."""
    pairs = {pair.id: pair for pair in english_pairs(context)}
    for row in add_clusters({**row, "moral": pairs[row["id"]].moral} for row in ROW_READERS[task](pairs, split)):
        yield {**row, "language": "en"}


def add_clusters(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows with a digest of their moral's wording, which does not reveal its text.

    The digest is the same in all splits, so that an example retrieved from train never has the moral of the question.
    """
    for row in rows:
        yield {**row, "same_moral": hashlib.sha256(wording(row["moral"]).encode()).hexdigest()[:CLUSTER]}


def story_rows(pairs: Pairs, split: str) -> Iterator[Row]:
    """Yield stories with their morals (st2mo)."""
    for pair in pairs.values():
        if pair.split == split:
            yield {"id": pair.id, "story": pair.story, "moral": pair.moral}


def concept_rows(pairs: Pairs, split: str) -> Iterator[Row]:
    """Yield stories with five morals of the split, four of them from other topics (moCpt)."""
    for item in frozen_items("mocpt_en.jsonl", split):
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
    """Yield stories with their moral and a copy in which a word is replaced by an antonym (moPref)."""
    for item in frozen_items("mopref_en.jsonl", split):
        pair, (start, end) = look_up(pairs, item["id"]), item["place"]
        options = [f"{pair.moral[:start]}{item['word']}{pair.moral[end:]}"]
        options.insert(item["gold"], pair.moral)
        yield {"id": pair.id, "story": pair.story, "options": tuple(options), "gold": item["gold"]}


def version_rows(pairs: Pairs, split: str) -> Iterator[Row]:
    """Yield stories with their moral and two copies, in which a synonym and an antonym replace the same word."""
    for item in frozen_items("preference_en.jsonl", split):
        pair = look_up(pairs, item["id"])
        yield {"id": pair.id, "story": pair.story, **options_of(pair.moral, item)}


def outline_rows(pairs: Pairs, split: str) -> Iterator[Row]:
    """Yield moral, beginning, outline and rest of each story (mo2st), unless the beginning is the whole story."""
    for item in frozen_items("mo2st_en.jsonl", split):
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


def matched_and_mismatched(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield every story with its own moral and with the moral of another row.

    The morals of the mismatched rows are a permutation of all morals, so that a model that reads only the moral is
    right in half of the rows. No mismatched row has a moral of its own story, up to case, punctuation and footnotes,
    even if the story occurs several times with different morals.

    The permutation is a function of morals, ids and `SEED`, and is not stored: morals are sorted by a digest, which
    puts equal ones side by side, and each row takes the moral k places further, where k is the smallest number for
    which no row gets one of its own.

    Raises:
        DataError: no shift gives every story another moral, because too many morals are the same.
    """
    order = sorted(rows, key=lambda row: (_digest(row["same_moral"]), _digest(row["id"])))
    morals = [wording(row["moral"]) for row in order]
    story_morals: dict[str, set[str]] = {}
    for row, moral in zip(order, morals, strict=True):
        story_morals.setdefault(wording(row["story"]), set()).add(moral)
    forbidden = [story_morals[wording(row["story"])] for row in order]
    shift = next((k for k in range(1, len(order)) if _none_is_own(morals[k:] + morals[:k], forbidden)), None)
    if shift is None:
        raise DataError(f"storal: too many of the {len(rows)} morals are identical to give every story a different one")
    other_rows = order[shift:] + order[:shift]
    moral_rows = {row["id"]: other_row for row, other_row in zip(order, other_rows, strict=True)}
    for row in rows:
        shared = {key: row[key] for key in ("story", "language", "same_moral")}
        for label, source in ((MATCHED, row), (MISMATCHED, moral_rows[row["id"]])):
            pair_fields = {
                "id": f"{row['id']}-{label}",
                "pair": row["id"],
                "moral": source["moral"],
                "moral_of": source["id"],
            }
            yield {**shared, **pair_fields, "label": label}


def _digest(key: str) -> str:
    return hashlib.sha256(f"{SEED} faithfulness {key}".encode()).hexdigest()


def _none_is_own(morals: Sequence[str], forbidden: Sequence[set[str]]) -> bool:
    return not any(moral in forbidden_morals for moral, forbidden_morals in zip(morals, forbidden, strict=True))


ROW_READERS: dict[str, Callable[[Pairs, str], Iterator[Row]]] = {
    "mocpt": concept_rows,
    "mopref": preference_rows,
    "st2mo": story_rows,
    "mo2st": outline_rows,
    "preference": version_rows,
}


def look_up(pairs: Pairs, key: str) -> Pair:
    """Return the pair of an id. Raises `DataError` if there is none."""
    if key not in pairs:
        raise DataError(f"storal: the item files refer to {key!r}, which is missing from the data")
    return pairs[key]


@lru_cache(maxsize=8)
def _items(name: str) -> tuple[Mapping[str, Any], ...]:
    return tuple(read_rows(files(__package__) / "items" / name))


def frozen_items(name: str, split: str) -> Iterator[Mapping[str, Any]]:
    return (item for item in _items(name) if item["id"].startswith(f"{split}-"))
