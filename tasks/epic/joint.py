"""Rows of ePiC's narratives with all 250 proverbs and all aligned spans: `epic:joint_seen_{train,test}`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from figeval.data import DataContext, Row

from .alignment import read_pairs, rows_of, seen_ids
from .epic_rows import ranking_rows, read_corpus


def split_rows(part: str, context: DataContext) -> Iterator[Row]:
    """Yield the rows of a retrieval task, each with its `parts` as written and its `parts_lower` in lower case."""
    corpus, pairs = read_corpus(context), read_pairs(context)
    for row in ranking_rows(corpus, seen_ids(part, context)):
        span_rows = list(rows_of(row["id"], corpus, pairs.get(row["id"], [])))
        yield {
            **row,
            "parts": [span_of(span_row) for span_row in span_rows],
            "parts_lower": [span_of(span_row, "_lower") for span_row in span_rows],
        }


# 1500 narratives with 3274 spans, 1000 with 2164.
seen_train, seen_test = partial(split_rows, "train"), partial(split_rows, "test")


def span_of(row: Row, ending: str = "") -> dict[str, Any]:
    """Return a part of a joint example: the fields of its span."""
    texts = {"given": "given", "known": "proverb", "gold": "span"}
    return {"id": row["id"], **{field: row[f"{column}{ending}"] for field, column in texts.items()}}
