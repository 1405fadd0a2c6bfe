"""Predictions → scores: per-example numbers, their mean or another statistic, and an honest interval around it.

Plugin authors need two names: a function `(example, prediction) -> float | None` is a metric as it stands, and
`Statistic` says how to combine per-example numbers where the score is no mean (macro-F1, a correlation); `collective`
makes one whose numbers depend on the other examples (a nearest neighbour).
"""

from figeval.metrics.statistic import Collective, PerLabel, Statistic, collective, mean_of

__all__ = ["Collective", "PerLabel", "Statistic", "collective", "mean_of"]
