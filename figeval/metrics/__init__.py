"""Predictions → scores: per-example numbers, their mean or another statistic, and an honest interval around it.

Plugin authors need two names: a function `(example, prediction) -> float | None` is a metric as it stands, and
`Statistic` says how to combine per-example numbers where the score is no mean (macro-F1, a correlation).
"""

from figeval.metrics.statistic import PerLabel, Statistic, mean_of

__all__ = ["PerLabel", "Statistic", "mean_of"]
