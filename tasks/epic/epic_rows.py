"""Rows of ePiC: `epic:retrieval_all`, `epic:retrieval_{seen,unseen}_{train,test}` and `epic:mcq{,_v2,_random,_train}`.

Other modules of this folder make further rows (`FURTHER`).

Every text appears twice: as written, and under the same key with `_lower` as the authors' code uses it (stripped and
lower-cased). Lower-casing happens only here, so that all rows share one tuple of 250 candidates.
The proverb Q55 ends in a scraped label, which is removed; nothing else is changed.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from figeval.data import DataContext, Row
from figeval.data.row_files import read_json, read_rows
from figeval.errors import DataError
from figeval.io.text import near as near_names
from figeval.registry import load_target

from .duplicates import near_duplicates

SCRAPED_TAIL = "Link to proverb"
SPLITS = {f"retrieval_{kind}_{part}": (kind, part) for kind in ("seen", "unseen") for part in ("train", "test")}
SOLVED, DISTRACTORS = "mcq_train", 4
ITEMS = {"mcq": "mcq_items.jsonl", "mcq_v2": "mcq_v2_items.jsonl", "mcq_random": "mcq_random_items.jsonl"}
FURTHER_ROWS = {  # name → module of this folder, and its function of the context
    "alignment_seen_train": "alignment:seen_train",
    "alignment_seen_test": "alignment:seen_test",
    "alignment_published": "alignment:published",
    "joint_seen_train": "joint:seen_train",
    "joint_seen_test": "joint:seen_test",
    "narrative_seen_train": "narratives:seen_train",
    "narrative_seen_test": "narratives:seen_test",
    "narrative_unseen_train": "narratives:unseen_train",
    "narrative_unseen_test": "narratives:unseen_test",
    "narrative_seen_authors_train": "narratives:seen_authors_train",
    "narrative_seen_authors_test": "narratives:seen_authors_test",
    "narrative_unseen_authors_train": "narratives:unseen_authors_train",
    "narrative_unseen_authors_test": "narratives:unseen_authors_test",
}


@dataclass(frozen=True, slots=True)
class Corpus:
    """All texts, in order of first appearance in the dataset file, which is the official order of the labels."""

    narratives: Mapping[str, str]  # "Q12N3" → text
    proverbs: Mapping[str, str]  # "Q12" → text


def open(path: str, context: DataContext) -> Iterator[Row]:
    """Return the rows called `path`. Raises `DataError` if there are no rows of that name."""
    if path == "retrieval_all":
        corpus = read_corpus(context)
        return ranking_rows(corpus, corpus.narratives)
    if path in SPLITS:
        return split_rows(*SPLITS[path], context)
    if path in ITEMS:
        return item_rows(ITEMS[path], read_corpus(context))
    if path == SOLVED:
        return solved_rows(context)
    if path in FURTHER_ROWS:
        rows: Iterator[Row] = load_target(f"{__package__}.{FURTHER_ROWS[path]}")(context)
        return rows
    names = ["retrieval_all", *SPLITS, *ITEMS, SOLVED, *FURTHER_ROWS]
    raise DataError(f"epic has no rows {path!r}{near_names(path, names)}; it has {', '.join(names)}")


def read_corpus(context: DataContext) -> Corpus:
    """Return every narrative and proverb, cleaned. A run reads the rows of its tasks many times, but this file once."""
    file = context.fetch("epic", "full_dataset.json")
    return _corpus_in(file, file.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _corpus_in(file: Path, _changed: int) -> Corpus:
    narratives, proverbs = {}, {}
    for record in read_json(file):
        narratives[record["pk"]] = record["fields"]["narrative"].strip()
        proverbs[proverb_of(record["pk"])] = record["fields"]["quote"].strip().removesuffix(SCRAPED_TAIL)
    return Corpus(narratives, proverbs)


def proverb_of(narrative_id: str) -> str:
    """Return the proverb id of a narrative id, e.g. `Q12` of `Q12N3`."""
    return narrative_id.partition("N")[0]


def split_rows(kind: str, part: str, context: DataContext) -> Iterator[Row]:
    """Return the rows of one half of an official split.

    The candidates are the proverbs of its own narratives: 250 in the seen split, 150 in unseen training and 100 in the
    unseen test. Only the test adds the other proverbs as background; in training they would leak.
    """
    ids = read_json(context.fetch("epic", f"task_1_proverb_only_{kind}_{part}_data_indices.json"))
    return ranking_rows(read_corpus(context), ids, with_background=part == "test")


def ranking_rows(corpus: Corpus, ids: Iterable[str], *, with_background: bool = False) -> Iterator[Row]:
    """Yield one row per narrative id, all with the same tuples of candidates and (if `others`) background proverbs."""
    ids = list(ids)
    proverb_ids = {proverb_of(key) for key in ids}
    indices = {key: index for index, key in enumerate(key for key in corpus.proverbs if key in proverb_ids)}
    background = [key for key in corpus.proverbs if with_background and key not in proverb_ids]
    shared = {
        **with_lower("candidates", tuple(corpus.proverbs[key] for key in indices)),
        **with_lower("background", tuple(corpus.proverbs[key] for key in background)),
    }
    for key in ids:
        proverb = proverb_of(key)
        near = sorted(indices[duplicate] for duplicate in near_duplicates().get(proverb, ()) if duplicate in indices)
        yield {**narrative_fields(corpus, key, "split"), "relevant": indices[proverb], "near": near, **shared}


def narrative_fields(corpus: Corpus, key: str, source: str) -> dict[str, Any]:
    """Return the fields of a narrative that every row has."""
    proverb_id = proverb_of(key)
    return {
        "id": key,
        **with_lower("narrative", look_up(corpus.narratives, key, source)),
        "proverb_id": proverb_id,
        **with_lower("proverb", look_up(corpus.proverbs, proverb_id, source)),
    }


def with_lower(key: str, text: str | tuple[str, ...]) -> dict[str, str | tuple[str, ...]]:
    """Return a text or tuple of texts under `key`, and in lower case under `<key>_lower`."""
    lower = text.lower() if isinstance(text, str) else tuple(string.lower() for string in text)
    return {key: text, f"{key}_lower": lower}


def look_up(texts: Mapping[str, str], key: str, source: str) -> str:
    """Return the text of an id. Raises `DataError` if there is none."""
    if key not in texts:
        raise DataError(f"epic: {source}: the dataset has no {key!r}")
    return texts[key]


def item_rows(name: str, corpus: Corpus) -> Iterator[Row]:
    """Yield the rows of a frozen file of multiple-choice items, which holds `{"id", "options", "gold"}` per line."""
    file = files(__package__) / name
    if not file.is_file():
        raise DataError(f"{file} is missing; create it with `figeval benchmark build epic-mcq`")
    for number, item in enumerate(read_rows(file), 1):
        yield item_row(item, corpus, f"{name}, item {number}")


def solved_rows(context: DataContext) -> Iterator[Row]:
    """Yield items to be shown as solved examples: narratives of the seen training split with random distractors.

    The random generator is seeded with the narrative's id.
    """
    corpus = read_corpus(context)
    for key in read_json(context.fetch("epic", "task_1_proverb_only_seen_train_data_indices.json")):
        generator, gold = random.Random(f"epic {SOLVED} {key}"), proverb_of(key)
        options = [gold, *generator.sample([other for other in corpus.proverbs if other != gold], DISTRACTORS)]
        generator.shuffle(options)
        yield item_row({"id": key, "options": options, "gold": options.index(gold)}, corpus, SOLVED)


def item_row(item: Row, corpus: Corpus, source: str) -> Row:
    """Return one item with its texts. Raises `DataError` if an id is unknown or gold is not the narrative's proverb."""
    if missing := sorted({"id", "options", "gold"} - set(item)):
        raise DataError(f"epic: {source}: no {', '.join(missing)}")
    option_ids, gold = tuple(item["options"]), item["gold"]
    fields = narrative_fields(corpus, item["id"], source)
    if gold not in range(len(option_ids)) or option_ids[gold] != fields["proverb_id"]:
        raise DataError(f"epic: {source}: gold {gold!r} does not point to {fields['proverb_id']} in {list(option_ids)}")
    options = tuple(look_up(corpus.proverbs, key, source) for key in option_ids)
    return {**fields, **with_lower("options", options), "option_ids": option_ids, "gold": gold}
