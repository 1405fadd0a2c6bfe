"""Where the right stretch of a text begins and ends among the tokens of an input, and the loss of pointing there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from figeval.errors import TrainError
from figeval.task_types.spans import SpanExample
from figeval.types import NO_SPAN, Span

from .._passages import Passages, Window
from .._span_search import solid_tokens


@dataclass(frozen=True, slots=True)
class Answer:
    """A stretch of an input: places of its first and last token, and how many of its tokens the input does not show."""

    first: int
    last: int
    lost: int = 0


def gold_of(example: SpanExample) -> Span:
    """The right stretch. Raises `TrainError` where it is hidden."""
    if example.gold is None:
        raise TrainError(f"{example.id} has no span to learn from; leave it out of the train split")
    return example.gold


def gold_tokens(example: SpanExample, places: Sequence[tuple[int, int]]) -> list[int]:
    """Numbers of the text's tokens, at `places` of its characters, that overlap with the right stretch.

    Raises:
        TrainError: there are none.
    """
    gold = gold_of(example)
    if gold == NO_SPAN:
        raise TrainError(
            f"{example.id}: no span is right, which only the head `span` can learn, with --head_args null_score=true; "
            f"or leave it out of the train split"
        )
    solid = solid_tokens(example.text, places)
    found = [token for token in solid if places[token][0] < gold.end and places[token][1] > gold.start]
    if not found:
        raise TrainError(f"{example.id}: no token stands where its span is; leave it out of the train split")
    return found


def answer_in(window: Window, tokens: Sequence[int]) -> Answer | None:
    """Where these tokens of the text stand in an input; None where it shows none of them."""
    shown = [token for token in tokens if window.first <= token < window.first + window.count]
    if not shown:
        return None
    before = window.at - window.first
    return Answer(before + shown[0], before + shown[-1], len(tokens) - len(shown))


def searched(passages: Passages, row: int, text: str) -> list[int]:
    """Places of an input among which a span is looked for: the text's own tokens that are no white space."""
    window = passages.windows[row]
    solid = solid_tokens(text, passages.places[window.owner][window.shown])
    return [window.at + token for token in solid]


def inside(places: Sequence[Sequence[int]], length: int) -> Any:
    """Places per row as a mask (rows, length)."""
    import torch

    mask = torch.zeros(len(places), length, dtype=torch.bool)
    for row, own in enumerate(places):
        mask[row, list(own)] = True
    return mask


def span_losses(logits: Any, searched: Any, answers: Any) -> Any:
    """Cross-entropies of start and end (rows, 2) in float32, over the tokens where the reading side searches.

    `logits` (rows, length, 2), `searched` (rows, length) a mask, `answers` (rows, 2) the right places.
    """
    from torch.nn import functional

    known = logits.float().masked_fill(~searched.unsqueeze(-1), float("-inf"))
    return functional.cross_entropy(known, answers, reduction="none")
