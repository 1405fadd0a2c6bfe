"""The judgement of a way to read a model in low precision, by its distance from single precision.

Two ways to compute the same number differ by rounding, and in half precision plain rows differ from themselves: on a
GPU by a tenth of a nat per token from batch to batch. Whether a way differs from rows therefore says nothing. It is
judged by the truth, the scores of plain rows in a precision so high that its own rounding can be neglected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = "NDArray[np.float64]"

# Where nothing but rounding differed, the ratio of both distances was between 0.9 and 1.6 in 690 trials of 23
# architectures, with roundings of .1 nats per token that depend on the shape of a batch.
MAX_ERROR_RATIO = 3.0
NEGLIGIBLE_NATS = 1e-6  # nats; where plain rows are exact, so must be everything else


@dataclass(frozen=True, slots=True)
class Evidence:
    """Distances between scores, in nats.

    Attributes:
        gap: of the way from plain rows in single precision: the largest.
        planted_gap: the same with a planted fault.
        rounding: of plain rows in the model's precision from the truth: the root mean square, as of the others.
        error: of the way in the model's precision from the truth.
        planted: of the way with a planted fault, in the model's precision, from the truth.
        separation: of the planted fault from the truth in single precision: what a fault changes if nothing is rounded.
    """

    gap: float
    planted_gap: float
    rounding: float | None = None
    error: float | None = None
    planted: float | None = None
    separation: float | None = None

    def describe(self) -> dict[str, float]:
        """Return the distances that are known, finite ones to two digits."""
        distances = {name: value for name, value in asdict(self).items() if value is not None and math.isfinite(value)}
        return {name: float(f"{value:.2g}") for name, value in distances.items()}


@dataclass(frozen=True, slots=True)
class ScoreTrial:
    """Scores of one sample (n,), in nats: `truth` and `fault` in single precision, the others in the model's.

    Attributes:
        truth: those of plain rows.
        fault: those of the way with a planted fault.
        rows: those of plain rows, in batches of several shapes.
        way: those of the way.
        planted: those of the way with a planted fault.
        least: by how much plain rows are rounded at least.
    """

    truth: Floats
    fault: Floats
    rows: Sequence[Floats]
    way: Floats
    planted: Floats
    least: float = NEGLIGIBLE_NATS

    @classmethod
    def without_truth(cls, rows: Sequence[Floats], way: Floats, planted: Floats, tolerance: float) -> ScoreTrial:
        """Return the trial of a model that cannot compute the truth, as one with weights of a few bits.

        Plain rows in one batch take its place, and the fault is as it is. Whatever differs by no more than `tolerance`
        nats is rounding.
        """
        return cls(rows[0], planted, rows[1:], way, planted, tolerance / MAX_ERROR_RATIO)

    def evidence(self, gap: float, planted_gap: float) -> Evidence:
        """Return the distances, given those in single precision."""
        rounding = max(distance(scores, self.truth) for scores in self.rows)
        error, planted = (distance(scores, self.truth) for scores in (self.way, self.planted))
        return Evidence(gap, planted_gap, rounding, error, planted, distance(self.fault, self.truth))

    @property
    def is_sound(self) -> bool:
        """True if the way is nearer to the truth than to the planted fault, and the fault nearer to itself."""
        sound = distance(self.way, self.truth) < distance(self.way, self.fault)
        return sound and distance(self.planted, self.fault) < distance(self.planted, self.truth)

    def failure(self, precision: str) -> str:
        """Return why the way is not used in a precision, or "" if it is as close to the truth as plain rows are.

        It must also be sound: otherwise rounding would hide a fault.
        """
        rounding = max(self.least, *(distance(scores, self.truth) for scores in self.rows))
        error = distance(self.way, self.truth)
        if not error <= MAX_ERROR_RATIO * rounding:
            return f"in {precision}, it is {error / rounding:.1f} times as far from single precision as plain rows are"
        return "" if self.is_sound else f"in {precision}, rounding would hide a wrong mask"


def distance(left: Floats, right: Floats) -> float:
    """Return the root mean square of the differences; infinite if one of them is NaN."""
    square = float(np.mean(np.square(left - right)))
    return math.inf if math.isnan(square) else math.sqrt(square)
