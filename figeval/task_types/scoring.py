"""Four ways to score texts against a query, which routes of several task types share.

    scores = yield from cosine_scores(example.query, options)

Cosines and dot products are in float64, whatever precision the vectors came in.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from figeval.prompts import PromptContext, no_shots
from figeval.task_types.routes import Dialogue, decide
from figeval.types import Continuation, Example, Request, Text, TextPair

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

WITH_PRIORS = frozenset({"acc_pmi", "mrr_pmi"})
Scores: TypeAlias = "Generator[Sequence[Request], Sequence[Any], Sequence[float]]"


@lru_cache(maxsize=64)
def requests_of(texts: tuple[str, ...]) -> tuple[Text, ...]:
    """Return the texts as requests: one object each, however many examples share them."""
    return tuple(map(Text, texts))


def pair_scores(query: str, options: Sequence[str]) -> Scores:
    """Return the closeness of the query and each option, as the model scores it."""
    return (yield [TextPair(query, option) for option in options])


def cosine_scores(query: str, options: tuple[str, ...]) -> Scores:
    """Return the cosine of the embeddings of the query and of each option; NaN where a vector is zero."""
    vector, *others = yield (Text(query), *requests_of(options))
    return cosines(vector, others).tolist()  # type: ignore[no-any-return]


def dot_scores(query: str, options: tuple[str, ...]) -> Scores:
    """Return the dot product of the embeddings of the query and of each option."""
    vector, *others = yield (Text(query), *requests_of(options))
    return dots(vector, others).tolist()  # type: ignore[no-any-return]


def by_likelihood(
    example: Example, options: Sequence[str], context: PromptContext, among: int | None = None
) -> Dialogue:
    """Return the prediction of log P(option | context), natural logarithm, summed over the option's tokens.

    `among` limits the choice to the first so many options. `priors` are the same without the query, asked for in the
    same round where a metric needs them (`WITH_PRIORS`).
    """
    continuations = [context.begun(context.block("continuation", example, option=option)) for option in options]
    premises = [context.question("context", example)]
    if WITH_PRIORS & context.metrics:
        premises.append(replace(context, shots=no_shots).question("unconditional", example))
    scores = yield [Continuation(premise, continuation) for premise in premises for continuation in continuations]
    decided = decide(example.id, scores[: len(options)], among)
    return replace(decided, priors=tuple(map(float, scores[len(options) :])))


def cosines(query: Any, others: Sequence[Any]) -> Floats:
    """result[i] = cos(query, others[i]); vectors of shape (d,), result (n,).

    NaN where a vector is zero or not a number: an angle to nothing is unknown, not 0.
    RowContext by row and not as one matrix product, whose blocked sums can tell equal vectors apart by an ulp and so
    break a tie.
    """
    import numpy as np

    matrix = np.asarray(others, dtype=np.float64)  # (n, d)
    lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(np.asarray(query, dtype=np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(dots(query, matrix) / lengths)


def dots(query: Any, others: Any) -> Floats:
    """result[i] = query · others[i]; shapes as for `cosines`, and row by row for the same reason."""
    import numpy as np

    return np.asarray((np.asarray(others, dtype=np.float64) * np.asarray(query, dtype=np.float64)).sum(axis=1))
