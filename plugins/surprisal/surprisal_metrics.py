"""Metrics of surprisal: rates of bits, the two versions of a text, and what people did at each word.

Rates are quotients of sums over all texts, so that a long text counts for more: bits per word, bits per byte of UTF-8.
Pieces whose surprisal is unknown are in neither sum.

Measures of people are compared over the words of all texts, by sums of products from which correlations follow exactly.
`delta_loglik` is by how much a linear regression of the measures on the length of the word gains from its surprisal, in
nats of Gaussian log-likelihood per word (Goodkind and Bicknell 2018; Wilcox et al. 2020, who call such a gain the
psychometric predictive power). It is −½ log(1 − ρ²), where ρ is their correlation given the length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from figeval.metrics import Statistic, answered, mean_of, quotient, ratio

from .text_pieces import split_context

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from figeval.types import Prediction, Span

    from .surprisal import Answer, Surprisal, SurprisalExample, TextSurprisals

    Floats: TypeAlias = NDArray[np.float64]

UNMEASURED = "no word has both a surprisal and a measure"
UNCONTRASTED = "no example has a contrast"
ROUNDING_ERROR = 1e-9  # below this share of its variance, what is left of a variable is rounding


# ---- rates -----------------------------------------------------------------------------------------------------------


def word_bits(_example: SurprisalExample, prediction: Prediction) -> tuple[float, float] | None:
    """Return the bits of the words, and their number."""
    answer = _answer(prediction)
    return None if answer is None else _rate(answer.text.words)


def region_bits(example: SurprisalExample, prediction: Prediction) -> tuple[float, float] | None:
    """Return the bits of the words in the region, and their number."""
    answer = _answer(prediction)
    return None if answer is None or example.region is None else _rate(_within(answer.text.words, example.region))


def byte_bits(example: SurprisalExample, prediction: Prediction) -> tuple[float, float] | None:
    """Return the bits of words and signs, and the bytes of both with the blanks before them."""
    answer = _answer(prediction)
    if answer is None:
        return None
    pieces = answer.text.pieces
    _, space = split_context(example.context, example.text)
    text = space + example.text
    starts = [0, *(piece.end + len(space) for piece in pieces)]
    rows = [
        (piece.bits, len(text[start : piece.end + len(space)].encode("utf-8", "surrogatepass")))
        for start, piece in zip(starts, pieces, strict=False)
        if piece.bits is not None
    ]
    return (math.fsum(bits for bits, _ in rows), float(sum(size for _, size in rows))) if rows else None


def text_bits(_example: SurprisalExample, prediction: Prediction) -> tuple[float, float] | None:
    """Return the bits of words and signs, and the number of words."""
    answer = _answer(prediction)
    if answer is None:
        return None
    bits = [piece.bits for piece in answer.text.pieces if piece.bits is not None]
    words = sum(word.bits is not None for word in answer.text.words)
    return (math.fsum(bits), float(words)) if words else None


def _answer(prediction: Prediction) -> Answer | None:
    """Return the surprisals, or None if there are none."""
    return prediction.value if answered(prediction) else None


def _rate(words: Sequence[Surprisal]) -> tuple[float, float] | None:
    bits = [word.bits for word in words if word.bits is not None]
    return (math.fsum(bits), float(len(bits))) if bits else None


def _within(words: Sequence[Surprisal], region: Span) -> list[Surprisal]:
    return [word for word in words if word.start < region.end and word.end > region.start]


def power_of_two(sums: Floats) -> Floats:
    """Return 2 to the quotient of the sums, shape (…, 2) → (…)."""
    import numpy as np

    return np.asarray(np.exp2(ratio(sums)))


SURPRISAL = Statistic(word_bits, ratio, bounds=(0.0, math.inf))
REGION_SURPRISAL = Statistic(region_bits, ratio, bounds=(0.0, math.inf), absent="no example has a region with a word")
BITS_PER_BYTE = Statistic(byte_bits, ratio, bounds=(0.0, math.inf))
WORD_PERPLEXITY = Statistic(text_bits, power_of_two, bounds=(0.0, math.inf))


# ---- two versions of a text ------------------------------------------------------------------------------------------


def less_surprising(example: SurprisalExample, prediction: Prediction) -> float | None:
    """Return 1 if the text has fewer bits per word than its other version, 0 if it has more, ½ if both are equal."""
    difference = contrast_difference(example, prediction)
    return None if difference is None else 0.5 if difference == 0 else float(difference > 0)


def contrast_difference(example: SurprisalExample, prediction: Prediction) -> float | None:
    """Return the bits per word of the other version minus those of the text.

    If both have a region, its words count alone. If the surprisal of one of the words is unknown, there is no value.
    """
    answer = _answer(prediction)
    if answer is None or answer.contrast is None:
        return None
    both = example.region is not None and example.contrast_region is not None
    text = _mean(answer.text, example.region if both else None)
    contrast = _mean(answer.contrast, example.contrast_region if both else None)
    return None if text is None or contrast is None else contrast - text


def _mean(surprisals: TextSurprisals, region: Span | None) -> float | None:
    words = surprisals.words if region is None else _within(surprisals.words, region)
    bits = [word.bits for word in words if word.bits is not None]
    return math.fsum(bits) / len(bits) if bits and len(bits) == len(words) else None


CONTRAST_DIFFERENCE = mean_of(contrast_difference, absent=UNCONTRASTED, bounds=None)


# ---- what people did -------------------------------------------------------------------------------------------------


def word_products(example: SurprisalExample, prediction: Prediction) -> Sequence[float] | None:
    """Return the sums over words of the products of 1, length in characters, surprisal and measure, shape (10,)."""
    answer = _answer(prediction)
    if example.measures is None or answer is None:
        return None
    rows = [(1.0, *row) for row in _word_measures(answer.text.words, example.measures)]
    pairs = [(i, j) for i in range(4) for j in range(i, 4)]
    return [math.fsum(row[i] * row[j] for row in rows) for i, j in pairs] if rows else None


def _word_measures(
    words: Sequence[Surprisal], measures: Sequence[float | None]
) -> Iterator[tuple[float, float, float]]:
    for word, measure in zip(words, measures, strict=True):
        if word.bits is not None and measure is not None:
            yield float(word.end - word.start), word.bits, measure


def _covariances(sums: Floats) -> dict[str, Floats]:
    """Return n² times the variances and covariances of length (l), surprisal (s) and measure (m)."""
    n, length, surprisal, measure, ll, ls, lm, ss, sm, mm = (sums[..., column] for column in range(10))
    return {
        "ll": n * ll - length * length,
        "ls": n * ls - length * surprisal,
        "lm": n * lm - length * measure,
        "ss": n * ss - surprisal * surprisal,
        "sm": n * sm - surprisal * measure,
        "mm": n * mm - measure * measure,
    }


def correlation(sums: Floats) -> Floats:
    """Return Pearson's correlation of surprisal and measure, shape (…, 10) → (…); NaN if one of them is constant."""
    import numpy as np

    parts = _covariances(sums)
    variance = np.where((parts["ss"] > 0) & (parts["mm"] > 0), parts["ss"] * parts["mm"], np.nan)
    return np.asarray(np.clip(parts["sm"] / np.sqrt(variance), -1.0, 1.0))


def gained_loglik(sums: Floats) -> Floats:
    """Return the gain of a regression on length from surprisal, shape (…, 10) → (…); 0 if surprisal is length."""
    import numpy as np

    parts = _covariances(sums)
    slope_s, slope_m = quotient(parts["ls"], parts["ll"]), quotient(parts["lm"], parts["ll"])
    slope_s, slope_m = np.nan_to_num(slope_s), np.nan_to_num(slope_m)  # words of one length explain nothing
    ss, mm = parts["ss"] - slope_s * parts["ls"], parts["mm"] - slope_m * parts["lm"]
    sm = parts["sm"] - slope_s * parts["lm"]
    is_left = (ss > ROUNDING_ERROR * parts["ss"]) & (mm > ROUNDING_ERROR * parts["mm"])
    shares = np.where(is_left, sm * sm / np.where(is_left, ss * mm, 1.0), 0.0)
    gain = -0.5 * np.log1p(-np.clip(shares, 0.0, 1.0 - ROUNDING_ERROR))
    return np.asarray(np.where(parts["mm"] > 0, gain, np.nan))


PEARSON = Statistic(word_products, correlation, absent=UNMEASURED)
DELTA_LOGLIK = Statistic(word_products, gained_loglik, absent=UNMEASURED)
