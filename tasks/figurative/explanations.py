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


def explained(text: str) -> tuple[str, str] | None:
    """Return the label and explanation of a text, or None if it does not begin with a label."""
    found = LABEL.match(strip_reasoning(text))
    if found is None:
        return None
    return ("entailment" if found[1] else "contradiction"), found[3].strip(" .:,;*-\n\t")


def _read(cases: Cases) -> list[tuple[tuple[str, str], tuple[str, str]] | Measured]:
    """Return, for each case, label and explanation of the text and of the reference, or why they are missing."""
    read: list[tuple[tuple[str, str], tuple[str, str]] | Measured] = []
    for example, prediction in cases:
        wanted = explained(example.references[0]) if example.references else None
        if wanted is None or not answered(prediction) or not isinstance(prediction.value, str):
            read.append(Measured(None))
        else:
            said = explained(prediction.value)
            read.append(Measured(None, (NO_LABEL,)) if said is None else (said, wanted))
    return read


def _of_labels(cases: Cases) -> list[Measured]:
    """Return 1 for each right label and 0 for each wrong one."""
    return [one if isinstance(one, Measured) else Measured(float(one[0][0] == one[1][0])) for one in _read(cases)]


label_accuracy = batched(_of_labels, absent="no text begins with a label")


def explained_at(least: int, context: MetricContext) -> Batched:
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

    def measured(cases: Cases) -> list[Measured]:
        read = _read(cases)
        right = [one for one in read if not isinstance(one, Measured) and one[0][0] == one[1][0]]
        scores = iter(_closeness(model, [(said[1], wanted[1]) for said, wanted in right], context))

        def value(one: Any) -> Measured:
            if isinstance(one, Measured):
                return one
            return Measured(float(one[0][0] == one[1][0] and 100 * next(scores) >= least))

        return [value(one) for one in read]

    def described() -> dict[str, Any]:
        remark = f"explanations compared by {context.argument}, not by BERTScore and BLEURT as in the paper"
        return {"fingerprint": model.fingerprint, "remark": remark}

    return batched(measured, absent="no text begins with a label", describe=described)


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
        found = ((left * right).sum(axis=-1) / np.where(lengths > 0, lengths, 1.0)).tolist() if filled else []
    else:
        found = [float(output) for output, _ in model.answer([TextPair(*pair) for pair in filled])] if filled else []
        if strange := next((score for score in found if not 0 <= score <= 1), None):
            raise ModelError(f"{context.name}={context.argument}: the score {strange:.3g} is not between 0 and 1")
    scores = iter(found)
    return [next(scores) if all(text.strip() for text in pair) else 0.0 for pair in pairs]


explained_50: Callable[[MetricContext], Batched] = partial(explained_at, 50)
explained_60: Callable[[MetricContext], Batched] = partial(explained_at, 60)
