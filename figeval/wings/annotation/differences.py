"""The difference between two systems by one criterion, which people or a judge have judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from figeval.metrics.paired import holm


class Tested(Protocol):
    """A result that may have a p-value."""

    @property
    def p(self) -> float | None:
        """P-value, or None if there is nothing to test."""


Test = TypeVar("Test", bound=Tested)


@dataclass(frozen=True, slots=True)
class SystemDifference(Generic[Test]):
    """System A minus system B by one criterion.

    Attributes:
        criterion: name of the criterion.
        a: name of system A.
        b: name of system B.
        test: the difference: a paired test within annotators, or a mean of people estimated with a judge's answers.
        p_holm: p-value corrected for all differences.
    """

    criterion: str
    a: str
    b: str
    test: Test
    p_holm: float | None = None


def corrected(differences: Sequence[SystemDifference[Test]]) -> tuple[SystemDifference[Test], ...]:
    """Return the differences with p-values corrected by Holm's method; those without a test are not counted."""
    adjusted = iter(holm([one.test.p for one in differences if one.test.p is not None]))
    return tuple(one if one.test.p is None else replace(one, p_holm=next(adjusted)) for one in differences)
