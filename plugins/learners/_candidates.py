"""Which candidates the rows of a step are told apart from, and the loss over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from figeval.errors import TrainError
from figeval.task_types.ranking import RankingExample

Golds = Sequence[Sequence[int]]  # per row the numbers of its right candidates


def shared_candidates(examples: Sequence[RankingExample]) -> tuple[str, ...]:
    """The candidates, which all examples have in common. Raises `TrainError` where they have not."""
    candidates = examples[0].candidates
    for example in examples:
        if example.candidates is not candidates and example.candidates != candidates:
            raise TrainError(f"{example.id} has other candidates than {examples[0].id}; a biencoder needs one list")
        if not example.relevant:
            raise TrainError(f"{example.id} has no right candidate to learn from; leave it out of the train split")
    return candidates


def in_step(golds: Golds, hard: Golds, rows: Sequence[int]) -> list[int]:
    """The right candidates of the rows of a step and their hard negatives, each once."""
    return sorted({number for row in rows for number in (*golds[row], *(hard[row] if hard else ()))})


def ranking_losses(logits: Any, columns: Any, golds: Any) -> Any:
    """-log of the probability of the right candidates (rows,), from logits (rows, columns).

    `columns` are the numbers of the candidates, `golds` (rows, k) those of the right ones, filled up with -1.
    """
    right = (golds.unsqueeze(-1) == columns).any(dim=1)
    return logits.logsumexp(dim=-1) - logits.masked_fill(~right, float("-inf")).logsumexp(dim=-1)


def hardest(queries: Any, candidates: Any, golds: Golds, count: int) -> list[list[int]]:
    """Per row the `count` wrong candidates that are nearest, from vectors (rows, d) and (candidates, d)."""
    import numpy as np

    scores = np.asarray(queries) @ np.asarray(candidates).T
    for row, gold in enumerate(golds):
        scores[row, list(gold)] = -np.inf
    return np.argsort(-scores, axis=1, kind="stable")[:, :count].tolist()  # type: ignore[no-any-return]
