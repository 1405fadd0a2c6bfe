"""Rating: a grade on a scale that the task declares, for one text or for two.

The `labels` of a task are the points of its scale, lowest first, as numbers in quotes: `labels: ["1", "2", "3", "4"]`.
Ratings and answers are distinct. A *rating* is any number that should rise with the grade: a cosine, a score, the
expected value over the points. Correlations are computed from ratings. An *answer* is a point of the scale itself, from
a reply or a distribution over the points; only an answer has a distance from the grade.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import pairwise
from operator import mul
from typing import Annotated, Any

from figeval.answers.numbers import extract_number
from figeval.errors import TaskError
from figeval.io.json_files import json_scores
from figeval.prompts import PromptContext
from figeval.task_types.base import HIDDEN, TaskType, blank_texts, metric
from figeval.task_types.fields import Definition, Field, OptionalTextField, RowContext, TextField
from figeval.task_types.given import GIVEN, Given
from figeval.task_types.label_words import word_shares
from figeval.task_types.routes import (
    Dialogue,
    ReplyReader,
    Route,
    Scores,
    by_reply,
    closeness_routes,
)
from figeval.types import JSON, AnswerFormat, Continuation, Example, PairLabel, Prediction, Reply, Value

from ..baselines.guessing import gold_answers

METRICS = f"{__package__}.rating_metrics"
ON_SCALE = ("by_head", "by_expected_value", "by_number", GIVEN)  # routes whose answers are points of the scale
READER = ReplyReader(f"{__package__}.rating:read_number", version="3")


# ---- examples --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GradeField(Field):
    """A number from the lowest to the highest point of the task's scale, e.g. a mean of several judgements."""

    def read(self, value: Any, row: RowContext) -> float | None:
        """Return the grade, or None if it is hidden. Raises `DataError` for anything but a grade on the scale."""
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            cure = "; write `… | float` if it should become one" if isinstance(value, str) else ""
            raise row.error(f"{value!r:.80} is not a number{cure}")
        points = points_of(row.task.labels)
        if not points[0] <= value <= points[-1]:
            raise row.error(f"{value} is outside the scale, which ranges from {points[0]:g} to {points[-1]:g}")
        return float(value)

    def schema(self) -> JSON:
        """Return the JSON Schema; the bounds depend on the task."""
        return {"type": ["number", "null"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingExample(Example):
    """A text, or two, and how much of what the task asks about people found in it."""

    left: Annotated[str, TextField("The text, or the first of two.")]
    grade: Annotated[float | None, GradeField("A number on the task's scale; null if it is hidden.")]
    right: Annotated[str | None, OptionalTextField("The second text; null where one text is rated.", shown=True)] = None

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.left,) if self.right is None else (self.left, self.right)

    @property
    def subject(self) -> str:
        """The first text."""
        return self.left

    @property
    def asked(self) -> tuple[str, ...]:
        """Both texts, since another second text makes another question."""
        return self.texts

    @property
    def hidden(self) -> bool:
        """True if the grade is hidden."""
        return self.grade is None


@gold_answers.register
def _(example: RatingExample) -> tuple[str, ...]:
    """Return the grade as a task file writes a whole number, for `majority`."""
    return () if example.grade is None else (f"{example.grade:g}",)


def points_of(labels: Sequence[str]) -> tuple[float, ...]:
    """Return the labels of a task as numbers."""
    return tuple(map(float, labels))


# ---- routes ----------------------------------------------------------------------------------------------------------


def by_closeness(
    example: RatingExample,
    _context: PromptContext,
    closeness: Callable[[str, tuple[str, ...]], Scores],
) -> Dialogue:
    """Rate by the closeness of the two texts, which is no answer on the scale.

    Raises:
        TaskError: the example has only one text.
    """
    if example.right is None:
        raise TaskError(
            f"{example.id!r} has one text, so there is nothing that it could be close to; "
            "use a model that knows the scale, with --route rating=by_expected_value or rating=by_number"
        )
    (score,) = yield from closeness(example.left, (example.right,))
    status: Any = "nan" if math.isnan(score) else "ok"
    return Prediction(example_id=example.id, value=None, scores=(float(score),), status=status)


def by_head(example: RatingExample, context: PromptContext) -> Dialogue:
    """Rate by the distribution of a trained head over the points of the scale."""
    (probabilities,) = yield [PairLabel(example.left, example.right or "", context.labels)]
    return predict_from_shares(example, context.labels, [_total(probabilities[label]) for label in context.labels])


def by_expected_value(example: RatingExample, context: PromptContext) -> Dialogue:
    """Rate by P(point | context), as a left-to-right model distributes it over the words of the points.

    The rating is the expected value Σ P(point) · point, the answer the most probable point (Liu et al. 2023, G-Eval,
    section 2, weight points in this way).
    """
    question = context.question("context", example)
    words = [word for label in context.labels for word in context.words(label)]
    logprobs = yield [Continuation(question, context.answer_start(f" {word}")) for word in words]
    shares = word_shares(context, logprobs)
    return predict_from_shares(example, context.labels, [math.fsum(shares[label]) for label in context.labels])


def read_number(example: RatingExample, context: PromptContext, reply: Reply) -> Prediction:
    """Return the point of the scale that a reply commits to (`figeval.answers.numbers`)."""
    status, value = extract_number(reply, points_of(context.labels))
    return Prediction(example_id=example.id, value=value, labels=context.labels, status=status)


def point_format(_example: RatingExample, context: PromptContext) -> AnswerFormat:
    """Return the points of the scale as the acceptable answers."""
    return AnswerFormat(choices=context.labels)


def _total(probability: float | tuple[float, ...]) -> float:
    """Return the probability of a point, summed over its classes if a head has several for it."""
    return math.fsum(probability) if isinstance(probability, tuple) else float(probability)


def predict_from_shares(example: RatingExample, labels: Sequence[str], shares: Sequence[float]) -> Prediction:
    """Return the prediction for a distribution over the points.

    Of several most probable points, the lowest is the value, and `tied_labels` holds all of them.
    """
    scores = tuple(map(float, shares))
    prediction = Prediction(example_id=example.id, value=None, scores=scores, labels=tuple(labels), status="nan")
    if any(map(math.isnan, scores)):
        return prediction
    best = tuple(label for label, share in zip(labels, scores, strict=True) if share == max(scores))
    return replace(
        prediction, status="ok", value=float(best[0]), tied=len(best), tied_labels=best if len(best) > 1 else ()
    )


# ---- the type --------------------------------------------------------------------------------------------------------


def rating_of(prediction: Prediction) -> float | None:
    """Return the number that should rise with the grade, or None without an answer.

    It is the expected value of a distribution over the points, the score of a route without one, or the answer of a
    reply.
    """
    if prediction.status != "ok":
        return None
    if prediction.labels and prediction.scores:
        return math.fsum(map(mul, prediction.scores, points_of(prediction.labels)))
    return prediction.scores[0] if prediction.scores else prediction.value


class Rating(TaskType[RatingExample]):
    """Rate a text, or how two texts go together, on a scale."""

    name = "rating"
    Example = RatingExample
    query = "left"
    gold_fields = ("grade",)
    folder = files(__package__)
    default_metrics = ("spearman", "pearson", "kendall", "mae", "within_one")
    default_baselines = ("chance", "majority")
    given_form = "a point of the scale; write other numbers that should rise with the grade as scores"
    routes = (
        Route(name="by_head", start=by_head, needs=frozenset({"label_pairs"})),
        *closeness_routes(by_closeness, symmetric=True),
        Route(
            name="by_expected_value",
            start=by_expected_value,
            needs=frozenset({"loglikelihood"}),
            question="context",
            compares_words=True,
        ),
        by_reply("by_number", "number", READER, answer_format=point_format, metrics=("parse_rate",)),
    )
    metrics = (
        metric("spearman", f"{METRICS}:SPEARMAN"),
        metric("pearson", f"{METRICS}:PEARSON"),
        metric("kendall", f"{METRICS}:KENDALL"),
        metric("mae", f"{METRICS}:MAE", lower_is_better=True, routes=ON_SCALE),
        metric("within_one", f"{METRICS}:within_one", routes=ON_SCALE),
        metric("parse_rate", f"{METRICS}:parse_rate", routes=("by_number",)),
    )

    def check(self, task: Definition) -> None:
        """Raise `ValueError` unless the labels are the points of a scale, lowest first."""
        try:
            points = points_of(task.labels)
        except ValueError:
            points = ()
        rising = all(low < high for low, high in pairwise(points))
        if len(points) < 2 or not rising or not all(map(math.isfinite, points)):
            raise ValueError(
                'a rating task must list the points of its scale, lowest first: labels: ["1", "2", "3", "4"]'
            )

    def few_shot_answer(self, _block: str, example: RatingExample, context: PromptContext) -> str | None:
        """Return the point of the scale nearest to the grade, the lower of two."""
        assert example.grade is not None
        grade = example.grade
        return f" {context.words(min(context.labels, key=lambda label: abs(float(label) - grade)))[0]}"

    def given(self, example: RatingExample, entry: Given, labels: Sequence[str]) -> Prediction:
        """Return the point that is given, a rating (one score), or a distribution (a score for each point)."""
        scores = entry.numbers("points", None, labels)
        if entry.value is None and len(scores) == len(labels):
            return predict_from_shares(example, labels, scores)
        if len(scores) > 1:
            raise ValueError(
                f"there are {len(scores)} scores", "write one, or a probability for each point and no prediction"
            )
        try:
            value = None if entry.value is None else float("" if isinstance(entry.value, bool) else entry.value)
        except (TypeError, ValueError):
            raise ValueError(f"{entry.value!r:.80} is not a number") from None
        is_finite = all(map(math.isfinite, scores))
        return Prediction(example_id=example.id, value=value, scores=scores, status="ok" if is_finite else "nan")

    def value_problem(self, value: Value, _example: RatingExample, labels: Sequence[str]) -> str:
        """Return the problem with a value that is no point of the scale, or ""."""
        is_point = value in points_of(labels)
        return "" if is_point else f"{value!r:.80} is not a point of the scale {', '.join(labels)}"

    def to_json(self, value: Value | None) -> Any:
        """Return a whole number as such, any other as a string."""
        return value if value is None else int(value) if value == int(value) else repr(value)

    def from_json(self, stored: Any) -> Value | None:
        """Return the number of a stored answer."""
        return None if stored is None else float(stored)

    def row(self, example: RatingExample, prediction: Prediction) -> JSON:
        """Return the row with grade and scores, and the rating that correlations are computed from."""
        rating = rating_of(prediction)
        is_finite = rating is not None and math.isfinite(rating)
        details = {"rating": rating if is_finite else None}
        return {"gold": example.grade, "scores": json_scores(prediction.scores), "details": details}

    def judged_example(self, example: RatingExample) -> Mapping[str, str]:
        """Return the texts and their grade."""
        second = {} if example.right is None else {"text 2": example.right}
        return {"text 1": example.left, **second, "grade": self.shown_gold(example)}

    def shown_gold(self, example: RatingExample) -> str:
        """Return the grade as a task file writes it."""
        return "(hidden)" if example.grade is None else f"{example.grade:g}"

    def gold_class(self, example: RatingExample) -> str | None:
        """Return the grade, as `figeval validate` counts it."""
        return HIDDEN if example.grade is None else f"{example.grade:g}"

    def oddities(self, example: RatingExample) -> Iterator[tuple[str, str]]:
        """Yield empty texts."""
        yield from blank_texts(example, "left", *(["right"] if example.right is not None else []))

    def check_training(self, _task: Definition, train: Sequence[RatingExample]) -> None:
        """Raise `ValueError` if all grades are equal, so that nothing can rise with them."""
        if len({example.grade for example in train}) < 2:
            raise ValueError("all grades of train are equal, so nothing could be learned from them; raise --limit")
