"""Examples of language models as token ids, and what of them is a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from .._encdec import IGNORED
from .._tokens import IDS, padded

if TYPE_CHECKING:
    from figeval.training.contract import Batch

LABELS = "labels"  # the token that is to be predicted at a position; IGNORED where nothing is
WRITTEN = "decoder_input_ids"

Row = Mapping[str, Sequence[int]]  # IDS, LABELS, and WRITTEN where there is a decoder


def batch_of(rows: Sequence[Row], padding: int) -> Batch:
    """Rows as tensors (rows, longest), labels filled up with IGNORED, and the attention mask of what is read."""
    batch = {}
    for name in rows[0]:
        batch[name], mask = padded([row[name] for row in rows], IGNORED if name == LABELS else padding, "cpu")
        if name == IDS:
            batch["attention_mask"] = mask
    return batch


def length(row: Row) -> int:
    """Tokens that go through the network."""
    return len(row[IDS]) + len(row.get(WRITTEN, ()))


def weight(row: Row) -> float:
    """Its targets: the loss is their mean."""
    return float(sum(label != IGNORED for label in row[LABELS]))


def read_and_written(read: Sequence[int], target: Sequence[int], start: int) -> Row:
    """A row of an encoder-decoder: while it is trained, a token is predicted from the right ones before it."""
    return {IDS: read, WRITTEN: [start, *target[:-1]], LABELS: target}


class FixedFeatures:
    """Rows that are the same in every epoch."""

    def __init__(self, rows: Sequence[Row], padding: int, truncated: int) -> None:
        self.rows, self.padding, self.truncated = rows, padding, truncated
        self.lengths = list(map(length, rows))
        self.weights = list(map(weight, rows))

    def batch(self, rows: Sequence[int], draw: int) -> Batch:  # noqa: ARG002 - nothing is drawn
        """input_ids, attention_mask, labels …"""
        return batch_of([self.rows[row] for row in rows], self.padding)

    def beside(self, rows: Sequence[int]) -> list[Batch]:  # noqa: ARG002
        """Nothing."""
        return []


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a text: its token ids, and which of them are the text's own: `ids[first:end]`."""

    ids: Sequence[int]
    first: int
    end: int
    origin: str  # which text it is of, for messages


Noise = Callable[[Piece, Random], Row]


class DrawnFeatures:
    """Pieces of texts with noise that is drawn anew in every epoch, from the epoch's draw and the row alone.

    How much is drawn depends on the length of a piece only, so that lengths and weights are known beforehand.
    """

    truncated = 0  # long texts were split

    def __init__(self, pieces: Sequence[Piece], noise: Noise, padding: int) -> None:
        self.pieces, self.noise, self.padding = pieces, noise, padding
        drawn = [self.row(number, 0) for number in range(len(pieces))]
        self.lengths = list(map(length, drawn))
        self.weights = list(map(weight, drawn))
        self.ids = [piece.origin for piece in pieces]

    def row(self, number: int, draw: int) -> Row:
        """A piece with the noise of a draw."""
        return self.noise(self.pieces[number], Random(f"{draw} {number}"))

    def batch(self, rows: Sequence[int], draw: int) -> Batch:
        """input_ids, attention_mask, labels …"""
        return batch_of([self.row(number, draw) for number in rows], self.padding)

    def beside(self, rows: Sequence[int]) -> list[Batch]:  # noqa: ARG002
        """Nothing."""
        return []
