"""Metrics of explained labels: `acc@0`, `acc@50=MODEL` and `acc@60=MODEL` (Chakrabarty et al. 2022, section 4).

A text is read as a label, "Entailment" or "Contradiction", followed by its explanation. `acc@k` is the share of the
texts whose label is right and whose explanation scores k or more of 100 when compared with the reference. FLUTE's score
is the mean of BERTScore and BLEURT; here it is the cosine of MODEL's embeddings, or MODEL's score of the two texts,
which must lie between 0 and 1. Figures from different models are therefore not comparable with each other or with the
paper's. A text without a label has no value; such texts are counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from figeval import (
    Batched,
    GenerationExample,
    Measured,
    MetricContext,
    MetricModel,
    ModelError,
    Prediction,
    Text,
    TextPair,
    answered,
    batched,
    strip_reasoning,
)

LABEL = re.compile(
    r"\W*(?:(?:label|answer|relation)\W+)?(?:(entail(?:s|ed|ment)?)|(contradict(?:s|ed|ion|ory)?))\b(.*)",
    re.IGNORECASE | re.DOTALL,
)
NO_LABEL = "texts that do not begin with a label"
Cases = Sequence[tuple[GenerationExample, Prediction]]


def parse_answer(text: str) -> tuple[str, str] | None:
    """Return the label and explanation of a text, or None if it does not begin with a label."""
    match = LABEL.match(strip_reasoning(text))
    if match is None:
        return None
    return ("entailment" if match[1] else "contradiction"), match[3].strip(" .:,;*-\n\t")


def _read(cases: Cases) -> list[tuple[tuple[str, str], tuple[str, str]] | Measured]:
    """Return, for each case, label and explanation of the text and of the reference, or why they are missing."""
    answers: list[tuple[tuple[str, str], tuple[str, str]] | Measured] = []
    for example, prediction in cases:
        reference = parse_answer(example.references[0]) if example.references else None
        if reference is None or not answered(prediction) or not isinstance(prediction.value, str):
            answers.append(Measured(None))
        else:
            response = parse_answer(prediction.value)
            answers.append(Measured(None, (NO_LABEL,)) if response is None else (response, reference))
    return answers


def _of_labels(cases: Cases) -> list[Measured]:
    """Return 1 for each right label and 0 for each wrong one."""
    return [
        answer if isinstance(answer, Measured) else Measured(float(answer[0][0] == answer[1][0]))
        for answer in _read(cases)
    ]


label_accuracy = batched(_of_labels, absent="no text begins with a label")


def explained_at(min_score: int, context: MetricContext) -> Batched:
    """Return the metric `acc@<least>` that compares explanations with a model.

    Raises:
        ModelError: the model neither embeds nor scores pairs.
    """
    model = context.model(context.argument)
    if not model.capabilities & {"embed", "score_pairs"}:
        has = ", ".join(sorted(model.capabilities))
        raise ModelError(
            f"{context.name}={context.argument}: it offers {has}; name a model that embeds or scores pairs"
        )

    def measure(cases: Cases) -> list[Measured]:
        answers = _read(cases)
        right = [answer for answer in answers if not isinstance(answer, Measured) and answer[0][0] == answer[1][0]]
        scores = iter(_closeness(model, [(response[1], reference[1]) for response, reference in right], context))

        def value(answer: Any) -> Measured:
            if isinstance(answer, Measured):
                return answer
            return Measured(float(answer[0][0] == answer[1][0] and 100 * next(scores) >= min_score))

        return [value(answer) for answer in answers]

    def describe() -> dict[str, Any]:
        remark = f"explanations compared by {context.argument}, not by BERTScore and BLEURT as in the paper"
        return {"fingerprint": model.fingerprint, "remark": remark}

    return batched(measure, absent="no text begins with a label", describe=describe)


def _closeness(model: MetricModel, pairs: Sequence[tuple[str, str]], context: MetricContext) -> list[float]:
    """Return how close each explanation is to its reference; an empty explanation scores 0.

    Raises:
        ModelError: a score is not between 0 and 1.
    """
    import numpy as np

    filled = [pair for pair in pairs if all(text.strip() for text in pair)]
    if "embed" in model.capabilities:
        vectors = np.array([output for output, _ in model.answer([Text(text) for pair in filled for text in pair])])
        left, right = vectors[::2], vectors[1::2]
        lengths = np.linalg.norm(left, axis=-1) * np.linalg.norm(right, axis=-1) if len(filled) else np.ones(0)
        filled_scores = ((left * right).sum(axis=-1) / np.where(lengths > 0, lengths, 1.0)).tolist() if filled else []
    else:
        filled_scores = (
            [float(output) for output, _ in model.answer([TextPair(*pair) for pair in filled])] if filled else []
        )
        if invalid := next((score for score in filled_scores if not 0 <= score <= 1), None):
            raise ModelError(f"{context.name}={context.argument}: the score {invalid:.3g} is not between 0 and 1")
    scores = iter(filled_scores)
    return [next(scores) if all(text.strip() for text in pair) else 0.0 for pair in pairs]


explained_50: Callable[[MetricContext], Batched] = partial(explained_at, 50)
explained_60: Callable[[MetricContext], Batched] = partial(explained_at, 60)
