"""Metrics of sets of labels. A label about which a model has no preference (`tied_labels`) is half in and half out."""

import numpy as np

from figeval import PerLabel, Statistic


def shares(prediction, labels):
    """How much of each label is predicted: 1, 0, or a half."""
    return [0.5 if label in prediction.tied_labels else float(label in prediction.value) for label in labels]


def exact(example, prediction):
    """The probability that the set is the right one; 1 / 2^labels by chance."""
    if example.themes is None or prediction.value is None:
        return None
    return float(prediction.value == example.themes - set(prediction.tied_labels)) / 2 ** len(prediction.tied_labels)


def counts(labels):
    """A function of example and prediction that gives (right, predicted, gold) of each label, one after the other."""

    def features(example, prediction):
        if example.themes is None or prediction.value is None:
            return None
        gold = [float(label in example.themes) for label in labels]
        predicted = shares(prediction, labels)
        rows = [(g * p, p, g) for g, p in zip(gold, predicted, strict=True)]
        return [number for row in rows for number in row]

    return features


def f1(sums):
    """2 · right / (predicted + gold) of sums (…, 3); NaN where there is neither."""
    both = sums[..., 1] + sums[..., 2]
    return np.divide(2 * sums[..., 0], both, out=np.full(np.shape(both), np.nan), where=both != 0)


def by_label(sums):
    """Sums (…, 3 · labels) as (…, labels, 3)."""
    return sums.reshape(*sums.shape[:-1], -1, 3)


def micro(sums):
    """F1 of the counts of all labels together."""
    return f1(by_label(sums).sum(axis=-2))


def macro(sums):
    """The mean F1 of the labels that there are, or were predicted."""
    each = f1(by_label(sums))
    is_number = ~np.isnan(each)
    total, summed = is_number.sum(axis=-1), np.where(is_number, each, 0).sum(axis=-1)
    return np.divide(summed, total, out=np.full(np.shape(total), np.nan), where=total != 0)


MICRO_F1 = PerLabel(lambda labels: Statistic(counts(labels), micro))
MACRO_F1 = PerLabel(lambda labels: Statistic(counts(labels), macro))
