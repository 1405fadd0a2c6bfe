"""ePiC's aligned spans → rows: `epic:alignment_seen_{train,test}` and `epic:alignment_published`.

One row per narrative and part of its proverb, `Q12N3S2` for the second pair of spans of Q12N3. All pairs are kept,
where the released code loses those that share the proverb's part with a later pair of the same narrative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from figeval.data import DataContext, Row
from figeval.data.formats import read_json
from figeval.errors import DataError

from .rows import Corpus, both, narrative_fields, read_corpus

SLOTS = range(1, 6)
BATCH = 32  # rows against whose gold spans the released code scores every batch


@dataclass(frozen=True, slots=True)
class SpanPair:
    """A part of the proverb and the part of the narrative that stands for it; `slot` is its place among the five."""

    slot: int
    of_proverb: str
    of_narrative: str


def split_rows(part: str, context: DataContext) -> Iterator[Row]:
    """All pairs of the narratives of one half of the seen split, in its order."""
    corpus, pairs = read_corpus(context), read_pairs(context)
    for key in seen_ids(part, context):
        yield from rows_of(key, corpus, pairs.get(key, []))


# 3274 rows of the 1500 training narratives, 2164 of the 1000 test narratives.
seen_train, seen_test = partial(split_rows, "train"), partial(split_rows, "test")


def published(context: DataContext) -> Iterator[Row]:
    """The 2100 rows that the released code scores, each with the `reference` against which it does so.

    It goes through the dataset file, not the list of ids; it keeps pairs in a dictionary by the lower-cased part of the
    proverb, so that the last one wins, at the place of the first; it reads gold spans at the index within the batch.
    """
    corpus, wanted = read_corpus(context), set(seen_ids("test", context))
    pairs = {key: last_of_each_part(found) for key, found in read_pairs(context).items() if key in wanted}
    rows = [row for key, found in pairs.items() for row in rows_of(key, corpus, found)]
    for number, row in enumerate(rows):
        yield {**row, "reference_lower": rows[number % BATCH]["span_lower"]}


def seen_ids(part: str, context: DataContext) -> list[str]:
    """The narratives of one half of the seen split."""
    ids: list[str] = read_json(context.fetch("epic", f"task_1_proverb_only_seen_{part}_data_indices.json"))
    return ids


def read_pairs(context: DataContext) -> dict[str, list[SpanPair]]:
    """Narrative id → its pairs, in order of the dataset file. Raises `DataError` for half a pair."""
    found: dict[str, list[SpanPair]] = {}
    for record in read_json(context.fetch("epic", "full_dataset.json")):
        found[record["pk"]] = [pair for slot in SLOTS if (pair := read_pair(record, slot))]
    return found


def read_pair(record: Mapping[str, Any], slot: int) -> SpanPair | None:
    """The pair of one slot, None where it is not used. Raises `DataError` where only one side is filled."""
    proverb, narrative = (record["fields"][f"span_{side}_{slot}"].strip() for side in ("quote", "narrative"))
    if bool(proverb) != bool(narrative):
        missing = "narrative" if proverb else "proverb"
        raise DataError(f"epic: {record['pk']}, pair {slot}: no span of the {missing}; fill it or empty the other side")
    return SpanPair(slot, proverb, narrative) if proverb else None


def last_of_each_part(pairs: Iterable[SpanPair]) -> list[SpanPair]:
    """What a dictionary by the lower-cased part of the proverb keeps, in its order."""
    return list({pair.of_proverb.lower(): pair for pair in pairs}.values())


def rows_of(key: str, corpus: Corpus, pairs: Sequence[SpanPair]) -> Iterator[Row]:
    """The rows of one narrative, which share the weight of one. Raises `DataError` if it has no pairs."""
    fields = narrative_fields(corpus, key, "spans")
    if not pairs:
        raise DataError(f"epic: the narrative {key} has no spans; leave it out of the split")
    for pair in pairs:
        yield {
            **fields,
            "id": f"{key}S{pair.slot}",
            "narrative_id": key,
            **both("given", pair.of_proverb),
            **both("span", pair.of_narrative),
            "weight": 1 / len(pairs),
            "reference_lower": None,  # other than the span in `published` alone
        }
