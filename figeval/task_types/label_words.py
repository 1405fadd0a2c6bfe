"""Classification by the words that express labels, for types whose examples have one of the task's labels.

Several classes may express one label: a three-way NLI head for two labels, or the words "No" and "Maybe" for
non-entailment. Every route with a score per class decides in the same way: the label is that of the most probable
class, as three-way models are scored on two labels (McCoy et al. 2019, HANS). Summing the classes of a label would be a
different rule, by which .40/.30/.30 is not entailment.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from figeval.answers import VERSION
from figeval.errors import TaskError
from figeval.prompts import PromptContext
from figeval.task_types.base import HIDDEN, E, Metric, TaskType, metric
from figeval.task_types.fields import Definition
from figeval.task_types.given import Given, decide_index, label_of
from figeval.task_types.routes import Dialogue, ReplyReader, Route, by_reply, decide
from figeval.types import AnswerFormat, Cloze, Continuation, Example, Prediction, Reply, Value

GAP = "\ue000"  # private-use character that replaces the label word while the cloze block is rendered
METRICS = "figeval.metrics.classification"


def of_classes(example: Example, context: PromptContext, classes: Mapping[str, Sequence[float]]) -> Prediction:
    """Return the label of the most probable class; `classes` are the probabilities of each label's classes.

    `scores` are the probabilities of the labels' best classes, so they decide as the classes do. If classes of several
    labels tie, `tied_labels` has one for each of these classes: of three equal classes, two may belong to one label.
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
        tied_labels=among if tied > 1 else (),
    )


def word_shares(context: PromptContext, logprobs: Sequence[float]) -> dict[str, tuple[float, ...]]:
    """Return P(word | it is one of the words) by label, from the log-probabilities of all labels' words in order.

    Equal log-probabilities stay equal. If all words are impossible, they are equally probable; one NaN makes all NaN.
    """
    top = math.nan if any(map(math.isnan, logprobs)) else max(logprobs)
    weights = [1.0 if value == top else math.exp(value - top) for value in logprobs]
    total = math.fsum(weights)
    shares = iter([weight / total for weight in weights])
    return {label: tuple(next(shares) for _ in context.words(label)) for label in context.labels}


def by_cloze(example: Example, context: PromptContext) -> Dialogue:
    """Choose the label whose word is most probable in the gap, given the text on both sides."""
    rendered = context.block("cloze", example, gap=GAP)
    before, gap, after = rendered.partition(GAP)
    if not gap or GAP in after:
        raise TaskError("the cloze block of the template must contain {{ gap }} exactly once")
    words = [word for label in context.labels for word in context.words(label)]
    (logprobs,) = yield [Cloze(before, after, tuple(words))]
    return of_classes(example, context, word_shares(context, logprobs))


def by_verbalizer(example: Example, context: PromptContext) -> Dialogue:
    """Choose the label whose word a left-to-right model finds most probable after the context."""
    question = context.question("context", example)
    words = [word for label in context.labels for word in context.words(label)]
    logprobs = yield [Continuation(question, context.answer_start(f" {word}")) for word in words]
    return of_classes(example, context, word_shares(context, logprobs))


def word_format(_example: Example, context: PromptContext) -> AnswerFormat:
    """Return the words for all labels as the acceptable answers."""
    words = (word for label in context.labels for word in context.words(label))
    return AnswerFormat(choices=tuple(dict.fromkeys(words)))


def read_word(example: Example, context: PromptContext, reply: Reply) -> Prediction:
    """Return the label whose word a reply names."""
    from figeval.answers.extract import extract_label

    extracted = extract_label(reply, [context.words(label) for label in context.labels], example.language)
    value = None if extracted.index is None else context.labels[extracted.index]
    return Prediction(example_id=example.id, value=value, labels=context.labels, status=extracted.status)


BY_CLOZE = Route(
    name="by_cloze", start=by_cloze, needs=frozenset({"fill"}), blocks=frozenset({"cloze"}), compares_words=True
)
BY_VERBALIZER = Route(
    name="by_verbalizer",
    start=by_verbalizer,
    needs=frozenset({"loglikelihood"}),
    question="context",
    compares_words=True,
)
BY_LABEL_WORD = by_reply(
    "by_label_word",
    "word",
    ReplyReader(read_word, VERSION),
    answer_format=word_format,
    metrics=("acc_of_all", "parse_rate"),
)


class SingleLabelType(TaskType[E]):
    """Base of types whose examples have one of the task's labels, in the first of their gold fields."""

    gold_fields = ("label",)
    given_form = "one of the labels"
    metrics: ClassVar[tuple[Metric, ...]] = (
        metric("acc", f"{METRICS}:pair_accuracy"),
        metric("acc_of_all", f"{METRICS}:pair_accuracy_of_all"),
        metric(
            "acc_at_half", f"{METRICS}:accuracy_at_half", routes=("by_head", "by_cloze", "by_verbalizer")
        ),  # the others have no probabilities
        metric("parse_rate", f"{METRICS}:parse_rate"),
        metric("macro_f1", f"{METRICS}:macro_f1"),
        metric("balanced_acc", f"{METRICS}:balanced_accuracy"),
    )

    def few_shot_answer(self, block: str, example: E, context: PromptContext) -> str | None:
        """Return the first word that expresses the label."""
        return f" {context.words(self.gold(example))[0]}" if block in ("context", "word") else None

    def with_labels(self, example: E, names: Mapping[str, str]) -> E:
        (field,) = self.gold_fields
        label: Any = {field: names[getattr(example, field)]}
        prompted: Any = example.prompted
        return replace(example, **label, prompted=prompted and replace(prompted, **label))

    def value_problem(self, value: Value, _example: E, labels: Sequence[str]) -> str:
        """Return an error message if the value is not one of the task's labels."""
        return "" if value in labels else f"{value!r:.80} is not among the labels {', '.join(labels)}"

    def given(self, example: E, given: Given, labels: Sequence[str]) -> Prediction:
        """Return the label that is named or has the best score; labels that tie for it are kept."""

        def read(value: object) -> int:
            return labels.index(label_of(value, labels))

        scores = given.numbers("labels", len(labels), labels)
        if not scores:
            return Prediction(example_id=example.id, value=labels[read(given.value)], labels=tuple(labels))
        prediction = replace(decide_index(example.id, given, scores, read), labels=tuple(labels))
        if prediction.value is None:
            return prediction
        best = tuple(label for label, score in zip(labels, scores, strict=True) if score == max(scores))
        return replace(prediction, value=best[0], tied_labels=best if len(best) > 1 else ())

    def gold_class(self, example: E) -> str | None:
        label: str | None = self.gold(example)
        return HIDDEN if label is None else label

    def check_training(self, task: Definition, train: Sequence[E]) -> None:
        """Check training examples. Raises `ValueError` for a label without examples, because no head can learn it."""
        labels = {self.gold(example) for example in train}
        if missing := [label for label in task.labels if label not in labels]:
            has = ", ".join(sorted(map(str, labels)))
            raise ValueError(f"no training example has the label {missing[0]!r} (only {has}); raise --limit")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextExample(Example, ABC):
    """Example that asks about its `text`.

    A subclass defines it as a property, or as a field: `text: Annotated[str, TextField("…")] = field()`. Without
    `= field()`, a dataclass would take the abstract property as the field's default.

    Attributes:
        gold_field: name of the field with the right answer, whose value is None if the answer is hidden.
    """

    gold_field: ClassVar[str]

    @property
    @abstractmethod
    def text(self) -> str:
        """Text that is asked about."""

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts of the example, i.e. the text alone."""
        return (self.text,)

    @property
    def subject(self) -> str:
        """Subject of the example, i.e. its text."""
        return self.text

    @property
    def hidden(self) -> bool:
        """True if the right answer is hidden."""
        return getattr(self, self.gold_field) is None
