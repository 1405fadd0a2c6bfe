"""Topics of morals by latent Dirichlet allocation, and the choice of their number (README.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from figeval.errors import DataError

from .. import extras

MIN_TOPICS, MAX_TOPICS = 8, 60  # the five options of an item have five topics
MAX_SHARE = 1 / 6  # of a split, for one topic; above 1/5, options of five topics cannot be balanced
PAPER = {"en": 24, "zh": 40}  # topics in Guan et al. (2022), section 3.3
TOP_WORDS = 20
SHOWN_WORDS = 10  # of a topic, as in the paper's Table 3
MIN_SPECIFICITY = 0.5
MAX_MORALS = 20_000  # from which topics are learned; from a larger set, as many are sampled
CHINESE_CONTENT = ("n", "v", "a", "d", "i", "l")  # first letters of jieba's tags; i and l are idioms and set phrases


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics that were learned from the morals of a training split.

    Attributes:
        count: number of topics.
        by_rule: whether every topic's specificity exceeds the threshold.
        vocabulary: number of content words that occur in two morals or more.
        specificity: weight of each topic's 20 heaviest words / weight of all words; 1 if there are at most 20 words.
        words: heaviest words of each topic.
    """

    count: int
    by_rule: bool
    vocabulary: int
    specificity: tuple[float, ...]
    words: tuple[tuple[str, ...], ...]
    _counts: Any
    _model: Any

    def probabilities(self, morals: Sequence[str]) -> NDArray[np.float64]:
        """Return the probability of each topic (columns) in each moral."""
        return np.asarray(self._model.transform(self._counts.transform(morals)))

    def of(self, morals: Sequence[str]) -> NDArray[np.intp]:
        """Return each moral's most probable topic, the first of several that are equally probable.

        Once a topic has a sixth of the morals, the remaining morals take their next most probable topic; morals whose
        topic is most certain are assigned first.
        """
        probabilities = self.probabilities(morals).round(9)
        capacity = np.full(self.count, np.ceil(len(morals) * max(MAX_SHARE, 1 / self.count)))
        assignment = np.zeros(len(morals), dtype=np.intp)
        for moral in np.argsort(-probabilities.max(axis=1), kind="stable"):
            assignment[moral] = np.where(capacity > 0, probabilities[moral], -1).argmax()
            capacity[assignment[moral]] -= 1
        return assignment


def learn(
    morals: Sequence[str],
    language: str,
    seed: int,
    *,
    count: int | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Topics:
    """Learn topics from the morals of a training split.

    Args:
        morals: the morals, repeated ones included.
        language: language of the lemmas and stop words.
        seed: seed of the sample of morals and of the model.
        count: number of topics. None means the smallest number from 8 to 60 for which the specificity of every topic
            exceeds 0.5. If there is none, or if there are at most 20 words, it means the paper's number, or the number
            of morals if that is smaller.
        progress: function that is called with the number being tried.

    Raises:
        DataError: there are fewer morals than `count`, or they have no words in common.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    if len(morals) > MAX_MORALS:
        sample = np.random.default_rng(seed).choice(len(morals), MAX_MORALS, replace=False)
        morals = [morals[index] for index in sorted(sample)]
    counts = CountVectorizer(analyzer=partial(content_words, language=language), min_df=2)
    try:
        matrix = counts.fit_transform(morals)
    except ValueError as error:
        raise DataError(
            "the morals of the training split have no content words in common, so there are no topics"
        ) from error
    if count and len(morals) < count:
        raise DataError(
            f"the training split has fewer stories ({len(morals)}) than --topics {count}; give a smaller one"
        )
    vocabulary = matrix.shape[1]
    numbers = range(MIN_TOPICS, min(MAX_TOPICS, len(morals)) + 1) if vocabulary > TOP_WORDS else ()
    for number in [count] if count else numbers:
        progress(number)
        model = _fit(matrix, number, seed)
        specificity = _specificity(model)
        if count or specificity.min() > MIN_SPECIFICITY:
            break
    else:
        number = min(PAPER.get(language, PAPER["en"]), len(morals))
        model = _fit(matrix, number, seed)
        specificity = _specificity(model)
    names = counts.get_feature_names_out()
    heaviest = [tuple(str(names[index]) for index in np.argsort(-row)[:SHOWN_WORDS]) for row in model.components_]
    shares = tuple(float(value) for value in specificity.round(6))
    by_rule = vocabulary > TOP_WORDS and bool(specificity.min() > MIN_SPECIFICITY)
    return Topics(number, by_rule, vocabulary, shares, tuple(heaviest), counts, model)


def _fit(matrix: Any, number: int, seed: int) -> Any:
    from sklearn.decomposition import LatentDirichletAllocation

    return LatentDirichletAllocation(number, random_state=seed, max_iter=20).fit(matrix)


def _specificity(model: Any) -> NDArray[np.float64]:
    weights = np.sort(model.components_, axis=1)
    return np.asarray(weights[:, -TOP_WORDS:].sum(axis=1) / weights.sum(axis=1))


def content_words(text: str, language: str) -> list[str]:
    """Return the content words of a text.

    English words are lemmatised and filtered by a stop list, Chinese words are selected by part of speech, and words of
    other languages need at least four letters.
    """
    if language == "zh":
        return [word for word, tag in extras.tagged_segments(text) if tag.startswith(CHINESE_CONTENT)]
    if language != "en":
        return list(re.findall(r"[^\W\d_]{4,}", text.lower()))
    import simplemma
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    words = [word for word in re.findall(r"[a-z]{2,}", text.lower()) if word not in ENGLISH_STOP_WORDS]
    lemmas = [str(simplemma.lemmatize(word, "en")) for word in words]
    return [lemma for lemma in lemmas if lemma not in ENGLISH_STOP_WORDS]
