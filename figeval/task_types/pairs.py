"""Pairs: which label holds between two texts.

Several classes may stand for one label: a three-way NLI head on two labels, or the words "No" and "Maybe" for
non-entailment. Every route that has a score per class decides alike: the label is that of the most probable class, as
three-way models are scored on two labels (McCoy et al. 2019, HANS). Adding the classes of a label up would be
another rule, by which .40/.30/.30 is no entailment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from figeval.answers.reading import read_word
from figeval.errors import CapabilityError, TaskError
from figeval.task_types.routes import Briefing, Dialogue, decide
from figeval.task_types.similarity import cosines
from figeval.types import Cloze, Continuation, PairExample, PairLabel, Prediction, Text, TextPair

GAP = "\ue000"  # a private-use character: stands for the label word while the cloze block is rendered


def _decided(example: PairExample, briefing: Briefing, classes: Mapping[str, Sequence[float]]) -> Prediction:
    """The label of the most probable class; `classes` are the probabilities of each label's classes.

    `scores` are the probabilities of the labels' best classes, and so decide as the classes do. Where classes of
    several labels tie, `among` has a label for each of them: of three equal classes two may be one label's.
    """
    names = [label for label in briefing.labels for _ in classes[label]]
    decided = decide(example.id, [value for label in briefing.labels for value in classes[label]])
    scores = tuple(max(classes[label]) for label in briefing.labels)
    if not isinstance(decided.value, int):
        return replace(decided, scores=scores, labels=briefing.labels)
    best = decided.scores[decided.value]
    among = tuple(name for name, score in zip(names, decided.scores, strict=True) if score == best)
    tied = len(set(among))
    return replace(
        decided,
        value=names[decided.value],
        scores=scores,
        labels=briefing.labels,
        tied=tied,
        among=among if tied > 1 else (),
    )


def by_head(example: PairExample, briefing: Briefing) -> Dialogue:
    """Class probabilities of a trained head (NLI)."""
    (answer,) = yield [PairLabel(example.left, example.right, briefing.labels)]
    found = {label: answer[label] for label in briefing.labels}
    return _decided(
        example, briefing, {label: p if isinstance(p, tuple) else (float(p),) for label, p in found.items()}
    )


def by_cloze(example: PairExample, briefing: Briefing) -> Dialogue:
    """The label whose word is most probable in the gap, reading both sides."""
    rendered = briefing.render("cloze", example, gap=GAP)
    before, gap, after = rendered.partition(GAP)
    if not gap or GAP in after:
        raise TaskError("the cloze block of the template must contain {{ gap }} exactly once")
    words = [word for label in briefing.labels for word in briefing.words(label)]
    (logprobs,) = yield [Cloze(before, after, tuple(words))]
    return _decided(example, briefing, _shares(briefing, logprobs))


def by_verbalizer(example: PairExample, briefing: Briefing) -> Dialogue:
    """The label whose word a left-to-right model finds most probable behind the context."""
    context = briefing.render("context", example)
    words = [word for label in briefing.labels for word in briefing.words(label)]
    logprobs = yield [Continuation(context, briefing.begun(f" {word}")) for word in words]
    return _decided(example, briefing, _shares(briefing, logprobs))


def by_label_word(example: PairExample, briefing: Briefing) -> Dialogue:
    """The label whose word the model writes."""
    (reply,) = yield [briefing.prompt("word", example)]
    return read_word(example, briefing, reply)


def _shares(briefing: Briefing, logprobs: Sequence[float]) -> dict[str, tuple[float, ...]]:
    """P(word | it is one of the words), from the log-probabilities of all labels' words in their order.

    Equal log-probabilities stay equal. Words that are all impossible are equally probable, NaN anywhere is NaN.
    """
    top = math.nan if any(map(math.isnan, logprobs)) else max(logprobs)
    weights = [1.0 if value == top else math.exp(value - top) for value in logprobs]
    total = math.fsum(weights)
    shares = iter([weight / total for weight in weights])
    return {label: tuple(next(shares) for _ in briefing.words(label)) for label in briefing.labels}


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
