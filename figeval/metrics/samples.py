"""Metrics of several samples of an answer (`--samples k`): majority vote, pass@k, and how far the samples agree.

All of them read the row of an example, which has the answer and the metrics of each sample. Whether an answer is right
is its `acc`, or else its `exact_match`. The row of a trivial model has no samples: its answer counts as if it were
drawn each time, so that the floor of pass@k is the probability that one of k guesses is right.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from statistics import fmean
from typing import Any

from figeval.metrics.statistic import OfSamples, of_samples
from figeval.task_types.base import metric
from figeval.types import WITHOUT_REPLY, Example

ACCURACIES = ("acc", "exact_match")  # metrics that say whether an answer is right, the first that a task has
TOO_FEW = "fewer than two samples of an answer could be read"
Row = Mapping[str, Any]


def sample_metrics(metrics: Sequence[str], k: int, *, writes_texts: bool) -> tuple[str, ...]:
    """Return the names of the metrics of k samples for a task with these metrics.

    Args:
        metrics: names of its metrics.
        k: number of samples.
        writes_texts: whether its answers are texts, which are hardly ever equal.
    """
    if writes_texts:
        return ("self_rouge_l",)
    right = (
        () if not set(ACCURACIES) & set(metrics) else (f"maj@{k}", *(f"pass@{j}" for j in sorted({max(2, k // 2), k})))
    )
    return (*right, "self_agreement", f"self_entropy@{k}")


def share_right(answer: Row) -> float | None:
    """Return the probability that an answer is right, 1 or 0 without ties; None if that is not known."""
    return next((answer["metrics"][name] for name in ACCURACIES if name in answer["metrics"]), None)


def readable(row: Row) -> list[Row]:
    """Return the samples of a row that have an answer."""
    return [sample for sample in row.get("samples", ()) if sample["status"] == "ok"]


def vote_of(sample: Row) -> str:
    """Return the answer of a sample in a form that can be counted."""
    return json.dumps(sample["pred"], sort_keys=True)


# ---- right answers ---------------------------------------------------------------------------------------------------


def majority_at(k: int) -> OfSamples:
    """Return maj@k: whether the most frequent of k answers is right (self-consistency, Wang et al. 2023).

    Samples without an answer do not vote. A tie is scored by expectation.
    """
    return of_samples(partial(majority, k), absent=f"no example has {k} samples with an answer that is right or wrong")


def majority(k: int, _example: Example, row: Row) -> float | None:
    """Return the probability that a fair draw among the most frequent answers is right."""
    if not row.get("samples"):
        return share_right(row)
    scored = [(vote_of(sample), right) for sample in readable(row) if (right := share_right(sample)) is not None]
    if not scored or len(row["samples"]) != k:
        return None
    counts = Counter(vote for vote, _ in scored)
    winners = [vote for vote, count in counts.items() if count == max(counts.values())]
    return fmean(fmean(right for other, right in scored if other == vote) for vote in winners)


def pass_at(k: int) -> OfSamples:
    """Return pass@k: the probability that at least one of k answers is right (Chen et al. 2021, section 2.1)."""
    return of_samples(partial(pass_rate, k), absent=f"no example has {k} samples that are right or wrong")


def pass_rate(k: int, _example: Example, row: Row) -> float | None:
    """Return the unbiased estimate of pass@k from n ≥ k samples, 1 − C(n − c, k) / C(n, k) if c of them are right.

    A sample without an answer is not right. An answer that ties is right with a probability p, and the estimate is the
    mean of 1 − Π(1 − p) over all choices of k samples.
    """
    samples: Sequence[Row] = row.get("samples", ())
    answers = readable(row) if samples else [row]
    is_unknown = any(share_right(answer) is None for answer in answers)
    if row["status"] in WITHOUT_REPLY or row["gold"] is None or is_unknown:
        return None
    if not samples:
        return 1 - (1 - (share_right(row) or 0.0)) ** k
    if len(samples) < k:
        return None
    wrong = [1 - (share_right(sample) or 0.0) for sample in samples]
    return 1 - _sum_of_products(wrong, k) / math.comb(len(wrong), k)


def _sum_of_products(values: Sequence[float], k: int) -> float:
    """Return the sum over all choices of k values of their product (elementary symmetric polynomial)."""
    sums = [1.0, *[0.0] * k]
    for value in values:
        for size in range(k, 0, -1):
            sums[size] += value * sums[size - 1]
    return sums[k]


# ---- self-agreement --------------------------------------------------------------------------------------------------


def self_agreement(_example: Example, row: Row) -> float | None:
    """Return the share of pairs of samples with the same answer, i.e. the unbiased probability that two agree."""
    counts = Counter(map(vote_of, readable(row)))
    n = counts.total()
    return None if n < 2 else sum(count * (count - 1) for count in counts.values()) / (n * (n - 1))


def self_entropy_of(k: int) -> OfSamples:
    """Return the entropy of k answers, in nats: 0 if all samples agree, log k if all differ."""
    bounds = (0.0, math.log(max(k, 2)))
    return of_samples(
        partial(self_entropy, k), absent=f"no example has {k} samples, two of them readable", bounds=bounds
    )


def self_entropy(k: int, _example: Example, row: Row) -> float | None:
    """Return the entropy of those of k answers that could be read."""
    counts = Counter(map(vote_of, readable(row)))
    n = counts.total()
    if n < 2 or len(row["samples"]) != k:
        return None
    return math.fsum(count / n * math.log(n / count) for count in counts.values())


def self_similarity(example: Any, row: Row) -> float | None:
    """Return the mean ROUGE-L of pairs of samples of a text, as `rouge_l` counts words; 1 if all are equal."""
    from figeval.metrics.texts import similarity  # which loads the type of written texts

    texts = [sample["pred"] for sample in readable(row)]
    return fmean(similarity(example, *pair) for pair in combinations(texts, 2)) if len(texts) > 1 else None


METRICS = (
    metric("maj@k", majority_at),
    metric("pass@k", pass_at),
    metric("self_agreement", of_samples(self_agreement, absent=TOO_FEW)),
    metric("self_entropy@k", self_entropy_of, lower_is_better=True),
    metric("self_rouge_l", of_samples(self_similarity, absent=TOO_FEW)),
)
