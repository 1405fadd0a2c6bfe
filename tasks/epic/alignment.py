"""Rows of ePiC's aligned spans: `epic:alignment_seen_{train,test}` and `epic:alignment_published`.

There is one row per narrative and part of its proverb, e.g. `Q12N3S2` for the second pair of spans of Q12N3. All pairs
are kept; the released code loses a pair if a later pair of the same narrative has the same part of the proverb.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from figeval.data import DataContext, Row
from figeval.data.row_files import read_json
from figeval.errors import DataError

from .epic_rows import Corpus, narrative_fields, read_corpus, with_lower

SLOTS = range(1, 6)
BATCH_ROWS = 32  # the released code scores every batch against the gold spans of the first 32 rows


@dataclass(frozen=True, slots=True)
class SpanPair:
    """A part of the proverb aligned with a part of the narrative; `slot` is its number among the five."""

    slot: int
    of_proverb: str
    of_narrative: str


def split_rows(part: str, context: DataContext) -> Iterator[Row]:
    """Yield the rows of all pairs in one half of the seen split, in the order of its narratives."""
    corpus, pairs = read_corpus(context), read_pairs(context)
    for key in seen_ids(part, context):
        yield from rows_of(key, corpus, pairs.get(key, []))


# 3274 rows from the 1500 training narratives, 2164 from the 1000 test narratives.
seen_train, seen_test = partial(split_rows, "train"), partial(split_rows, "test")


def published(context: DataContext) -> Iterator[Row]:
    """Yield the 2100 rows that the released code scores, each with the reference that it scores them against.

    That code follows the order of the dataset file, not of the list of ids. It keeps pairs in a dictionary keyed by the
    lower-cased part of the proverb, so the last pair wins, at the place of the first. It looks up gold spans by the
    index within the batch.
    """
    corpus, ids = read_corpus(context), set(seen_ids("test", context))
    pairs = {
        key: last_of_each_part(narrative_pairs) for key, narrative_pairs in read_pairs(context).items() if key in ids
    }
    rows = [row for key, narrative_pairs in pairs.items() for row in rows_of(key, corpus, narrative_pairs)]
    for number, row in enumerate(rows):
        yield {**row, "reference_lower": rows[number % BATCH_ROWS]["span_lower"]}


def seen_ids(part: str, context: DataContext) -> list[str]:
    """Return the ids of the narratives in one half of the seen split."""
    ids: list[str] = read_json(context.fetch("epic", f"task_1_proverb_only_seen_{part}_data_indices.json"))
    return ids


def read_pairs(context: DataContext) -> dict[str, list[SpanPair]]:
    """Map each narrative id to its pairs, in the order of the dataset file. Raises `DataError` for half a pair."""
    pairs: dict[str, list[SpanPair]] = {}
    for record in read_json(context.fetch("epic", "full_dataset.json")):
        pairs[record["pk"]] = [pair for slot in SLOTS if (pair := read_pair(record, slot))]
    return pairs


def read_pair(record: Mapping[str, Any], slot: int) -> SpanPair | None:
    """Return the pair of one slot, or None if the slot is unused. Raises `DataError` if only one side is filled."""
    proverb, narrative = (record["fields"][f"span_{side}_{slot}"].strip() for side in ("quote", "narrative"))
    if bool(proverb) != bool(narrative):
        missing = "narrative" if proverb else "proverb"
        raise DataError(
            f"epic: {record['pk']}, pair {slot}: the {missing} has no span; fill it in, or clear the other side"
        )
    return SpanPair(slot, proverb, narrative) if proverb else None


def last_of_each_part(pairs: Iterable[SpanPair]) -> list[SpanPair]:
    """Return the pairs that a dictionary keyed by the lower-cased part of the proverb keeps, in its order."""
    return list({pair.of_proverb.lower(): pair for pair in pairs}.values())


def rows_of(key: str, corpus: Corpus, pairs: Sequence[SpanPair]) -> Iterator[Row]:
    """Yield the rows of one narrative; their weights add up to 1. Raises `DataError` if it has no pairs."""
    fields = narrative_fields(corpus, key, "spans")
    if not pairs:
        raise DataError(f"epic: the narrative {key} has no spans; leave it out of the split")
    for pair in pairs:
        yield {
            **fields,
            "id": f"{key}S{pair.slot}",
            "narrative_id": key,
            **with_lower("given", pair.of_proverb),
            **with_lower("span", pair.of_narrative),
            "weight": 1 / len(pairs),
            "reference_lower": None,  # only `published` sets it
        }
