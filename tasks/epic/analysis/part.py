"""Results of one part of the analysis: numbers with their definitions, and columns per narrative and proverb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from figeval.records import findings

Column: TypeAlias = Mapping[str, float | int | None]  # id of a narrative or proverb → value


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis(findings.Analysis):
    """One section of the analysis, with columns by name."""

    narratives: Mapping[str, Column] = field(default_factory=dict)
    proverbs: Mapping[str, Column] = field(default_factory=dict)


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one number."""
    return sum(values) / len(values)
