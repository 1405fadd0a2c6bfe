"""Soft labels: metrics of answers beside the votes of several annotators, for `classification`, `pairs` and `rating`.

| module | contents |
|---|---|
| `votes` | reading of votes from the columns of an example |
| `soft_metrics` | distances of predicted probabilities from votes, errors per annotator, disagreement of annotators |
| `distances` | distances between two distributions |
| `annotators` | `figeval annotators`: the error of stored answers for every annotator |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hooks import hookimpl
from figeval.task_types.given import GIVEN

if TYPE_CHECKING:
    from figeval.hooks import CommandLine, MetricRegistrar

TASK_TYPES = ("classification", "pairs", "rating")
SINGLE_LABEL = ("classification", "pairs")
# The scores of other routes are no probabilities. Replies have none either, unless several of them were sampled.
WITH_PROBABILITIES = (
    *("by_head", "by_cloze", "by_verbalizer", "by_label_word", "by_expected_value", "by_number"),
    GIVEN,
)
ON_SCALE = ("by_head", "by_expected_value", "by_number", GIVEN)


@hookimpl
def register_metrics(register: MetricRegistrar) -> None:
    """Register distances from the votes, errors per annotator, and how much the annotators disagree."""
    metrics = f"{__name__}.soft_metrics"
    for name, function in (("manhattan", "MANHATTAN"), ("jsd", "JSD"), ("soft_cross_entropy", "SOFT_CROSS_ENTROPY")):
        register(
            name,
            f"{metrics}:{function}",
            higher_is_better=False,
            task_types=TASK_TYPES,
            routes=WITH_PROBABILITIES,
        )
    register(
        "wasserstein",
        f"{metrics}:WASSERSTEIN",
        higher_is_better=False,
        task_types=["rating"],
        routes=WITH_PROBABILITIES,
    )
    register("annotator_error", f"{metrics}:ANNOTATOR_ERROR", higher_is_better=False, task_types=SINGLE_LABEL)
    register(
        "annotator_distance",
        f"{metrics}:ANNOTATOR_DISTANCE",
        higher_is_better=False,
        task_types=["rating"],
        routes=ON_SCALE,
    )
    register("majority_acc", f"{metrics}:MAJORITY_ACC", task_types=SINGLE_LABEL)
    register("annotator_acc", f"{metrics}:ANNOTATOR_ACC", task_types=SINGLE_LABEL)
    register(
        "least_annotator_error", f"{metrics}:LEAST_ANNOTATOR_ERROR", higher_is_better=False, task_types=SINGLE_LABEL
    )


@hookimpl
def register_commands(cli: CommandLine) -> None:
    """Register `figeval annotators`."""
    summary = "Print the error of the answers for every annotator."
    cli.add_lazy_command("annotators", f"{__name__}.annotators:annotators", summary)
