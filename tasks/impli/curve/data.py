"""The reader `impli_curve:…` of a learning curve's points: literal pairs, and pairs from the folds of idioms."""

from __future__ import annotations

import random
from collections.abc import Iterator

from figeval.data import DataContext, Row
from figeval.errors import DataError

from ...nli import union
from .. import impli_rows
from .points import parse_query


def open(path: str, context: DataContext) -> Iterator[Row]:
    """Yield the pairs that a point of a learning curve asks or learns from.

    The paths are e.g. `held_out?fold=0` and `train?fold=0&train=3&regime=both`. Literal pairs come first, `nli` of them
    drawn at random with a fixed seed, with the two labels of IMPLI.

    Raises:
        DataError: the path does not describe a point.
    """
    split, _, query = path.partition("?")
    point, literal = parse_query(query)
    if split == "held_out":
        yield from point.held_out(impli_rows.idiom_rows(context))
    elif split == "train":
        yield from literal_rows(literal, context)
        yield from point.learned(impli_rows.idiom_rows(context)) if point.train else ()
    else:
        raise DataError(f"impli_curve has no split {split!r}; it has held_out and train")


def literal_rows(max_pairs: int | None, context: DataContext) -> Iterator[Row]:
    """Yield at most `most` pairs of the NLI tasks' training part, drawn at random, in the form of IMPLI's rows."""
    rows = list(union.rows("train", context))
    indices = range(len(rows))
    if max_pairs is not None and max_pairs < len(rows):
        indices = sorted(random.Random(0).sample(indices, max_pairs))  # type: ignore[assignment]
    for index in indices:
        row = rows[index]
        yield {
            "id": f"nli/{row['id']}",
            "premise": row["premise"],
            "hypothesis": row["hypothesis"],
            "premise_key": impli_rows.premise_key(row["premise"]),
            "label": "entailment" if row["label"] == "entailment" else "non-entailment",
            "corpus": "nli",
            "figure": "literal",
            **dict.fromkeys(("idiom", "surface", "idiom_start", "idiom_end", "idiom_confidence", "flaw")),
        }
