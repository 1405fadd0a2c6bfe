"""Results of one part of the analysis: numbers with their definitions, and columns per narrative and proverb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Column: TypeAlias = Mapping[str, float | int | None]  # id of a narrative or proverb → value


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysedNumber:
    """One number of the analysis.

    Attributes:
        published: the paper's value as printed, or empty.
        cell: metric and row of the number in the paper's table, if it is there.
    """

    name: str
    value: float | None
    definition: str
    published: str = ""
    interval: tuple[float, float] | None = None
    note: str = ""
    cell: tuple[str, str] | None = None

    @property
    def agrees(self) -> bool | None:
        """True if the value equals the published one at its number of digits; None if either is missing."""
        if not self.published or self.value is None:
            return None
        return self.digits(self.value) == self.published

    @property
    def covers(self) -> bool:
        """True if the interval, rounded to as many digits, contains the published value."""
        if not self.published or self.interval is None:
            return False
        low, high = (float(self.digits(bound)) for bound in self.interval)
        return low <= float(self.published) <= high

    def digits(self, value: float) -> str:
        """Format a number with the paper's decimals, or with four significant digits if nothing is published."""
        if self.published:
            return f"{value:.{len(self.published.partition('.')[2])}f}"
        return str(value) if isinstance(value, int) else f"{value:.4g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """One section of the analysis; if it could not be computed, `left_out` says what is missing and how to get it.

    `table` is the part of the published numbers that findings with a `cell` belong to.
    """

    name: str
    table: str = ""
    findings: Sequence[AnalysedNumber] = ()
    narratives: Mapping[str, Column] = field(default_factory=dict)  # name of a column → the column
    proverbs: Mapping[str, Column] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    left_out: str = ""


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one number."""
    return sum(values) / len(values)
