"""Pairs: which label holds between two texts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from figeval.errors import CapabilityError, TaskError
from figeval.protocols.reading import read_word
from figeval.protocols.routes import Briefing, Dialogue, decide
from figeval.protocols.similarity import cosines
from figeval.types import Cloze, Continuation, PairExample, PairLabel, Prediction, Text, TextPair

GAP = "\ue000"  # a private-use character: stands for the label word while the cloze block is rendered


def _by_scores(example: PairExample, briefing: Briefing, scores: Iterable[float]) -> Prediction:
    """The label with the best score."""
    decided = decide(example.id, scores)
    value = briefing.labels[decided.value] if isinstance(decided.value, int) else None
    return replace(decided, value=value, labels=briefing.labels)


def by_head(example: PairExample, briefing: Briefing) -> Dialogue:
    """Label probabilities of a trained head (NLI)."""
    (probabilities,) = yield [PairLabel(example.left, example.right, briefing.labels)]
    return _by_scores(example, briefing, [probabilities[label] for label in briefing.labels])


def by_cloze(example: PairExample, briefing: Briefing) -> Dialogue:
    """Log P(label word in the gap), reading both sides; several words of a label are added up (Schick and Schütze
    2021, section 3.1).
    """
    rendered = briefing.render("cloze", example, gap=GAP)
    before, gap, after = rendered.partition(GAP)
    if not gap or GAP in after:
        raise TaskError("the cloze block of the template must contain {{ gap }} exactly once")
    words = [word for label in briefing.labels for word in briefing.words(label)]
    (logprobs,) = yield [Cloze(before, after, tuple(words))]
    return _by_scores(example, briefing, _per_label(briefing, dict(zip(words, logprobs, strict=True))))


def by_verbalizer(example: PairExample, briefing: Briefing) -> Dialogue:
    """Log P(label word | context) of a left-to-right model; several words of a label are added up."""
    context = briefing.render("context", example)
    words = [word for label in briefing.labels for word in briefing.words(label)]
    logprobs = yield [Continuation(context, briefing.begun(f" {word}")) for word in words]
    return _by_scores(example, briefing, _per_label(briefing, dict(zip(words, logprobs, strict=True))))


def by_label_word(example: PairExample, briefing: Briefing) -> Dialogue:
    """The label whose word the model writes."""
    (reply,) = yield [briefing.prompt("word", example)]
    return read_word(example, briefing, reply)


def _per_label(briefing: Briefing, logprobs: dict[str, float]) -> list[float]:
    return [_logsumexp([logprobs[word] for word in briefing.words(label)]) for label in briefing.labels]


def _logsumexp(values: list[float]) -> float:
    top = max(values)
    if math.isinf(top) or any(math.isnan(value) for value in values):
        return math.nan if any(math.isnan(value) for value in values) else top
    return top + math.log(sum(math.exp(value - top) for value in values))


def by_threshold(example: PairExample, briefing: Briefing) -> Dialogue:
    """The first label where the pair is at least as close as the task's threshold, else the second."""
    (closeness,) = yield [TextPair(example.left, example.right)]
    return _by_closeness(example, briefing, float(closeness))


def by_cosine_threshold(example: PairExample, briefing: Briefing) -> Dialogue:
    """The first label where the cosine of the two embeddings reaches the task's threshold, else the second."""
    left, right = yield [Text(example.left), Text(example.right)]
    return _by_closeness(example, briefing, float(cosines(left, [right])[0]))


def _by_closeness(example: PairExample, briefing: Briefing, closeness: float) -> Prediction:
    """`scores` are the closeness and the threshold it has to reach: equal is enough, and no tie."""
    if len(briefing.labels) != 2:
        raise CapabilityError(f"a threshold tells two labels apart, not {len(briefing.labels)}; use another model")
    scores = (closeness, briefing.threshold)
    if math.isnan(closeness):
        return Prediction(example_id=example.id, value=None, scores=scores, labels=briefing.labels, status="nan")
    value = briefing.labels[0 if closeness >= briefing.threshold else 1]
    return Prediction(example_id=example.id, value=value, scores=scores, labels=briefing.labels)
