"""The n-gram metrics of Guan et al. (2022), as computed by their evaluation script, and their tokenization.

All texts are lower-cased. English is split into sentences (Punkt) and then by NLTK's `word_tokenize`, Chinese by
jieba's default mode. A missing or blank text has no value: unknown is not zero. The script counts
it as 0 in BLEU, repetition and length. Without a match in some order, BLEU is the smallest positive float, in effect 0;
its brevity penalty is 1 for a text longer than the reference, else exp(1 − r / c).
"""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from figeval import Collective, GenerationExample, Prediction, Statistic, answered, mean_of
from figeval.errors import DataError
from figeval.language import nltk_data
from figeval.metrics.statistic import Features, collective
from figeval.metrics.texts import ngrams

from .extras import segments

if TYPE_CHECKING:
    from figeval.metrics.intervals import Bounds

DEFAULT_LANGUAGE = "en"  # as in task files
HAN = re.compile("[\u4e00-\u9fff]")
FULL_WIDTH = str.maketrans(",!?:;()", "，！？：；（）")

# ---- texts and their tokens ------------------------------------------------------------------------------------------


def written_text(prediction: Prediction) -> str | None:
    """Return the text in lower case, or None if it is missing or blank."""
    if not answered(prediction) or not isinstance(prediction.value, str) or not prediction.value.strip():
        return None
    return prediction.value.lower()


def language_of(example: GenerationExample) -> str:
    """Return the language of an example, `en` or `zh`.

    Raises:
        DataError: the metrics have no tokenizer for the language, or the reference of a row without one is Chinese.
    """
    language = example.language or DEFAULT_LANGUAGE
    if language not in TOKENIZERS:
        languages = " and ".join(TOKENIZERS)
        raise DataError(f"example {example.id!r}: the metrics of STORAL are for {languages}, not {language!r}")
    if not example.language and HAN.search(example.references[0]):
        raise DataError(
            f"example {example.id!r} has a Chinese reference but no language; write `language: zh` into the task file"
        )
    return language


@lru_cache(maxsize=16)  # several metrics read one text
def tokens(text: str, language: str) -> tuple[str, ...]:
    """Split a lower-cased text into tokens.

    Raises:
        DataError: NLTK's data or jieba are not installed.
    """
    return tuple(TOKENIZERS[language](text))


def _english(text: str) -> list[str]:
    nltk_data.require(["punkt_tab"])
    from nltk.tokenize import word_tokenize

    words: list[str] = word_tokenize(text)
    return words


TOKENIZERS: dict[str, Callable[[str], list[str]]] = {"en": _english, "zh": lambda text: [*segments(text)]}


def _signature() -> str:
    """Return a signature of the tokenization, with the versions of the tokenizers."""
    try:
        chinese = f"jieba:{version('jieba')}"
    except PackageNotFoundError:
        chinese = "jieba:none"
    return f"case:lc|tok:word_tokenize,jieba|nltk:{version('nltk')}|{chinese}"


def _of_tokens(
    function: Callable[[GenerationExample, tuple[str, ...]], float], bounds: Bounds = (0.0, 1.0)
) -> Statistic:
    """Return the mean of a function of an example and the tokens of its text, with these limits of its values."""

    def value(example: GenerationExample, prediction: Prediction) -> float | None:
        text = written_text(prediction)
        return None if text is None else function(example, tokens(text, language_of(example)))

    return replace(mean_of(value, bounds=bounds), signature=_signature)


# ---- BLEU ------------------------------------------------------------------------------------------------------------


def _bleu(orders: int, example: GenerationExample, text: Sequence[str]) -> float:
    """Return NLTK's sentence BLEU of n-grams up to `orders` with uniform weights, without smoothing."""
    from nltk.translate.bleu_score import sentence_bleu

    references = [tokens(reference.lower(), language_of(example)) for reference in example.references]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about orders without a match, which make the score nearly 0
        return float(sentence_bleu(references, text, weights=(1 / orders,) * orders))


bleu_1 = _of_tokens(partial(_bleu, 1))
bleu_2 = _of_tokens(partial(_bleu, 2))


def _full_width(orders: int) -> Statistic:
    """Return BLEU of Chinese texts after punctuation of references and texts has been made full-width."""

    def value(example: GenerationExample, prediction: Prediction) -> float | None:
        text = written_text(prediction)
        if text is None or language_of(example) != "zh":
            return None
        references = tuple(reference.translate(FULL_WIDTH) for reference in example.references)
        return _bleu(orders, replace(example, references=references), tokens(text.translate(FULL_WIDTH), "zh"))

    return replace(mean_of(value, absent="no Chinese text was written"), signature=_signature)


bleu_1_full_width = _full_width(1)
bleu_2_full_width = _full_width(2)

# ---- repetition, variety and length ----------------------------------------------------------------------------------


def _repeats(n: int, _example: GenerationExample, text: Sequence[str]) -> float:
    """Return 1 if some n-gram occurs twice, else 0."""
    return float(max(Counter(ngrams(text, n)).values(), default=0) > 1)


repetition_2 = _of_tokens(partial(_repeats, 2))
repetition_4_published = _of_tokens(partial(_repeats, 4))
length_published = _of_tokens(lambda _example, text: float(len(text)), (0.0, math.inf))

DISTINCT = {"distinct_2_published": 2, "distinct_4": 4}


def _new_ngrams(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, list[Features]]:
    """Return, for each metric and row, the number of its n-grams that no earlier row has, and of all its n-grams."""
    features: dict[str, list[Features]] = {name: [] for name in names}
    seen: dict[str, set[tuple[str, ...]]] = {name: set() for name in names}
    language = settings.get("language", DEFAULT_LANGUAGE)
    for row in rows:
        text = row["pred"].lower() if row["status"] == "ok" and isinstance(row["pred"], str) else ""
        for name in names:
            if not text.strip():
                features[name].append(None)
                continue
            text_ngrams = list(ngrams(tokens(text, row.get("language") or language), DISTINCT[name]))
            earlier_count = len(seen[name])
            seen[name].update(text_ngrams)
            features[name].append((float(len(seen[name]) - earlier_count), float(len(text_ngrams))))
    return features


def _check_language(example: GenerationExample, _prediction: Prediction) -> Features:
    """Check the language, which `_new_ngrams` does not; an example's features are computed once all rows are known."""
    language_of(example)
    return None


def _over_all_texts() -> Collective:
    """Return the number of different n-grams in all texts together divided by that of all n-grams (Li et al. 2016)."""
    statistic = collective(_new_ngrams, no_interval="depends on the number of texts", pooled=True)
    return replace(statistic, features=_check_language, signature=_signature)


distinct_2_published = _over_all_texts()
distinct_4 = _over_all_texts()
