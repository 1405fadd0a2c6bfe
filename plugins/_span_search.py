"""From logits for starts and ends to the best stretch of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from figeval.types import NO_SPAN, ScoredSpan, Span

from ._passages import Passages

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# The rule in words, for the record.
NULL_RULE = "; or no span, where the logits of the first token score better"
RULE = "best log p(start) + log p(end), start <= end, over the tokens of the text; ties: the shortest, then the first"


def found_spans(
    passages: Passages, outputs: Sequence[Any], texts: Sequence[str], longest: int | None, nulls: Any = None
) -> list[list[ScoredSpan]]:
    """The best span of every text; `outputs[w]` are start and end logits of the text's tokens in window w.

    `nulls` (windows, 2) are those of the token that stands for "no span". Of several windows the one counts that is
    least sure that there is none, as in the SQuAD 2.0 code of BERT.
    """
    least: dict[int, Any] = {}
    for window, null in zip(passages.windows, () if nulls is None else nulls, strict=nulls is not None):
        if window.owner not in least or sum(null) < sum(least[window.owner]):
            least[window.owner] = null
    joined = enumerate(zip(texts, passages.places, passages.joined(outputs), strict=True))
    return [best_span(*found, longest, least.get(owner)) for owner, found in joined]


def best_span(
    text: str, places: Sequence[tuple[int, int]], logits: Any, longest: int | None, null: Any = None
) -> list[ScoredSpan]:
    """The stretch with the best log p(start) + log p(end), in characters without white space at its ends.

    `logits` (tokens, 2), `longest` in tokens. Both distributions are over the tokens of the text, because an answer
    is a stretch of it: what a model gives to other tokens is no answer. Logits of all windows share one normaliser, so
    that they are comparable (Clark and Gardner 2018, section 3.1). No token of more than white space: no span.
    NaN among the logits makes the score NaN. `null` (2,) are start and end logits for "no span": then both
    distributions are over that and the tokens, and `NO_SPAN` is found beside the stretch, the better one first.
    """
    import numpy as np

    solid = solid_tokens(text, places)
    if not solid:
        return [] if null is None else [ScoredSpan(NO_SPAN, 0.0)]
    known = np.asarray(logits, dtype=np.float64)[solid]
    spare = 0 if null is None else 1
    starts, ends = log_softmax((known if null is None else np.vstack((null, known))).T)
    first, last, score = best_pair(starts[spare:], ends[spare:], longest)
    start, end = places[solid[first]][0], places[solid[last]][1]
    words = text[start:end]
    found = [ScoredSpan(Span(end - len(words.lstrip()), start + len(words.rstrip())), score)]
    if spare:
        found.append(ScoredSpan(NO_SPAN, float(starts[0] + ends[0])))
    return sorted(found, key=lambda one: -one.score)


def solid_tokens(text: str, places: Sequence[tuple[int, int]]) -> list[int]:
    """Numbers of the tokens that are more than white space: an answer begins and ends with one."""
    return [index for index, (start, end) in enumerate(places) if text[start:end].strip()]


def log_softmax(logits: Floats) -> Floats:
    """Log-probabilities over the last axis."""
    import numpy as np

    with np.errstate(invalid="ignore"):  # inf - inf
        shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def best_pair(starts: Floats, ends: Floats, longest: int | None = None) -> tuple[int, int, float]:
    """(start, end, score) with the best `starts[start] + ends[end]`, 0 <= end - start < `longest`.

    Of equal scores the shortest, then the first one. Row e of a sliding window are the starts that end e can have,
    from the nearest on: all pairs, without a matrix of them in memory.
    """
    import numpy as np

    n = len(starts)
    reach = min(n, longest or n)
    before = np.concatenate((np.full(reach - 1, -np.inf), starts))
    reachable = np.lib.stride_tricks.sliding_window_view(before, reach)[:, ::-1]  # (n, reach)
    back = reachable.argmax(axis=1)
    scores = reachable[np.arange(n), back] + ends
    best = scores.max()
    if np.isnan(best):
        return 0, n - 1, float("nan")
    tied = np.flatnonzero(scores == best)
    last = int(tied[back[tied].argmin()])
    return last - int(back[last]), last, float(best)
