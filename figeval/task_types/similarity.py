"""Cosines and dot products in float64, whatever precision the vectors came in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def cosines(query: Any, others: Sequence[Any]) -> NDArray[np.float64]:
    """result[i] = cos(query, others[i]); vectors of shape (d,), result (n,).

    NaN where a vector is zero or not a number: an angle to nothing is unknown, not 0.
    Row by row and not as one matrix product, whose blocked sums can tell equal vectors apart by an ulp and so
    break a tie.
    """
    matrix = np.asarray(others, dtype=np.float64)  # (n, d)
    lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(np.asarray(query, dtype=np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(dots(query, matrix) / lengths)


def dots(query: Any, others: Any) -> NDArray[np.float64]:
    """result[i] = query · others[i]; shapes as for `cosines`, and row by row for the same reason."""
    return np.asarray((np.asarray(others, dtype=np.float64) * np.asarray(query, dtype=np.float64)).sum(axis=1))
