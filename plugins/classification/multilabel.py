"""The task type `multilabel`: a text has any number of the task's labels, maybe none. Each label is a decision.

A model that was trained for the labels gives each a probability of its own. Other models decide by comparison: does the
text entail the description of a label, is it closer to that than to the description of a text without any label, is Yes
more probable than No as the answer to a question about the label? Models that only generate list the labels.

A label whose margin is exactly 0 is open (`Prediction.tied_labels`): it is half in the answer and half out, so that
chance comes out as the expectation over all sets and not as the empty one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Annotated, Any, ClassVar

from figeval.prompts import PromptContext
from figeval.task_types.base import HIDDEN, TaskType, metric
from figeval.task_types.fields import Definition, Field, RowContext
from figeval.task_types.given import Given, label_of
from figeval.task_types.label_words import TextExample
from figeval.task_types.routes import (
    Dialogue,
    ReplyReader,
    Route,
    Scores,
    by_reply,
    closeness_routes,
    pair_scores,
)
from figeval.types import JSON, AnswerFormat, Continuation, Example, PairLabel, Prediction, Value

from ..baselines.guessing import gold_answers
from .classification import (
    DESCRIPTION,
    HOLDS,
    HOLDS_NOT,
    METRICS,
    FilledTextField,
    best_class,
    descriptions,
    unreadable,
)
from .requests import TextLabels

NO_LABELS = "none"  # a list without labels, unless a label is called so
EMPTY = "[]"  # a list without labels otherwise
HALF = {"threshold": 0.5}
READER = ReplyReader(f"{__package__}.label_replies:read_list", version="3")
YES_NO = {"yes": "Yes", "no": "No"}


@dataclass(frozen=True, slots=True)
class LabelsField(Field):
    """A list of the task's labels, which may be empty; null if they are hidden."""

    def read(self, value: Any, row: RowContext) -> frozenset[str] | None:
        if value is None:
            return None
        if not isinstance(value, list | tuple | set | frozenset):
            raise row.error(f"expected a list of labels, found {value!r:.80}; write [] where a text has none")
        for label in value:
            if label not in row.task.labels:
                raise row.error(f"{label!r:.80} is not among the labels {', '.join(row.task.labels)}")
        return frozenset(value)

    def schema(self) -> JSON:
        return {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class MultilabelExample(TextExample):
    """A text and its labels."""

    gold_field: ClassVar[str] = "labels"

    text: Annotated[str, FilledTextField("The text.")] = field()
    labels: Annotated[frozenset[str] | None, LabelsField("Labels of the text, possibly none; null if they are hidden.")]


@gold_answers.register
def _(example: MultilabelExample) -> tuple[str, ...]:
    return () if example.labels is None else tuple(sorted(example.labels))


# ---- routes ----------------------------------------------------------------------------------------------------------


def _predict(example: Example, context: PromptContext, margins: Iterable[float]) -> Prediction:
    """Return the labels with a margin above 0; those with a margin of exactly 0 are open. `scores` are the margins."""
    scores = tuple(map(float, margins))
    if any(map(math.isnan, scores)):
        return Prediction(example_id=example.id, value=None, scores=scores, labels=context.labels, status="nan")
    open_labels = tuple(label for label, score in zip(context.labels, scores, strict=True) if score == 0)
    return Prediction(
        example_id=example.id,
        value=frozenset(label for label, score in zip(context.labels, scores, strict=True) if score > 0),
        scores=scores,
        labels=context.labels,
        tied_labels=open_labels,
        tied=2 ** len(open_labels),  # number of equally good sets
    )


def by_head(example: MultilabelExample, context: PromptContext) -> Dialogue:
    """Answer with the labels whose own probability is above the threshold."""
    (probabilities,) = yield [TextLabels(example.text, context.labels, several=True)]
    return _predict(
        example, context, [probabilities[label] - context.settings["threshold"] for label in context.labels]
    )


def by_entailment(example: MultilabelExample, context: PromptContext) -> Dialogue:
    """Answer with the labels whose description the text entails rather than not (Yin et al. 2019, section 5)."""
    judgements = yield [PairLabel(example.text, claim, (HOLDS, HOLDS_NOT)) for claim in descriptions(example, context)]
    return _predict(
        example, context, [best_class(judgement[HOLDS]) - best_class(judgement[HOLDS_NOT]) for judgement in judgements]
    )


def by_questions(example: MultilabelExample, context: PromptContext) -> Dialogue:
    """Answer with the labels for which Yes is more probable than No, in one question per label."""
    questions = [context.question("decision", example, option=label) for label in context.labels]
    words = [context.answer_start(f" {context.settings[word]}") for word in YES_NO]
    logprobs = yield [Continuation(question, word) for question in questions for word in words]
    return _predict(example, context, [yes - no for yes, no in zip(logprobs[::2], logprobs[1::2], strict=True)])


def by_closeness(
    example: MultilabelExample,
    context: PromptContext,
    closeness: Callable[[str, tuple[str, ...]], Scores] = pair_scores,
) -> Dialogue:
    """Answer with the labels whose description is closer to the text than that of a text without labels."""
    *scores, plain = yield from closeness(example.text, descriptions(example, context, ""))
    return _predict(example, context, [score - plain for score in scores])


def list_format(_example: MultilabelExample, context: PromptContext) -> AnswerFormat:
    """Return the format of an object with a list of labels, in their words; the list is empty if none applies."""
    words = list(dict.fromkeys(word for label in context.labels for word in context.words(label)))
    return AnswerFormat.of_list("labels", {"type": "string", "enum": words}, most=len(context.labels))


def _split_labels(text: str, labels: Sequence[str]) -> list[str]:
    """Return the labels in a cell of a table, which is one of them or names several."""
    with suppress(ValueError):
        return [label_of(text, labels)]
    if text.strip().lower() == NO_LABELS:
        return []
    return [part for part in text.split(";") if part.strip()]


# ---- the type --------------------------------------------------------------------------------------------------------


class Multilabel(TaskType[MultilabelExample]):
    """Say which labels a text has: several, one or none."""

    name = "multilabel"
    Example = MultilabelExample
    query = "text"
    gold_fields = ("labels",)
    given_form = f"a list of labels; in a table, labels separated by semicolons, or {EMPTY} for none"
    folder = files(__package__)
    routes = (
        Route(
            name="by_head",
            start=by_head,
            requests=(TextLabels,),
            settings=HALF,
            legend="a label applies if its probability is above {threshold:g}",
        ),
        Route(name="by_entailment", start=by_entailment, needs=frozenset({"label_pairs"}), blocks=DESCRIPTION),
        Route(
            name="by_questions",
            start=by_questions,
            needs=frozenset({"loglikelihood"}),
            question="decision",
            settings=YES_NO,
            legend="a label applies if {yes} is more probable than {no}",
        ),
        *closeness_routes(by_closeness, blocks=DESCRIPTION),
        by_reply("by_list", "list", READER, answer_format=list_format, metrics=("parse_rate",)),
    )
    metrics = (
        metric("exact_match", f"{METRICS}:exact_match"),
        metric("micro_f1", f"{METRICS}:MICRO_F1"),
        metric("macro_f1", f"{METRICS}:MACRO_F1"),
        metric("parse_rate", "figeval.metrics.classification:parse_rate"),
    )
    default_metrics = ("macro_f1", "micro_f1", "exact_match")
    default_baselines = ("chance", "majority")

    def check(self, task: Definition) -> None:
        """Raise `ValueError` if there are no labels."""
        if not task.labels:
            raise ValueError("a multilabel task must list its labels, e.g. labels: [irony, satire]")

    def with_labels(self, example: MultilabelExample, names: Mapping[str, str]) -> MultilabelExample:
        labels = frozenset(names[label] for label in example.labels or ())
        prompted: Any = example.prompted
        prompted = prompted and replace(prompted, labels=labels)
        return replace(example, labels=labels, prompted=prompted)

    def few_shot_answer(self, block: str, example: MultilabelExample, context: PromptContext) -> str | None:
        """Return the labels' words in the order of the task; a question about a single label has no solved examples."""
        assert example.labels is not None
        words = {label: context.words(label)[0] for label in context.labels}
        no_labels = EMPTY if NO_LABELS in map(str.lower, words.values()) else NO_LABELS
        return (
            f" {', '.join(words[label] for label in words if label in example.labels) or no_labels}"
            if block == "list"
            else None
        )

    def to_json(self, value: Value | None) -> Any:
        """Return a sorted list, since JSON has no sets."""
        return None if value is None else sorted(value)

    def from_json(self, stored: Any) -> Value | None:
        """Return the set of a stored list."""
        return None if stored is None else frozenset(stored)

    def given(self, example: MultilabelExample, entry: Given, labels: Sequence[str]) -> Prediction:
        """Return the labels of a list or a text; scores are not read, since there is no threshold for them."""
        value = entry.value if isinstance(entry.value, str) and entry.value in labels else entry.parsed
        if isinstance(value, str):
            value = _split_labels(value, labels)
        if not isinstance(value, list):
            raise ValueError("it is not a list of labels" if value is not None else "scores alone decide no labels")
        label_set = frozenset(label_of(name, labels) for name in value)
        return Prediction(example_id=example.id, value=label_set, labels=tuple(labels))

    def value_problem(self, value: Value, _example: MultilabelExample, labels: Sequence[str]) -> str:
        strange = sorted(set(value) - set(labels))
        return f"{strange[0]!r:.80} is not among the labels {', '.join(labels)}" if strange else ""

    def row(self, example: MultilabelExample, prediction: Prediction) -> JSON:
        """Return the row with gold labels and margins; open labels, which have no field in a row, are in `details`."""
        row = super().row(example, prediction)
        return {**row, "details": {"open": list(prediction.tied_labels)}} if prediction.tied_labels else row

    def shown_gold(self, example: MultilabelExample) -> str:
        if example.labels is None:
            return "(hidden)"
        return ", ".join(repr(label) if label == NO_LABELS else label for label in sorted(example.labels)) or NO_LABELS

    def gold_class(self, example: MultilabelExample) -> str | None:
        """Return the set as a whole."""
        return HIDDEN if example.labels is None else self.shown_gold(example)

    def oddities(self, example: MultilabelExample) -> Iterator[tuple[str, str]]:
        yield from unreadable(example.text)

    def check_training(self, task: Definition, train: Sequence[MultilabelExample]) -> None:
        """Raise `ValueError` if a label has no example, because no head could learn it."""
        training_labels = frozenset[str]().union(*(example.labels or () for example in train))
        if missing := [label for label in task.labels if label not in training_labels]:
            raise ValueError(f"no training example has the label {missing[0]!r}; raise --limit")
