"""Pairs of a story and its moral, the material of all four STORAL tasks: STORAL's English ones, and a user's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from figeval.data import DataContext
from figeval.data.formats import read_json
from figeval.errors import DataError

ENGLISH = "english_pairs/storal_pairs.json"
SIZES = {"train": 1068, "valid": 355, "test": 356}  # Guan et al. (2022), Table 5; the file has the splits in this order
SPLITS = tuple(SIZES)


@dataclass(frozen=True, slots=True)
class Pair:
    """A story with its moral.

    Attributes:
        id: `<split>-<number within the split>` in STORAL, such as `test-0`.
        story: as in the data, blanks at the ends removed.
        moral: the same.
        split: `train`, `valid` or `test`.
    """

    id: str
    story: str
    moral: str
    split: str


def english_pairs(context: DataContext) -> Iterator[Pair]:
    """Yield the 1779 labelled English pairs: the official splits, one after the other.

    The conversion that has them all concatenates the three splits, and its numbers restart at each.

    Raises:
        DataError: the file does not hold the three splits.
    """
    rows = iter(read_json(context.fetch("storal", ENGLISH)))
    for split, size in SIZES.items():
        for number in range(size):
            row = next(rows, None)
            if row is None or row["id"] != number:
                raise DataError(f"storal: {ENGLISH} has no row {number} of the {split} split")
            yield Pair(f"{split}-{number}", row["story"].strip(), row["moral"].strip(), split)
