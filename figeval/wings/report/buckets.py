"""Scores by properties of the texts: the length of the input, and its lexical overlap with the right answer.

Examples are divided at the quartiles of a property. The texts are needed to measure it, so only reports that read them
have these scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from figeval.metrics.catalogue import Metrics
from figeval.metrics.texts import words
from figeval.records.predictions import PredictionRow
from figeval.records.schema import CHOSEN_ON_TEST, BreakdownRecord, TaskRecord
from figeval.runs.score import TaskScorer
from figeval.runs.selection_bias import without_intervals
from figeval.runs.stored import metrics_in
from figeval.types import Example

LENGTH, OVERLAP = "words of the input", "overlap of input and right answer"
OVERLAP_OF_TEXTS = "overlap of the two texts"
QUARTILES = (0.25, 0.5, 0.75)
FEWEST = 8  # examples that are worth dividing


class Measured(NamedTuple):
    """Properties of an example: number of words, and lexical overlap with its name, if there is one."""

    length: int
    overlap: float | None
    overlap_name: str


def measured(example: Example, options: str, gold: str) -> Measured:
    """Return the properties of an example.

    The overlap is the Jaccard index of two sets of words, whatever their case: those of the input and the right option
    or the first reference, or those of the two texts of a pair, whose right answer is a label.

    Args:
        example: the example, with its language and segmenter (`TaskSpec.with_language`).
        options: name of the field with the options; empty if there are none.
        gold: name of the field with the right answer.
    """
    values = {name: getattr(example, name, None) for name in (options, gold, "candidates", "inputs", "references")}
    given = values["inputs"]
    asked = example.asked if given is None else [part for one in given.values() for part in _listed(one)]
    tokens = [words(text, example) for text in asked]
    length = sum(map(len, tokens))
    own = {word for each in tokens for word in each}
    if references := values["references"]:
        return Measured(length, _jaccard(own, set(words(references[0], example))), OVERLAP)
    choices, right = values.get(options) or values["candidates"], values[gold]
    place = right[0] if isinstance(right, tuple) and right else right
    if choices and isinstance(place, int) and 0 <= place < len(choices):
        return Measured(length, _jaccard(own, set(words(choices[place], example))), OVERLAP)
    if len(tokens) == 2:
        return Measured(length, _jaccard(set(tokens[0]), set(tokens[1])), OVERLAP_OF_TEXTS)
    return Measured(length, None, "")


def _listed(value: Any) -> Sequence[str]:
    return (value,) if isinstance(value, str) else value


def _jaccard(one: set[str], other: set[str]) -> float | None:
    return len(one & other) / len(one | other) if one | other else None


def bucketed(
    task: TaskRecord, rows: Mapping[str, PredictionRow], properties: Mapping[str, Measured], metrics: Metrics, seed: int
) -> Iterator[BreakdownRecord]:
    """Yield the scores of a run by length and by overlap, the lowest bucket first.

    Args:
        task: record of the task.
        rows: stored rows by the id of the example.
        properties: properties of the examples by id.
        metrics: the installed metrics.
        seed: random seed of the bootstrap.
    """
    own = metrics_in(task, rows.values(), metrics)
    scorer = TaskScorer(metrics=own, strict=False, seed=seed, settings=task.settings)
    overlaps = next((one.overlap_name for one in properties.values() if one.overlap_name), OVERLAP)
    lengths = {name: float(one.length) for name, one in properties.items()}
    found = {name: one.overlap for name, one in properties.items() if one.overlap is not None}
    for title, values, decimals in ((LENGTH, lengths, 0), (overlaps, found, 2)):
        labels = quartiles(values, decimals)
        marked: list[PredictionRow] = [
            {**row, "meta": {title: labels[name]}} for name, row in rows.items() if name in labels
        ]
        if not marked:
            continue
        breakdown = scorer.breakdown(title, lambda marked=marked: marked)  # type: ignore[misc]
        order = list(dict.fromkeys(labels.values()))
        breakdown.groups.sort(key=lambda group, order=order: order.index(group.value))  # type: ignore[misc]
        if any(score.interval.reason == CHOSEN_ON_TEST for score in task.scores):
            without_intervals(task.model_copy(update={"breakdowns": [breakdown]}))
        yield breakdown


def quartiles(values: Mapping[str, float], decimals: int) -> dict[str, str]:
    """Return the bucket of each example, e.g. `12 to 17`, in ascending order; empty if there is only one.

    Equal values are in one bucket, so there are fewer than four buckets if many values are equal.
    """
    if len(values) < FEWEST:
        return {}
    numbers = np.array(list(values.values()))
    edges = np.unique(np.quantile(numbers, QUARTILES, method="inverted_cdf"))
    places = np.searchsorted(edges, numbers)  # values up to an edge are below it
    if len(set(places.tolist())) < 2:
        return {}
    spans = {
        int(place): (float(numbers[places == place].min()), float(numbers[places == place].max()))
        for place in np.unique(places)
    }
    limits = {place: [f"{one:.{decimals}f}" for one in span] for place, span in spans.items()}
    shown = {place: low if low == high else f"{low} to {high}" for place, (low, high) in limits.items()}
    ordered = sorted(zip(values, places.tolist(), strict=True), key=lambda item: item[1])
    return {name: shown[place] for name, place in ordered}
