"""Pair tasks, which ask for the label of the relation between two texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from figeval.errors import CapabilityError
from figeval.prompts import PromptContext
from figeval.task_types.base import blank_texts
from figeval.task_types.fields import Definition, LabelField, TextField
from figeval.task_types.label_words import BY_CLOZE, BY_LABEL_WORD, BY_VERBALIZER, SingleLabelType, of_classes
from figeval.task_types.routes import Dialogue, Route, Scores, cosine_scores, pair_scores
from figeval.types import Example, Input, PairLabel, Prediction

THRESHOLD: dict[str, Any] = {  # declaration of the routes with a threshold
    "settings": {"threshold": 0.5},
    "legend": "a pair is labelled {labels[0]} if its score is {threshold:g} or more, otherwise {labels[1]}",
    "labels": 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PairExample(Example):
    """Example with two texts and the relation between them (premise and hypothesis, idiom and paraphrase)."""

    left: Annotated[str, TextField("The first text, such as a premise or a sentence with an idiom.")]
    right: Annotated[str, TextField("The second text, such as a hypothesis or a paraphrase.")]
    label: Annotated[str | None, LabelField("One of the task's labels; null if it is hidden.")]

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


def by_head(example: PairExample, context: PromptContext) -> Dialogue:
    """Choose by the class probabilities of a trained head (NLI)."""
    (answer,) = yield [PairLabel(example.left, example.right, context.labels)]
    probabilities = {label: answer[label] for label in context.labels}
    classes = {label: p if isinstance(p, tuple) else (float(p),) for label, p in probabilities.items()}
    return of_classes(example, context, classes)


def by_threshold(
    example: PairExample,
    context: PromptContext,
    closeness: Callable[[str, tuple[str, ...]], Scores] = pair_scores,
) -> Dialogue:
    """Choose the first label if the closeness of the pair reaches the task's threshold, else the second.

    `scores` are the closeness and the threshold. Equality reaches the threshold and is not a tie, but for a model
    without preferences the labels tie.
    """
    (score,) = yield from closeness(example.left, (example.right,))
    if len(context.labels) != 2:
        raise CapabilityError(f"a threshold distinguishes two labels, not {len(context.labels)}; use another model")
    threshold = float(context.settings["threshold"])
    scores = (float(score), threshold)
    if math.isnan(score):
        return Prediction(example_id=example.id, value=None, scores=scores, labels=context.labels, status="nan")
    value = context.labels[0 if score >= threshold else 1]
    prediction = Prediction(example_id=example.id, value=value, scores=scores, labels=context.labels)
    return replace(prediction, tied=2, tied_labels=context.labels) if context.indifferent else prediction


# ---- the type --------------------------------------------------------------------------------------------------------


class Pairs(SingleLabelType[PairExample]):
    """Say which label holds between two texts."""

    name = "pairs"
    Example = PairExample
    query = "left"
    routes = (
        Route(name="by_head", start=by_head, needs=frozenset({"label_pairs"})),
        BY_CLOZE,
        BY_VERBALIZER,
        Route(name="by_threshold", start=by_threshold, needs=frozenset({"score_pairs"}), **THRESHOLD),
        Route(
            name="by_cosine_threshold",
            start=partial(by_threshold, closeness=partial(cosine_scores, symmetric=True)),
            needs=frozenset({"embed"}),
            **THRESHOLD,
        ),
        BY_LABEL_WORD,
    )

    def check(self, task: Definition) -> None:
        """Check that the task lists at least two labels."""
        if len(task.labels) < 2:
            raise ValueError("a pairs task must list its labels, e.g. labels: [entailment, non-entailment]")

    def judged_example(self, example: PairExample) -> Mapping[str, Input]:  # noqa: D102
        return {"text 1": example.left, "text 2": example.right, "label": self.shown_gold(example)}

    def oddities(self, example: PairExample) -> Iterator[tuple[str, str]]:  # noqa: D102
        yield from blank_texts(example, "left", "right")
