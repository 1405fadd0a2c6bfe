"""The task type `classification`: a text has one of the task's labels, the first of which is the positive one.

Models that were trained for it give probabilities (`by_head`). Others are asked about a description of each label,
which is the block `description` of the template: whether the text entails it (Yin et al. 2019), or how close they are.
Language models choose among words, as they do for pairs of texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from typing import Annotated, Any

from figeval.answers import VERSION
from figeval.prompts import PromptContext
from figeval.task_types.base import HIDDEN, TaskType, metric
from figeval.task_types.fields import Definition, LabelField, RowContext, TextField
from figeval.task_types.pairs import by_cloze, by_verbalizer, read_word
from figeval.task_types.routes import (
    Dialogue,
    ReplyReader,
    Route,
    Scores,
    by_reply,
    cosine_scores,
    decide,
    dot_scores,
    pair_scores,
)
from figeval.types import Example, PairLabel, Prediction, Value

from ..baselines.guessing import gold_answers
from .requests import TextLabels

CLASSES = "figeval.metrics.classification"
METRICS = f"{__package__}.metrics"
HOLDS, HOLDS_NOT = "entailment", "non-entailment"  # labels that NLI heads know
DESCRIPTION = frozenset({"description"})


@dataclass(frozen=True, slots=True)
class FilledTextField(TextField):
    """A string with something in it."""

    def read(self, value: Any, row: RowContext) -> str:
        text = super(FilledTextField, self).read(value, row)
        if not text.strip():
            raise row.error("the text is empty, so nothing can be said of it; leave out the row")
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationExample(Example):
    """A text and its label."""

    text: Annotated[str, FilledTextField("The text.")]
    label: Annotated[str | None, LabelField("One of the task's labels; null where it is hidden.")]

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text,)

    @property
    def subject(self) -> str:
        return self.text

    @property
    def hidden(self) -> bool:
        return self.label is None


@gold_answers.register
def _(example: ClassificationExample) -> tuple[str, ...]:
    return () if example.label is None else (example.label,)


# ---- routes ----------------------------------------------------------------------------------------------------------


def _decided(example: Example, context: PromptContext, scores: Sequence[float]) -> Prediction:
    """Return the label with the highest score; labels that tie for it are scored by expectation."""
    decided = decide(example.id, scores)
    value = context.labels[decided.value] if isinstance(decided.value, int) else None
    return replace(decided, value=value, labels=context.labels)


def descriptions(example: Example, context: PromptContext, *others: str) -> tuple[str, ...]:
    """Return what the task says of a text with each of its labels, and with the `others`, as the template puts it."""
    return tuple(context.block("description", example, option=label) for label in (*context.labels, *others))


def by_head(example: ClassificationExample, context: PromptContext) -> Dialogue:
    """Probabilities of a model that was made for these labels."""
    (found,) = yield [TextLabels(example.text, context.labels)]
    return _decided(example, context, [float(found[label]) for label in context.labels])


def by_entailment(example: ClassificationExample, context: PromptContext) -> Dialogue:
    """The label whose description the text entails with the highest probability (Yin et al. 2019, section 5)."""
    told = yield [PairLabel(example.text, claim, (HOLDS, HOLDS_NOT)) for claim in descriptions(example, context)]
    return _decided(example, context, [best_class(one[HOLDS]) for one in told])


def best_class(probability: float | tuple[float, ...]) -> float:
    """Return the probability of a label, of its best class where a head has several for it."""
    return max(probability) if isinstance(probability, tuple) else float(probability)


def by_closeness(
    example: ClassificationExample,
    context: PromptContext,
    closeness: Callable[[str, tuple[str, ...]], Scores] = pair_scores,
) -> Dialogue:
    """The label whose description is closest to the text."""
    scores = yield from closeness(example.text, descriptions(example, context))
    return _decided(example, context, scores)


# ---- the type --------------------------------------------------------------------------------------------------------


class Classification(TaskType[ClassificationExample]):
    """Say which label a text has."""

    name = "classification"
    Example = ClassificationExample
    query = "text"
    gold_fields = ("label",)
    folder = files(__package__)
    routes = (
        Route(name="by_head", start=by_head, requests=(TextLabels,)),
        Route(name="by_entailment", start=by_entailment, needs=frozenset({"label_pairs"}), blocks=DESCRIPTION),
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
        Route(
            name="by_dot",
            start=partial(by_closeness, closeness=dot_scores),
            needs=frozenset({"embed", "dot"}),
            blocks=DESCRIPTION,
        ),
        Route(
            name="by_cosine",
            start=partial(by_closeness, closeness=cosine_scores),
            needs=frozenset({"embed"}),
            blocks=DESCRIPTION,
        ),
        Route(name="by_pair_score", start=by_closeness, needs=frozenset({"score_pairs"}), blocks=DESCRIPTION),
        by_reply("by_label_word", "word", ReplyReader(read_word, VERSION), metrics=("acc_of_all", "parse_rate")),
    )
    metrics = (
        metric("acc", f"{CLASSES}:pair_accuracy"),
        metric("acc_of_all", f"{CLASSES}:pair_accuracy_of_all"),
        metric("parse_rate", f"{CLASSES}:parse_rate"),
        metric("f1", f"{METRICS}:POSITIVE_F1"),
        metric("macro_f1", f"{CLASSES}:macro_f1"),
        metric("balanced_acc", f"{CLASSES}:balanced_accuracy"),
        metric("roc_auc", f"{METRICS}:ROC_AUC"),
    )
    default_metrics = ("acc", "f1", "macro_f1", "balanced_acc", "roc_auc")
    default_baselines = ("chance", "majority")

    def check(self, task: Definition) -> None:
        """A label is one of at least two."""
        if len(task.labels) < 2:
            raise ValueError(
                "a classification task lists its labels, the positive one first, e.g. labels: [sarcastic, earnest]"
            )

    def few_shot_answer(self, block: str, example: ClassificationExample, context: PromptContext) -> str | None:
        """Return the first word that expresses the label."""
        assert example.label is not None
        return f" {context.words(example.label)[0]}" if block in ("context", "word") else None

    def value_problem(self, value: Value, _example: ClassificationExample, labels: Sequence[str]) -> str:
        return "" if value in labels else f"{value!r:.80} is not among the labels {', '.join(labels)}"

    def gold_class(self, example: ClassificationExample) -> str | None:
        return HIDDEN if example.label is None else example.label

    def oddities(self, example: ClassificationExample) -> Iterator[tuple[str, str]]:
        """A text without a letter or digit can be classified, but is hardly meant."""
        yield from unreadable(example.text)

    def check_training(self, task: Definition, train: Sequence[ClassificationExample]) -> None:
        """No head can learn a label of which there is no example."""
        found = {example.label for example in train}
        if missing := [label for label in task.labels if label not in found]:
            has = ", ".join(sorted(str(label) for label in found))
            raise ValueError(f"no example of train has the label {missing[0]!r} (only {has}); raise --limit")


def unreadable(text: str) -> Iterator[tuple[str, str]]:
    """Yield a text without letters and digits, as `TaskType.oddities` does."""
    if not any(map(str.isalnum, text)):
        yield "has neither letters nor digits", f"text ({text!r:.60})"
