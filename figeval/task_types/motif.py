"""Similarity: what stands for a text, so that metrics can look for its nearest neighbour among the others.

Either how it scores against the anchors (the proverbs), or its embedding itself. Scores are stored as the model gives
them: softmax and temperature come with the metrics (`figeval.metrics.neighbours`), so another temperature needs no
model.
"""

from __future__ import annotations

import math

from figeval.errors import TaskError
from figeval.task_types import choice
from figeval.task_types.routes import Briefing, Dialogue
from figeval.types import Prediction, RankingExample, SimilarityExample, Text


def by_distribution(example: SimilarityExample, briefing: Briefing) -> Dialogue:
    """Cosines of the embeddings of text and anchors (Ghosh and Srivastava 2022, section 5.3, for Sentence-BERT)."""
    return choice.by_cosine(_against_anchors(example), briefing)


def by_distribution_dot(example: SimilarityExample, briefing: Briefing) -> Dialogue:
    """Dot products of the embeddings, for models that were trained with them: the paper's fine-tuned ones."""
    return choice.by_dot(_against_anchors(example), briefing)


def by_distribution_score(example: SimilarityExample, briefing: Briefing) -> Dialogue:
    """Closeness of the text and each anchor, as the model scores it."""
    return choice.by_pair_score(_against_anchors(example), briefing)


def by_distribution_likelihood(example: SimilarityExample, briefing: Briefing) -> Dialogue:
    """Log P(anchor | text), whose softmax is a distribution over the anchors as it stands."""
    return choice.by_loglikelihood(_against_anchors(example), briefing)


def by_embedding(example: SimilarityExample, _briefing: Briefing) -> Dialogue:
    """The embedding of the text; there is nothing to choose, so the prediction has no value."""
    (vector,) = yield [Text(example.text)]
    scores = tuple(map(float, vector))
    known = all(map(math.isfinite, scores))
    return Prediction(example_id=example.id, value=None, scores=scores, status="ok" if known else "nan")


def _against_anchors(example: SimilarityExample) -> RankingExample:
    """The text as a query whose candidates are the anchors, none of them known to be right.

    Raises:
        TaskError: it has none.
    """
    if not example.anchors:
        raise TaskError(
            f"{example.id!r} has no anchors to be scored against; give the task the field `anchors`, "
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
