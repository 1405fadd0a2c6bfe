"""Soft labels: metrics of answers beside the votes of several annotators, for `classification`, `pairs` and `rating`.

| module | contents |
|---|---|
| `votes` | reading of votes from the columns of an example |
| `soft_metrics` | distances of predicted probabilities from votes, errors per annotator, disagreement of annotators |
| `distances` | distances between two distributions |
| `annotators` | `figeval show RUN --annotators`: the error of stored answers for every annotator |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    from figeval.hooks import MetricRegistrar, RunViewRegistrar

TASK_TYPES = ("classification", "pairs", "rating")
SINGLE_LABEL = ("classification", "pairs")
ON_SCALE = ("by_head", "by_expected_value", "by_number", "given")
# The scores of other routes are no probabilities. Replies have none either, unless several of them were sampled.
WITH_PROBABILITIES = (*ON_SCALE, "by_cloze", "by_verbalizer", "by_label_word")


@hookimpl
def register_metrics(register: MetricRegistrar) -> None:
    """Register distances from the votes, errors per annotator, and how much the annotators disagree."""

    def add(name: str, task_types: Sequence[str], routes: Sequence[str] = (), higher_is_better: bool = False) -> None:
        target = f"{__name__}.soft_metrics:{name.upper()}"
        register(name, target, higher_is_better=higher_is_better, task_types=task_types, routes=routes)

    for distance in ("manhattan", "jsd", "soft_cross_entropy"):
        add(distance, TASK_TYPES, WITH_PROBABILITIES)
    add("wasserstein", ["rating"], WITH_PROBABILITIES)
    add("annotator_error", SINGLE_LABEL)
    add("least_annotator_error", SINGLE_LABEL)
    add("annotator_distance", ["rating"], ON_SCALE)
    add("majority_acc", SINGLE_LABEL, higher_is_better=True)
    add("annotator_acc", SINGLE_LABEL, higher_is_better=True)


@hookimpl
def register_run_views(register: RunViewRegistrar) -> None:
    """Register `figeval show RUN --annotators`."""
    summary = "the error of the answers for every annotator (soft labels)."
    register("annotators", f"{__name__}.annotators:AnnotatorErrors", summary)
