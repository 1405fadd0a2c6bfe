"""Metrics: per-example numbers, their mean or another statistic, and a valid interval around it.

The author of a metric needs:

* a function `(example, prediction) -> float | None`, which is a metric as it stands; its mean over examples is the
  score;
* `Statistic`, which combines per-example numbers if the score is not a mean (macro-F1, a correlation);
* `collective`, for a metric whose numbers depend on the other examples (a nearest neighbour);
* `batched`, for a metric whose numbers are computed for many examples in one call, each a `Measured`;
* `answered`, `tied_answers` and `expected_over_ties`, which read a prediction and score ties by expectation.

docs/metrics.md, "Rules for metrics", has an example of each.
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
    quotient,
    ratio,
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
    "quotient",
    "ratio",
    "tied_answers",
]
