"""Pairs: which label holds between two texts.

Several classes may stand for one label: a three-way NLI head on two labels, or the words "No" and "Maybe" for
non-entailment. Every route that has a score per class decides alike: the label is that of the most probable class, as
three-way models are scored on two labels (McCoy et al. 2019, HANS). Adding the classes of a label up would be
another rule, by which .40/.30/.30 is no entailment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from figeval.answers import VERSION
from figeval.errors import CapabilityError, TaskError
from figeval.prompts import PromptContext
from figeval.task_types.base import HIDDEN, TaskType, blank_texts, metric
from figeval.task_types.fields import Definition, LabelField, TextField
from figeval.task_types.routes import Dialogue, ReplyReader, Route, Scores, by_reply, cosine_scores, decide, pair_scores
from figeval.types import Cloze, Continuation, Example, PairLabel, Prediction, Reply, Value

GAP = "\ue000"  # a private-use character: stands for the label word while the cloze block is rendered
THRESHOLD: dict[str, Any] = {  # what routes with a threshold declare
    "settings": {"threshold": 0.5},
    "legend": "a pair is called {labels[0]} if its score is {threshold:g} or more, else {labels[1]}",
    "labels": 2,
}
CLASSES = "figeval.metrics.classification"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairExample(Example):
    """Two texts and the relation between them (premise and hypothesis, idiom and paraphrase)."""

    left: Annotated[str, TextField("The first text: premise, idiom in its sentence.")]
    right: Annotated[str, TextField("The second text: hypothesis, paraphrase.")]
    label: Annotated[str | None, LabelField("One of the task's labels; null where it is hidden.")]

    @property
    def texts(self) -> tuple[str, ...]:  # noqa: D102
        return (self.left, self.right)

    @property
    def subject(self) -> str:  # noqa: D102
        return self.left

    @property
    def asked(self) -> tuple[str, ...]:  # noqa: D102
        return (self.left, self.right)

    @property
    def hidden(self) -> bool:  # noqa: D102
        return self.label is None


# ---- routes ----------------------------------------------------------------------------------------------------------


def _decided(example: PairExample, context: PromptContext, classes: Mapping[str, Sequence[float]]) -> Prediction:
    """The label of the most probable class; `classes` are the probabilities of each label's classes.

    `scores` are the probabilities of the labels' best classes, and so decide as the classes do. Where classes of
    several labels tie, `among` has a label for each of them: of three equal classes two may be one label's.
    """
    names = [label for label in context.labels for _ in classes[label]]
    decided = decide(example.id, [value for label in context.labels for value in classes[label]])
    scores = tuple(max(classes[label]) for label in context.labels)
    if not isinstance(decided.value, int):
        return replace(decided, scores=scores, labels=context.labels)
    best = decided.scores[decided.value]
    among = tuple(name for name, score in zip(names, decided.scores, strict=True) if score == best)
    tied = len(set(among))
    return replace(
        decided,
        value=names[decided.value],
        scores=scores,
        labels=context.labels,
        tied=tied,
        among=among if tied > 1 else (),
    )


def by_head(example: PairExample, context: PromptContext) -> Dialogue:
    """Class probabilities of a trained head (NLI)."""
    (answer,) = yield [PairLabel(example.left, example.right, context.labels)]
    found = {label: answer[label] for label in context.labels}
    return _decided(example, context, {label: p if isinstance(p, tuple) else (float(p),) for label, p in found.items()})


def by_cloze(example: PairExample, context: PromptContext) -> Dialogue:
    """The label whose word is most probable in the gap, reading both sides."""
    rendered = context.block("cloze", example, gap=GAP)
    before, gap, after = rendered.partition(GAP)
    if not gap or GAP in after:
        raise TaskError("the cloze block of the template must contain {{ gap }} exactly once")
    words = [word for label in context.labels for word in context.words(label)]
    (logprobs,) = yield [Cloze(before, after, tuple(words))]
    return _decided(example, context, _shares(context, logprobs))


def by_verbalizer(example: PairExample, context: PromptContext) -> Dialogue:
    """The label whose word a left-to-right model finds most probable behind the context."""
    question = context.question("context", example)
    words = [word for label in context.labels for word in context.words(label)]
    logprobs = yield [Continuation(question, context.begun(f" {word}")) for word in words]
    return _decided(example, context, _shares(context, logprobs))


def read_word(example: PairExample, context: PromptContext, reply: Reply) -> Prediction:
    """Return the label whose word a reply says."""
    from figeval.answers.extract import extract_label

    found = extract_label(reply, [context.words(label) for label in context.labels])
    value = None if found.index is None else context.labels[found.index]
    return Prediction(example_id=example.id, value=value, labels=context.labels, status=found.status)


def _shares(context: PromptContext, logprobs: Sequence[float]) -> dict[str, tuple[float, ...]]:
    """P(word | it is one of the words), from the log-probabilities of all labels' words in their order.

    Equal log-probabilities stay equal. Words that are all impossible are equally probable, NaN anywhere is NaN.
    """
    top = math.nan if any(map(math.isnan, logprobs)) else max(logprobs)
    weights = [1.0 if value == top else math.exp(value - top) for value in logprobs]
    total = math.fsum(weights)
    shares = iter([weight / total for weight in weights])
    return {label: tuple(next(shares) for _ in context.words(label)) for label in context.labels}


def by_threshold(
    example: PairExample,
    context: PromptContext,
    closeness: Callable[[str, tuple[str, ...]], Scores] = pair_scores,
) -> Dialogue:
    """The first label where the pair is at least as close as the task's threshold, else the second.

    `scores` are the closeness and the threshold it has to reach: equal is enough, and no tie.
    """
    (found,) = yield from closeness(example.left, (example.right,))
    if len(context.labels) != 2:
        raise CapabilityError(f"a threshold tells two labels apart, not {len(context.labels)}; use another model")
    threshold = float(context.settings["threshold"])
    scores = (float(found), threshold)
    if math.isnan(found):
        return Prediction(example_id=example.id, value=None, scores=scores, labels=context.labels, status="nan")
    value = context.labels[0 if found >= threshold else 1]
    return Prediction(example_id=example.id, value=value, scores=scores, labels=context.labels)


# ---- the type --------------------------------------------------------------------------------------------------------


class Pairs(TaskType[PairExample]):
    """Say which label holds between two texts."""

    name = "pairs"
    Example = PairExample
    query = "left"
    gold_fields = ("label",)
    routes = (
        Route(name="by_head", start=by_head, needs=frozenset({"label_pairs"})),
        Route(
            name="by_cloze",
            start=by_cloze,
            needs=frozenset({"fill"}),
            blocks=frozenset({"cloze"}),
            compares_words=True,
        ),
        Route(
            name="by_verbalizer",
            start=by_verbalizer,
            needs=frozenset({"loglikelihood"}),
            question="context",
            compares_words=True,
        ),
        Route(name="by_threshold", start=by_threshold, needs=frozenset({"score_pairs"}), **THRESHOLD),
        Route(
            name="by_cosine_threshold",
            start=partial(by_threshold, closeness=cosine_scores),
            needs=frozenset({"embed"}),
            **THRESHOLD,
        ),
        by_reply("by_label_word", "word", ReplyReader(read_word, VERSION), metrics=("acc_of_all", "parse_rate")),
    )
    metrics = (
        metric("acc", f"{CLASSES}:pair_accuracy"),
        metric("acc_of_all", f"{CLASSES}:pair_accuracy_of_all"),
        metric("parse_rate", f"{CLASSES}:parse_rate"),
        metric("macro_f1", f"{CLASSES}:macro_f1"),
        metric("balanced_acc", f"{CLASSES}:balanced_accuracy"),
    )

    def check(self, task: Definition) -> None:
        """A relation is one of at least two labels."""
        if len(task.labels) < 2:
            raise ValueError("a pairs task lists its labels, e.g. labels: [entailment, non-entailment]")

    def few_shot_answer(self, block: str, example: PairExample, context: PromptContext) -> str | None:
        """The first word that expresses the label."""
        assert example.label is not None
        return f" {context.words(example.label)[0]}" if block in ("context", "word") else None

    def value_problem(self, value: Value, _example: PairExample, labels: Sequence[str]) -> str:  # noqa: D102
        return "" if value in labels else f"{value!r:.80} is not among the labels {', '.join(labels)}"

    def gold_class(self, example: PairExample) -> str | None:  # noqa: D102
        return HIDDEN if example.label is None else example.label

    def oddities(self, example: PairExample) -> Iterator[tuple[str, str]]:  # noqa: D102
        yield from blank_texts(example, "left", "right")

    def check_training(self, task: Definition, train: Sequence[PairExample]) -> None:
        """No head can learn a label of which there is no example."""
        found = {example.label for example in train}
        missing = [label for label in task.labels if label not in found]
        if missing:
            has = ", ".join(sorted(str(label) for label in found))
            raise ValueError(f"no example of train has the label {missing[0]!r} (only {has}); raise --limit")
