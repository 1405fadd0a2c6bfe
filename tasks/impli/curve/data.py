"""The reader `impli_curve:…`: literal pairs, and pairs of the folds of idioms, for the points of a learning curve."""

from __future__ import annotations

import random
from collections.abc import Iterator

from figeval.data import DataContext, Row
from figeval.errors import DataError

from ...nli import union
from .. import rows
from .points import asked


def open(path: str, context: DataContext) -> Iterator[Row]:
    """What a point of a learning curve asks (`held_out?fold=0`) or learns from (`train?fold=0&train=3&regime=both`).

    Literal pairs come first, `nli` of them drawn by the seed of the folds, with the two labels of IMPLI.

    Raises:
        DataError: the point is none.
    """
    split, _, query = path.partition("?")
    point, literal = asked(query)
    if split == "held_out":
        yield from point.held_out(rows.idiom_rows(context))
    elif split == "train":
        yield from literal_rows(literal, context)
        yield from point.learned(rows.idiom_rows(context)) if point.train else ()
    else:
        raise DataError(f"impli_curve has no split {split!r}; it has held_out and train")


def literal_rows(most: int | None, context: DataContext) -> Iterator[Row]:
    """Pairs of the training part of the NLI tasks, in the form of IMPLI's; `most` of them, drawn at random."""
    found = list(union.rows("train", context))
    drawn = range(len(found))
    if most is not None and most < len(found):
        drawn = sorted(random.Random(0).sample(drawn, most))  # type: ignore[assignment]
    for place in drawn:
        row = found[place]
        yield {
            "id": f"nli/{row['id']}",
            "premise": row["premise"],
            "hypothesis": row["hypothesis"],
            "premise_key": rows.premise_key(row["premise"]),
            "label": "entailment" if row["label"] == "entailment" else "non-entailment",
            "corpus": "nli",
            "figure": "literal",
            **dict.fromkeys(("idiom", "surface", "idiom_start", "idiom_end", "idiom_confidence", "flaw")),
        }
