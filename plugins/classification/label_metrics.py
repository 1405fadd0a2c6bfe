"""Metrics of classified texts, with one label each or with sets of labels.

F1 is a function of counts over the whole corpus and no mean over texts, so its intervals are bootstrapped by cluster.
Labels that tie for the best share one prediction, and open labels of a set are half predicted: the counts are then
expectations over fair draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from figeval.metrics.classification import per_label
from figeval.metrics.discrimination import area, area_features
from figeval.metrics.statistic import Features, PerLabel, Rows, Statistic, collective, quotient
from figeval.types import Prediction

if TYPE_CHECKING:
    from .multilabel import MultilabelExample

Floats: TypeAlias = NDArray[np.float64]


# ---- one label -------------------------------------------------------------------------------------------------------


def _positive_f1(true: Floats, predicted: Floats, gold: Floats) -> Floats:
    """Return F1 of the first label; NaN if no text has it, because recall is then undefined and 0 would mislead."""
    f1 = quotient(2 * true[..., 0], predicted[..., 0] + gold[..., 0])
    return np.where(gold[..., 0] > 0, f1, np.nan)


POSITIVE_F1 = per_label(_positive_f1)  # F1 of the first of the task's labels


def roc_features(rows: Rows, names: Sequence[str], settings: Mapping[str, Any]) -> dict[str, list[Features]]:
    """Return the features of each row for the area under the ROC curve.

    The area is the probability that a text with the positive label scores higher than one without it, where equal
    scores count one half (Hanley and McNeil 1982). The score of a text is the margin of its first label over the best
    other one.

    The features are those of `figeval.metrics.discrimination.area_features`.
    """
    usable = [len(row.get("scores") or ()) > 1 and row["gold"] is not None and row["pred"] is not None for row in rows]
    positive = next(iter(settings.get("labels", ())), None)
    scores = np.array([_margin(row["scores"]) for row, is_usable in zip(rows, usable, strict=True) if is_usable])
    gold = np.array(
        [row["gold"] == positive for row, is_usable in zip(rows, usable, strict=True) if is_usable], dtype=bool
    )
    if not 0 < gold.sum() < len(gold):
        return {name: [None] * len(rows) for name in names}
    features = iter(area_features(scores, gold).tolist())
    row_features: list[Features] = [next(features) if is_usable else None for is_usable in usable]
    return dict.fromkeys(names, row_features)


def _margin(scores: Sequence[Any]) -> float:
    """Return the margin of the first label over the best other one; equal infinite scores give 0, not NaN."""
    first, *other_scores = map(float, scores)
    best = max(other_scores)
    return 0.0 if first == best else first - best


def _area(sums: Floats) -> Floats:
    """Return the area from sums of `area_features`.

    Resamples of an area near 1 may come out higher than 1, because the error of the area is approximated by a sum.
    """
    return np.clip(area(sums), 0.0, 1.0)


ROC_AUC = collective(
    roc_features,
    combine=_area,
    absent="no scores, or all texts of one class",
    pooled=True,
    size_invariant=True,
    kinds=(("positive", 1), ("negative", 3)),
)


# ---- several labels --------------------------------------------------------------------------------------------------


def exact_match(example: MultilabelExample, prediction: Prediction) -> float | None:
    """Return the probability that the set is right, over fair draws for its open labels; 1 / 2^labels by chance."""
    if example.labels is None or prediction.value is None:
        return None
    return float(prediction.value == example.labels - set(prediction.tied_labels)) / float(
        2 ** len(prediction.tied_labels)
    )


def _set_counts(labels: tuple[str, ...], example: MultilabelExample, prediction: Prediction) -> Sequence[float] | None:
    """Return per label the true positives, predictions and gold labels; shape (3 · labels,)."""
    if example.labels is None or prediction.value is None:
        return None
    gold = [float(label in example.labels) for label in labels]
    predicted = [0.5 if label in prediction.tied_labels else float(label in prediction.value) for label in labels]
    return (*(g * p for g, p in zip(gold, predicted, strict=True)), *predicted, *gold)


def _micro(sums: Floats) -> Floats:
    """Return F1 of the decisions about all labels together, from sums (…, 3 · labels)."""
    true, predicted, gold = sums.reshape(*sums.shape[:-1], 3, -1).sum(axis=-1).transpose(-1, *range(sums.ndim - 1))
    return quotient(2 * true, predicted + gold)


def _macro(sums: Floats) -> Floats:
    """Return the unweighted mean of the labels' F1, over labels that occur as gold or as prediction."""
    true, predicted, gold = np.moveaxis(sums.reshape(*sums.shape[:-1], 3, -1), -2, 0)
    label_f1 = quotient(2 * true, predicted + gold)
    return quotient(np.nansum(label_f1, axis=-1), (~np.isnan(label_f1)).sum(axis=-1).astype(np.float64))


def _of_sets(combine: Any) -> PerLabel:
    return PerLabel(
        lambda labels: Statistic(lambda example, prediction: _set_counts(labels, example, prediction), combine)
    )


MICRO_F1 = _of_sets(_micro)
MACRO_F1 = _of_sets(_macro)
