"""BLEU (Papineni et al. 2002), twice: as the papers on figurative texts print it, and as the field does.

Both are fractions here, 0 to 1; papers and sacrebleu print hundredfold.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from figeval.metrics.statistic import Statistic
from figeval.metrics.texts import written
from figeval.metrics.words import ngrams
from figeval.types import GenerationExample, Prediction

Floats = NDArray[np.float64]
ORDERS = 4


def bleu4(example: GenerationExample, prediction: Prediction) -> float | None:
    """BLEU-4 of a single text, unsmoothed, on lower-cased tokens between white space; scores are the mean over texts.

    As torchtext's `bleu_score`: the geometric mean of clipped precisions of one to four tokens, exactly 0 if one of
    them is, times exp(min(0, 1 - r/c)) (Ghosh and Srivastava 2022, their code). Most texts of a few sentences get 0.
    """
    text = written(prediction)
    if text is None:
        return None
    tokens, references = text.split(), [reference.lower().split() for reference in example.references]
    matches = [_matches(tokens, references, n) for n in range(1, ORDERS + 1)]
    if not all(matches):
        return 0.0
    precisions = [match / (len(tokens) - n) for n, match in enumerate(matches)]
    nearest = min(map(len, references), key=lambda length: abs(length - len(tokens)))
    return math.prod(precisions) ** (1 / ORDERS) * math.exp(min(0.0, 1 - nearest / len(tokens)))


def _matches(tokens: Sequence[str], references: Sequence[Sequence[str]], n: int) -> int:
    """N-grams that occur in a reference, each at most as often as there."""
    allowed = reduce(Counter.__or__, (Counter(ngrams(reference, n)) for reference in references))
    return (Counter(ngrams(tokens, n)) & allowed).total()


@cache
def _sacrebleu() -> Any:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(lowercase=True)


def _counts(example: GenerationExample, prediction: Prediction) -> Sequence[float] | None:
    """Matches and n-grams of each order, then the lengths of text and reference, by sacrebleu."""
    text = written(prediction)
    if text is None:
        return None
    found = _sacrebleu().corpus_score([text], [[reference] for reference in example.references])
    return [*map(float, (*found.counts, *found.totals, found.sys_len, found.ref_len))]


def _bleu(sums: Floats) -> Floats:
    """BLEU of summed counts, shape (..., 10) → (...), with sacrebleu's "exp" smoothing: where an order has no match it
    counts 1/2, the next such order 1/4, and so on; 0 without any match.
    """
    matches, totals = sums[..., :ORDERS], sums[..., ORDERS : 2 * ORDERS]
    length, reference = sums[..., -2], sums[..., -1]
    halvings = np.cumsum((matches == 0) & (totals > 0), axis=-1)
    counted = np.where(matches == 0, 0.5**halvings, matches)
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.where(totals > 0, counted / totals, 0.0)
        brevity = np.exp(np.minimum(0.0, 1 - reference / length))
        score = brevity * np.exp(np.log(precisions).mean(axis=-1))
    return np.asarray(np.where(matches.any(axis=-1) & (length > 0), score, 0.0))


def _signature() -> str:
    """Sacrebleu's own words for how it counts."""
    bleu = _sacrebleu()
    bleu.corpus_score([""], [[""]])  # it knows the number of references once it has seen some
    return str(bleu.get_signature())


# BLEU of all texts together, as sacrebleu computes it with its defaults on lower-cased texts (Post 2018).
corpus_bleu = Statistic(_counts, _bleu, signature=_signature)
