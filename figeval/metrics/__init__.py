"""Predictions → scores: per-example numbers, their mean or another statistic, and an honest interval around it.

What the author of a metric needs:

* a function `(example, prediction) -> float | None` is a metric as it stands, and its mean over examples the score;
* `Statistic` says how to combine per-example numbers where the score is no mean (macro-F1, a correlation);
* `collective` makes a metric whose numbers depend on the other examples (a nearest neighbour);
* `batched` makes a metric whose numbers are computed for many examples in one call, each a `Measured`;
* `answered`, `tied_answers` and `expected_over_ties` tell what a prediction answers, and score ties by expectation.

docs/statistics.md, "What a metric needs to know", has an example of each.
"""

from figeval.metrics.statistic import (
    Batched,
    Collective,
    Measured,
    PerLabel,
    Statistic,
    batched,
    collective,
    mean_of,
)
from figeval.metrics.ties import answered, expected_over_ties, tied_answers

__all__ = [
    "Batched",
    "Collective",
    "Measured",
    "PerLabel",
    "Statistic",
    "answered",
    "batched",
    "collective",
    "expected_over_ties",
    "mean_of",
    "tied_answers",
]
