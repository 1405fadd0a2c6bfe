"""Scores and their intervals, the last of the values that are passed through figeval (`figeval.types`)."""

from __future__ import annotations

from dataclasses import dataclass

_REASON_PREFIX = "none: "
_UNRELIABLE_SUFFIX = ", unreliable: fewer than 10 effective clusters"


@dataclass(frozen=True, slots=True)
class Interval:
    """95 % interval of a score, or the reason why there is none; `str` has the words that files and tables have.

    Attributes:
        method: name of the method, e.g. "wilson" or "clustered t"; empty without an interval.
        low: lower end, None without an interval.
        high: upper end, None without an interval.
        stderr: standard error behind it, None if there is none.
        reason: why there is no interval, e.g. "one cluster"; empty if there is one.
        reliable: False if it rests on fewer than ten effective clusters.
    """

    method: str = ""
    low: float | None = None
    high: float | None = None
    stderr: float | None = None
    reason: str = ""
    reliable: bool = True

    def __str__(self) -> str:
        if self.reason:
            return f"{_REASON_PREFIX}{self.reason}"
        return self.method if self.reliable else f"{self.method}{_UNRELIABLE_SUFFIX}"

    @classmethod
    def of_words(
        cls, words: str, low: float | None = None, high: float | None = None, stderr: float | None = None
    ) -> Interval:
        """Return the interval that a file describes in these words; `str` returns any words unchanged."""
        if reason := words[len(_REASON_PREFIX) :] if words.startswith(_REASON_PREFIX) else "":
            return cls("", low, high, stderr, reason)
        method = words.removesuffix(_UNRELIABLE_SUFFIX)
        return cls(method, low, high, stderr, reliable=method == words)


class IntervalEnds:
    """The ends and the standard error of the interval of a number."""

    __slots__ = ()
    interval: Interval

    @property
    def low(self) -> float | None:
        """Lower end of the 95 % interval; None if there is none, for which `interval.reason` is the reason."""
        return self.interval.low

    @property
    def high(self) -> float | None:
        """Upper end of the 95 % interval."""
        return self.interval.high

    @property
    def stderr(self) -> float | None:
        """Standard error behind the interval."""
        return self.interval.stderr


@dataclass(frozen=True, slots=True, kw_only=True)
class Score(IntervalEnds):
    """One number with its uncertainty.

    `n` counts examples and `clusters` the independent groups they form. `effective_clusters` is the number of groups
    of equal size with the same precision, None if all sizes are equal.
    """

    metric: str
    value: float | None
    interval: Interval = Interval()
    n: int = 0
    clusters: int = 0
    effective_clusters: float | None = None
    higher_is_better: bool = True
