"""Metrics: two whose counts are added up over all examples, and two that are means."""

import numpy as np

from figeval import Statistic


def entities(tags):
    """(start, end, kind) of every B-… I-… stretch; an I-… that follows nothing of its kind begins one."""
    spans, start = set(), None
    for index, tag in enumerate((*tags, "O")):
        kind = tags[start][2:] if start is not None else None
        if start is not None and tag != f"I-{kind}":
            spans.add((start, index, kind))
            start = None
        if start is None and tag != "O":
            start = index
    return spans


def right_tokens(example, prediction):
    """(right, all) tokens; None where there is no answer, or none is known."""
    if example.tags is None or prediction.value is None:
        return None
    right = sum(tag == other for tag, other in zip(example.tags, prediction.value, strict=True))
    return float(right), float(len(example.tags))


def found_entities(example, prediction):
    """(right, predicted, gold) entities."""
    if example.tags is None or prediction.value is None:
        return None
    gold, predicted = entities(example.tags), entities(prediction.value)
    return float(len(gold & predicted)), float(len(predicted)), float(len(gold))


def sentence_accuracy(example, prediction):
    """Whether every token is right. A mean over examples: that is what `figeval compare` pairs."""
    if example.tags is None or prediction.value is None:
        return None
    return float(prediction.value == example.tags)


def share(sums):
    """Right / all; NaN over nothing."""
    right, total = sums[..., 0], sums[..., 1]
    return np.divide(right, total, out=np.full(np.shape(total), np.nan), where=total != 0)


def f1(sums):
    """2 · right / (predicted + gold); NaN where there is neither."""
    both = sums[..., 1] + sums[..., 2]
    return np.divide(2 * sums[..., 0], both, out=np.full(np.shape(both), np.nan), where=both != 0)


def readable(example, prediction):
    """Whether there was a tag for every token; None where there was no reply at all."""
    return None if prediction.status == "error" else float(prediction.status == "ok")


TOKEN_ACCURACY = Statistic(right_tokens, share)
ENTITY_F1 = Statistic(found_entities, f1)
