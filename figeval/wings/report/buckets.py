"""Scores by properties of the texts: the length of the input, and its lexical overlap with the right answer.

Examples are divided at the quartiles of a property. The texts are needed to measure it, so only reports that read them
have these scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from figeval import Example, Harness, PredictionRow, TaskRecord
from figeval.language.words import split_words
from figeval.records.schema import BreakdownRecord
from figeval.runs.stored import break_down

LENGTH, OVERLAP = "words of the input", "overlap of input and right answer"
OVERLAP_OF_TEXTS = "overlap of the two texts"
QUARTILES = (0.25, 0.5, 0.75)
MIN_EXAMPLES = 8  # that are worth dividing


class TextProperties(NamedTuple):
    """Properties of an example: number of words, and lexical overlap with its name, if there is one."""

    length: int
    overlap: float | None
    overlap_name: str


def _words_of(text: str, example: Example) -> list[str]:
    return split_words(text, example.language, example.segmenter)


def measure_texts(example: Example, options: str, gold: str) -> TextProperties:
    """Return the properties of an example.

    The overlap is the Jaccard index of two sets of words, whatever their case: those of the input and the right option
    or the first reference, or those of the two texts of a pair, whose right answer is a label.

    Args:
        example: the example, with its language and segmenter (`TaskSpec.with_language`).
        options: name of the field with the options; empty if there are none.
        gold: name of the field with the right answer.
    """
    fields = {name: getattr(example, name, None) for name in (options, gold, "candidates", "inputs", "references")}
    inputs = fields["inputs"]
    texts = example.asked if inputs is None else [text for value in inputs.values() for text in _as_list(value)]
    tokens = [_words_of(text, example) for text in texts]
    length = sum(map(len, tokens))
    input_words = {word for text in tokens for word in text}
    if references := fields["references"]:
        return TextProperties(length, _jaccard(input_words, set(_words_of(references[0], example))), OVERLAP)
    choices, right = fields.get(options) or fields["candidates"], fields[gold]
    index = right[0] if isinstance(right, tuple) and right else right
    if choices and isinstance(index, int) and 0 <= index < len(choices):
        return TextProperties(length, _jaccard(input_words, set(_words_of(choices[index], example))), OVERLAP)
    if len(tokens) == 2:
        return TextProperties(length, _jaccard(set(tokens[0]), set(tokens[1])), OVERLAP_OF_TEXTS)
    return TextProperties(length, None, "")


def _as_list(value: Any) -> Sequence[str]:
    return (value,) if isinstance(value, str) else value


def _jaccard(a: set[str], b: set[str]) -> float | None:
    return len(a & b) / len(a | b) if a | b else None


def break_down_by_texts(
    task: TaskRecord,
    rows: Mapping[str, PredictionRow],
    properties: Mapping[str, TextProperties],
    harness: Harness,
    seed: int,
) -> Iterator[BreakdownRecord]:
    """Yield the scores of a run by length and by overlap, the lowest bucket first.

    Args:
        task: record of the task.
        rows: stored rows by the id of the example.
        properties: properties of the examples by id.
        harness: the installed metrics.
        seed: random seed of the bootstrap.
    """
    overlap_name = next((texts.overlap_name for texts in properties.values() if texts.overlap_name), OVERLAP)
    lengths = {name: float(texts.length) for name, texts in properties.items()}
    overlaps = {name: texts.overlap for name, texts in properties.items() if texts.overlap is not None}
    for title, values, decimals in ((LENGTH, lengths, 0), (overlap_name, overlaps, 2)):
        buckets = quartiles(values, decimals)
        labelled: list[PredictionRow] = [
            {**row, "meta": {title: buckets[name]}} for name, row in rows.items() if name in buckets
        ]
        if labelled:
            breakdown = break_down(task, labelled.copy, title, harness.metrics, seed)
            order = list(dict.fromkeys(buckets.values()))
            breakdown.groups.sort(key=lambda group, order=order: order.index(group.value))  # type: ignore[misc]
            yield breakdown


def quartiles(values: Mapping[str, float], decimals: int) -> dict[str, str]:
    """Return the bucket of each example, e.g. `12 to 17`, in ascending order; empty if there is only one.

    Equal values are in one bucket, so there are fewer than four buckets if many values are equal.
    """
    if len(values) < MIN_EXAMPLES:
        return {}
    numbers = np.array(list(values.values()))
    edges = np.unique(np.quantile(numbers, QUARTILES, method="inverted_cdf"))
    buckets = np.searchsorted(edges, numbers)  # values up to an edge are below it
    if len(set(buckets.tolist())) < 2:
        return {}
    names = {}
    for bucket in np.unique(buckets).tolist():
        members = numbers[buckets == bucket]
        low, high = (f"{limit:.{decimals}f}" for limit in (members.min(), members.max()))
        names[bucket] = low if low == high else f"{low} to {high}"
    ascending = sorted(zip(values, buckets.tolist(), strict=True), key=lambda item: item[1])
    return {example: names[bucket] for example, bucket in ascending}
