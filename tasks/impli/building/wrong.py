"""Hypotheses that do not follow: by the definition of a similar idiom, or by an antonym in the right definition."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

from figeval.language.tagging import reader
from figeval.language.word_forms import PARTS, after_article, inflected, open_wordnet, single_words, with_capitals

from ..idioms import FUNCTION_STEMS, TOKEN, has_words, stem
from .inputs import Glossary, Sense
from .phrases import Rejected
from .sites import Site
from .substitution import Substitution, substituted

NEAR = 60  # rapidfuzz's ratio (0 to 100) from which two idioms are near in form
LIKE = 60  # ratio of sorted words (0 to 100) from which two definitions are too similar
VARIANT = 0.5  # Jaccard index of words from which two idioms may be variants of one
MOST = 20  # nearest idioms that are tried
RANKS = {"JJ": 0, "RB": 0, "VB": 1, "NN": 2}  # prefix of a tag → rank; words of the lowest rank are replaced first
DIRECTIONS = ("right", "ahead", "back", "away", "up", "down", "in", "out", "on", "off")  # frequent in set phrases
LIGHT = frozenset(
    {*DIRECTIONS, "be", "have", "do", "go", "come", "make", "take", "get", "give", "put", "keep", "let", "use"}
)
NO_NEAR = "no idiom of similar form has a definition that fits and differs"
NO_ANTONYM = "no content word of the definition has an antonym"


@dataclass(frozen=True, slots=True)
class Wrong:
    """A definition of another idiom, and the reason for choosing that idiom."""

    idiom: str
    sense: Sense
    rule: str


@dataclass(frozen=True)
class Impostors:
    """Chooser of wrong definitions: those of the idioms that are nearest in form.

    Two idioms are near if they share a content word, inflected or not, or if their spellings are similar (`NEAR`).
    Idioms that share the most words come first, then those with the most similar spelling. Idioms that share at least
    half of all their words, apart from function words, are left out, since they may be variants ("keep your eyes open",
    "keep an eye out"). A definition counts as wrong only if it shares no content word and no synonym in WordNet with
    the right one, and is not similar to it (`LIKE`).
    """

    glossary: Glossary

    def replaced(self, where: Site, right: str) -> tuple[Wrong, Substitution]:
        """Return the definition of the nearest idiom that fits in the idiom's place, and the sentence with it.

        Raises:
            Rejected: no such definition fits.
        """
        for wrong in self._near(where.name):
            if alike(wrong.sense.text, right):
                continue
            try:
                return wrong, substituted(where, wrong.sense.text)
            except Rejected:
                continue
        raise Rejected(NO_NEAR)

    def _near(self, idiom: str) -> tuple[Wrong, ...]:
        if idiom not in self._nearest:
            self._nearest[idiom] = self._search(idiom)
        return self._nearest[idiom]

    @cached_property
    def _nearest(self) -> dict[str, tuple[Wrong, ...]]:
        return {}

    @cached_property
    def _stems(self) -> Mapping[str, frozenset[str]]:
        return {name: content_stems(name) for name in self.glossary.senses}

    def _search(self, idiom: str) -> tuple[Wrong, ...]:
        from rapidfuzz import fuzz

        own = content_stems(idiom)
        ranked = []
        for name, stems in self._stems.items():
            shared, ratio = own & stems, fuzz.ratio(idiom.casefold(), name)
            variant = _shared(_words(name), _words(idiom)) >= VARIANT
            if not variant and (shared or ratio >= NEAR):
                rule = f"shares {', '.join(sorted(shared))}" if shared else f"letters alike ({ratio:.0f} of 100)"
                ranked.append((-len(shared), -ratio, name, rule))
        return tuple(
            Wrong(name, sense, rule) for *_, name, rule in sorted(ranked)[:MOST] for sense in self.glossary.of(name)
        )


@lru_cache(maxsize=1 << 14)
def _words(idiom: str) -> frozenset[str]:
    return frozenset(stem(word) for word in TOKEN.findall(idiom.lower()) if has_words(word)) - FUNCTION_STEMS


def _shared(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 1.0


@lru_cache(maxsize=1 << 16)
def alike(one: str, other: str) -> bool:
    """Return whether two definitions may mean the same."""
    from rapidfuzz import fuzz

    left, right = content_stems(one), content_stems(other)
    if left & right or fuzz.token_sort_ratio(one.lower(), other.lower()) >= LIKE:
        return True
    return any(synonyms(word) & right for word in left)


@lru_cache(maxsize=1 << 14)
def content_stems(text: str) -> frozenset[str]:
    """Return the stems of the words of a text other than function words."""
    words = [
        token for token in TOKEN.findall(text.lower()) if len(token) > 2 and token[0].isalpha() and has_words(token)
    ]
    stop = _stop_stems()
    return frozenset(found for word in words if (found := stem(word)) not in stop)


@cache
def _stop_stems() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    indefinite = ("someone", "something", "one", "thing", "person", "people", "make", "way", "situation", "very", "use")
    return FUNCTION_STEMS | {stem(word) for word in (*ENGLISH_STOP_WORDS, *indefinite)}


@lru_cache(maxsize=1 << 14)
def synonyms(word: str) -> frozenset[str]:
    """Return the stems of the single words that share a WordNet sense with a word; a stem may not be a word."""
    lemmas = {name for synset in open_wordnet().synsets(word) for name in synset.lemma_names()}
    return frozenset(stem(name.lower()) for name in lemmas if name.isalpha())


def contradicted(right: Substitution, seed: str) -> tuple[str, str, str]:
    """Replace one content word of a definition, in its sentence, by an antonym.

    A word's part of speech is that of its tag in the sentence. Adjectives and adverbs are replaced before verbs, and
    verbs before nouns; among several, the word is drawn with the seed. Not replaced are words of scikit-learn's stop
    list, light verbs, and words next to "or" ("old or different" follows from "different"); an antonym that already
    occurs in the definition is not used.

    Returns:
        The sentence, the word and its replacement.

    Raises:
        Rejected: there is no such word.
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    tokens = [token for sentence in reader().sentences(right.text) for token in sentence]
    within = [token for token in tokens if right.start <= token.start and token.end <= right.end]
    words = [token.lower for token in within]
    found = []
    for place, token in enumerate(within):
        alternative = "or" in words[max(0, place - 1) : place + 2]
        opposed = None if alternative or token.lower in ENGLISH_STOP_WORDS else antonym(token.lower, token.tag)
        if opposed and opposed not in words:
            found.append((RANKS[token.tag[:2]], token, opposed))
    if not found:
        raise Rejected(NO_ANTONYM)
    best = min(rank for rank, *_ in found)
    _, token, opposed = random.Random(seed).choice([one for one in found if one[0] == best])
    other = with_capitals(opposed, token.word)
    start, written = after_article(right.text, token.start, other)
    return f"{right.text[:start]}{written}{right.text[token.end :]}", token.word, other


@lru_cache(maxsize=1 << 14)
def antonym(word: str, tag: str) -> str | None:
    """Return an antonym of a word, in the part of speech and the form of a Penn tag, or None if there is none.

    It belongs to the most common sense that has antonyms; among several, it is the one with most senses in WordNet,
    which is hardly ever a rare word.
    """
    wordnet, pos = open_wordnet(), PARTS.get(tag[:2])
    lemma = wordnet.morphy(word, pos) if pos else None
    form = tag.replace("NNP", "NN")
    if lemma is None or lemma in LIGHT or word not in inflected(lemma, form):
        return None
    for entry in wordnet.lemmas(lemma, pos):  # the commonest sense first
        opposed = {other.name() for other in entry.antonyms()}
        if found := single_words(opposed, form) - {word}:
            return min(found, key=lambda other: (-len(wordnet.synsets(other, pos)), other))
    return None
