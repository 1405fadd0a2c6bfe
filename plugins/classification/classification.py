"""The task type `classification`: a text has one of the task's labels, the first of which is the positive one.

Models that were trained for the labels give probabilities (`by_head`). Other models get a description of each label,
the block `description` of the template: does the text entail it (Yin et al. 2019), or how close are they? Language
models choose among words, as they do for pairs of texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Annotated, Any, ClassVar

from figeval.prompts import PromptContext
from figeval.task_types.base import metric
from figeval.task_types.fields import Definition, LabelField, RowContext, TextField
from figeval.task_types.label_words import BY_CLOZE, BY_LABEL_WORD, BY_VERBALIZER, SingleLabelType, TextExample
from figeval.task_types.routes import (
    Dialogue,
    Route,
    Scores,
    closeness_routes,
    decide,
    pair_scores,
)
from figeval.types import Example, PairLabel, Prediction

from ..baselines.guessing import gold_answers
from .requests import TextLabels

CLASSES = "figeval.metrics.classification"
METRICS = f"{__package__}.label_metrics"
HOLDS, HOLDS_NOT = "entailment", "non-entailment"  # labels that NLI heads have
DESCRIPTION = frozenset({"description"})


@dataclass(frozen=True, slots=True)
class FilledTextField(TextField):
    """A non-empty string."""

    def read(self, value: Any, row: RowContext) -> str:
        text = super(FilledTextField, self).read(value, row)
        if not text.strip():
            raise row.error("the text is empty and cannot be labelled; leave out the row")
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationExample(TextExample):
    """A text and its label."""

    gold_field: ClassVar[str] = "label"

    text: Annotated[str, FilledTextField("The text.")] = field()
    label: Annotated[str | None, LabelField("One of the task's labels; null if it is hidden.")]


@gold_answers.register
def _(example: ClassificationExample) -> tuple[str, ...]:
    return () if example.label is None else (example.label,)


# ---- routes ----------------------------------------------------------------------------------------------------------


def _predict(example: Example, context: PromptContext, scores: Iterable[float]) -> Prediction:
    """Return the label with the highest score; tied labels are scored by expectation."""
    prediction = decide(example.id, scores)
    value = context.labels[prediction.value] if isinstance(prediction.value, int) else None
    return replace(prediction, value=value, labels=context.labels)


def descriptions(example: Example, context: PromptContext, *other_labels: str) -> tuple[str, ...]:
    """Return the template's description of a text with each label of the task, and with each of `other_labels`."""
    return tuple(context.block("description", example, option=label) for label in (*context.labels, *other_labels))


def by_head(example: ClassificationExample, context: PromptContext) -> Dialogue:
    """Answer by the probabilities of a model trained for these labels."""
    (probabilities,) = yield [TextLabels(example.text, context.labels)]
    return _predict(example, context, [float(probabilities[label]) for label in context.labels])


def by_entailment(example: ClassificationExample, context: PromptContext) -> Dialogue:
    """Answer with the label whose description the text most probably entails (Yin et al. 2019, section 5)."""
    judgements = yield [PairLabel(example.text, claim, (HOLDS, HOLDS_NOT)) for claim in descriptions(example, context)]
    return _predict(example, context, [best_class(judgement[HOLDS]) for judgement in judgements])


def best_class(probability: float | tuple[float, ...]) -> float:
    """Return the probability of a label, or of its best class if a head has several for it."""
    return max(probability) if isinstance(probability, tuple) else float(probability)


def by_closeness(
    example: ClassificationExample,
    context: PromptContext,
    closeness: Callable[[str, tuple[str, ...]], Scores] = pair_scores,
) -> Dialogue:
    """Answer with the label whose description is closest to the text."""
    scores = yield from closeness(example.text, descriptions(example, context))
    return _predict(example, context, scores)


# ---- the type --------------------------------------------------------------------------------------------------------


class Classification(SingleLabelType[ClassificationExample]):
    """Say which label a text has."""

    name = "classification"
    Example = ClassificationExample
    query = "text"
    folder = files(__package__)
    routes = (
        Route(name="by_head", start=by_head, requests=(TextLabels,)),
        Route(name="by_entailment", start=by_entailment, needs=frozenset({"label_pairs"}), blocks=DESCRIPTION),
        BY_CLOZE,
        BY_VERBALIZER,
        *closeness_routes(by_closeness, blocks=DESCRIPTION),
        BY_LABEL_WORD,
    )
    metrics = (
        *SingleLabelType.metrics,
        metric("f1", f"{METRICS}:POSITIVE_F1"),
        metric("roc_auc", f"{METRICS}:ROC_AUC"),
    )
    default_metrics = ("acc", "f1", "macro_f1", "balanced_acc", "roc_auc")
    default_baselines = ("chance", "majority")

    def check(self, task: Definition) -> None:
        """Raise `ValueError` unless there are at least two labels."""
        if len(task.labels) < 2:
            raise ValueError(
                "a classification task must list its labels, the positive one first, e.g. labels: [sarcastic, earnest]"
            )

    def oddities(self, example: ClassificationExample) -> Iterator[tuple[str, str]]:
        """Yield a text without a letter or digit, which can be classified but is hardly meant."""
        yield from unreadable(example.text)


def unreadable(text: str) -> Iterator[tuple[str, str]]:
    """Yield a text without letters and digits, in the form of `TaskType.oddities`."""
    if not any(map(str.isalnum, text)):
        yield "has neither letters nor digits", f"text ({text!r:.60})"
