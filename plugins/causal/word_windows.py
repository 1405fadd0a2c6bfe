"""The words of texts for left-to-right models: windows of tokens, and from their log-probabilities those of words.

Every window begins with the token that begins a text. A text that is longer than a window is read in windows that
overlap by half, so every token is predicted from all that precedes it or from at least half of a window.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from figeval.models.capabilities import Outputs

from ..torch_models.word_tokens import WordTokens, group_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerBase

    from ..surprisal.requests import WordScores


MAX_WINDOW_TOKENS = 2_048  # the logits of a window of long texts would not fit into memory


@dataclass(frozen=True, slots=True)
class Window:
    """Ids of tokens, the first of which begins a text; those from place `first` on are predicted."""

    ids: list[int]
    first: int


def cut_windows(ids: Sequence[int], prefix: int, limit: int) -> Iterator[Window]:
    """Yield windows of at most `limit` tokens in which each token of a text is predicted once, in order.

    Args:
        ids: ids of the tokens of the text, without the one that begins it.
        prefix: id of that token.
        limit: most tokens that the model takes, at least 2.
    """
    room = min(limit, MAX_WINDOW_TOKENS) - 1
    done = 0
    while done < len(ids):
        start = 0 if len(ids) <= room or done == 0 else done - room // 2
        stop = min(len(ids), start + room)
        yield Window([prefix, *ids[start:stop]], 1 + done - start)
        done = stop


@dataclass(frozen=True, slots=True)
class WindowedTexts:
    """Requests as windows of tokens.

    Attributes:
        tokens: tokens of each text, grouped by words.
        windows: windows of each text.
    """

    tokens: list[WordTokens]
    windows: list[list[Window]]

    @classmethod
    def of(
        cls, requests: Sequence[WordScores], tokenizer: PreTrainedTokenizerBase, prefix: int, limit: int
    ) -> WindowedTexts:
        """Encode the texts of some requests and cut them into windows."""
        tokens = [group_tokens(tokenizer, request.context, request.pieces) for request in requests]
        return cls(tokens, [list(cut_windows(text.ids, prefix, limit)) for text in tokens])

    @property
    def rows(self) -> list[list[int]]:
        """Ids of all windows."""
        return [window.ids for windows in self.windows for window in windows]

    def outputs(self, scores: Sequence[NDArray]) -> Outputs[list[float]]:  # type: ignore[type-arg]
        """Return log P of each word; NaN for one without a token.

        Args:
            scores: for each of `rows`, log P of its tokens after the first, shape (tokens − 1,).
        """
        bounds = pairwise(accumulate((len(windows) for windows in self.windows), initial=0))
        values = []
        for tokens, windows, (start, stop) in zip(self.tokens, self.windows, bounds, strict=True):
            logprobs = list(_in_order(windows, scores[start:stop]))
            values.append(
                [math.fsum(logprobs[position] for position in group) if group else math.nan for group in tokens.groups]
            )
        truncated = frozenset(index for index, windows in enumerate(self.windows) if len(windows) > 1)
        straddling = frozenset(index for index, tokens in enumerate(self.tokens) if tokens.straddling)
        return Outputs(values, truncated, straddling)


def _in_order(windows: Sequence[Window], scores: Iterable[NDArray]) -> Iterator[float]:  # type: ignore[type-arg]
    """Yield log P of each token of a text, from the window in which it is predicted."""
    for window, logprobs in zip(windows, scores, strict=True):
        yield from map(float, logprobs[window.first - 1 :])
