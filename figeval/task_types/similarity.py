"""Similarity tasks, which represent texts so that metrics can find the nearest neighbour of each text.

A text is represented either by its scores against the anchors (the proverbs) or by its embedding. Scores are stored as
the model returns them: the metrics apply softmax and temperature (`figeval.metrics.neighbours`), so another
temperature needs no model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from figeval.errors import TaskError
from figeval.prompts import PromptContext
from figeval.task_types import ranking
from figeval.task_types.base import TaskType, in_front, metric
from figeval.task_types.fields import Definition, TextField, TextsField
from figeval.task_types.given import GIVEN, Given
from figeval.task_types.ranking import RankingExample
from figeval.task_types.routes import Dialogue, Route, Start
from figeval.types import FINGERPRINTED_AS, Example, Prediction, Text

NEIGHBOUR = "figeval.metrics.neighbours:nearest_neighbour"
TEMPERATURE: dict[str, Any] = {  # declaration of the routes with a softmax over the anchors
    "settings": {"temperature": 1.0},
    "legend": "distributions at temperature {temperature:g}",
}
DISTRIBUTIONS = ("by_distribution", "by_distribution_dot", "by_distribution_score", "by_distribution_likelihood", GIVEN)
NEAREST = {"acc": False, "mrr": False, "recall@3": False, "tied": True}  # measures → whether lower is better
VECTORS = ("cosine", "l2", "l1")  # distances of any points; the Jensen-Shannon distance is for distributions only


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityExample(Example):
    """Text of a nearest-neighbour task; texts of the same `category` are similar.

    Its scores against the `anchors` (the 250 proverbs) can represent a text; examples of a task share the tuple.
    """

    text: Annotated[str, TextField("The text.")]
    category: Annotated[str, TextField("Texts of one category, e.g. of one motif, are similar.", shown=False)] = field(
        metadata={FINGERPRINTED_AS: "motif"}  # its name before 0.2, so that runs from then can be continued
    )
    anchors: Annotated[tuple[str, ...], TextsField("Texts against which it is scored.")] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text, *self.anchors)

    @property
    def subject(self) -> str:
        return self.text


# ---- routes ----------------------------------------------------------------------------------------------------------


def by_distribution(example: SimilarityExample, context: PromptContext) -> Dialogue:
    """Score the anchors by cosine (Ghosh and Srivastava 2022, section 5.3, for Sentence-BERT)."""
    return ranking.by_cosine(_against_anchors(example), context)


def by_distribution_dot(example: SimilarityExample, context: PromptContext) -> Dialogue:
    """Score the anchors by dot product, for models that were trained with it, e.g. the paper's fine-tuned ones."""
    return ranking.by_dot(_against_anchors(example), context)


def by_distribution_score(example: SimilarityExample, context: PromptContext) -> Dialogue:
    """Score the anchors by their closeness to the text, as scored by the model."""
    return ranking.by_pair_score(_against_anchors(example), context)


def by_distribution_likelihood(example: SimilarityExample, context: PromptContext) -> Dialogue:
    """Score the anchors by log P(anchor | text), whose softmax is a distribution over the anchors."""
    return ranking.by_loglikelihood(_against_anchors(example), context)


def by_embedding(example: SimilarityExample, _context: PromptContext) -> Dialogue:
    """Return the embedding of the text as scores; there is nothing to choose, so the prediction has no value."""
    (vector,) = yield [Text(example.text)]
    scores = tuple(map(float, vector))
    is_finite = all(map(math.isfinite, scores))
    return Prediction(example_id=example.id, value=None, scores=scores, status="ok" if is_finite else "nan")


def _against_anchors(example: SimilarityExample) -> RankingExample:
    """Return a ranking example with the text as query and the anchors as candidates, none of them known to be right.

    Raises:
        TaskError: the example has no anchors.
    """
    if not example.anchors:
        raise TaskError(
            f"{example.id!r} has no anchors to score against; give the task the field `anchors`, "
            "or `route: by_embedding` with no baselines"
        )
    return RankingExample(
        id=example.id,
        meta=example.meta,
        cluster=example.cluster,
        query=example.text,
        candidates=example.anchors,
        relevant=frozenset(),
    )


# ---- the type --------------------------------------------------------------------------------------------------------


class Similarity(TaskType[SimilarityExample]):
    """Find the texts that are about the same."""

    name = "similarity"
    Example = SimilarityExample
    gold_fields = ("category",)
    default_metrics = ("acc_cosine",)
    given_form = "a list of numbers: a score for each anchor, or the embedding if the task has no anchors"
    routes = (
        Route(
            name="by_distribution_dot",
            start=by_distribution_dot,
            needs=frozenset({"embed", "dot"}),
            **TEMPERATURE,
        ),
        Route(name="by_distribution", start=by_distribution, needs=frozenset({"embed"}), **TEMPERATURE),
        Route(
            name="by_distribution_score",
            start=by_distribution_score,
            needs=frozenset({"score_pairs"}),
            **TEMPERATURE,
        ),
        Route(
            name="by_distribution_likelihood",
            start=by_distribution_likelihood,
            needs=frozenset({"loglikelihood"}),
            question="context",
            blocks=frozenset({"continuation"}),
            **TEMPERATURE,
        ),
        Route(name="by_embedding", start=by_embedding, needs=frozenset({"embed"}), on_request=True),
    )
    metrics = (
        *(
            metric(f"{one}_{distance}", NEIGHBOUR, lower_is_better=lower)
            for one, lower in NEAREST.items()
            for distance in VECTORS
        ),
        *(
            metric(f"{one}_jsd", NEIGHBOUR, lower_is_better=lower, routes=DISTRIBUTIONS)
            for one, lower in NEAREST.items()
        ),
    )

    def query_text(self, example: SimilarityExample) -> str:
        return example.text

    def augmented(self, example: SimilarityExample, added: Sequence[str]) -> SimilarityExample:
        """Return the example with retrieved words or texts in front of its text."""
        return in_front(example, "text", added)

    def given(self, example: SimilarityExample, given: Given, _labels: Sequence[str]) -> Prediction:
        """Return the scores of the anchors or the embedding, from the prediction or from the scores."""
        numbers = Given(scores=given.scores if given.value is None else given.parsed)
        scores = numbers.numbers("anchors", len(example.anchors) or None)
        is_finite = all(map(math.isfinite, scores))
        return Prediction(example_id=example.id, value=None, scores=scores, status="ok" if is_finite else "nan")

    def given_route(self, start: Start, example: SimilarityExample) -> Route:
        """Return a route with a temperature if scores of anchors become distributions; embeddings are points."""
        route = super().given_route(start, example)
        return replace(route, **TEMPERATURE) if example.anchors else replace(route, name=f"{GIVEN}_embedding")

    def check(self, task: Definition) -> None:
        """Check the temperature. Raises `ValueError` if it is not positive."""
        temperature = task.settings.get("temperature")
        if isinstance(temperature, int | float) and not temperature > 0:
            raise ValueError(f"the setting 'temperature' is {temperature}; it must be above 0")
