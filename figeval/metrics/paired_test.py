"""The result of a comparison of two runs on the same examples."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from figeval.types import JSON, Interval, IntervalEnds


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest(IntervalEnds):
    """Difference of run A minus run B over the `n` examples that both answered, in `clusters` independent groups.

    `p` is the p-value of `test`, or None if there is nothing to test. `freedom` has the degrees of freedom of `stderr`.
    `effective_clusters` is the number of equally sized groups with the same precision. `a_only` and `b_only` count the
    examples that only one run got right, for 0/1 values, and `effective_n` is the number of independent examples with
    the same precision. `differing` clusters have different sums. `note` is a caveat, e.g. that there is no interval.
    """

    n: int
    clusters: int
    effective_clusters: float | None = None
    value_a: float | None = None
    value_b: float | None = None
    difference: float | None = None
    freedom: float | None = None
    interval: Interval = field(default_factory=Interval)
    test: str = ""
    p: float | None = None
    a_only: int | None = None
    b_only: int | None = None
    effective_n: float | None = None
    differing: int | None = None
    note: str = ""

    def to_dict(self) -> JSON:
        """Return the fields as values that JSON can represent; of the interval, its ends and the name of its method."""
        names = [field.name for field in fields(self)]
        index = names.index("freedom")
        names[index:index] = ["low", "high", "stderr"]
        words = str(self.interval) if self.low is not None else ""  # `note` says why there is none
        return {name: getattr(self, name) for name in names} | {"interval": words}
