"""Hypotheses that do not follow: by the definition of a similar idiom, or by an antonym in the right definition."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

from figeval.language.tagging import reader
from figeval.language.word_forms import PARTS, after_article, inflect, open_wordnet, single_words, with_capitals

from ..idioms import FUNCTION_STEMS, TOKEN, has_words, stem
from .inputs import Glossary, Sense
from .phrases import Rejected
from .sites import Site
from .substitution import Substitution, substitute

MIN_FORM_RATIO = 60  # rapidfuzz's ratio (0 to 100) from which two idioms are near in form
MIN_SIMILAR_RATIO = 60  # ratio of sorted words (0 to 100) from which two definitions are too similar
MIN_VARIANT_JACCARD = 0.5  # Jaccard index of words from which two idioms may be variants of one
MAX_NEIGHBOURS = 20  # nearest idioms that are tried
RANKS = {"JJ": 0, "RB": 0, "VB": 1, "NN": 2}  # prefix of a tag → rank; words of the lowest rank are replaced first
DIRECTIONS = ("right", "ahead", "back", "away", "up", "down", "in", "out", "on", "off")  # frequent in set phrases
LIGHT = frozenset(
    {*DIRECTIONS, "be", "have", "do", "go", "come", "make", "take", "get", "give", "put", "keep", "let", "use"}
)
NO_NEAR = "no idiom of similar form has a definition that fits and differs"
NO_ANTONYM = "no content word of the definition has an antonym"


@dataclass(frozen=True, slots=True)
class WrongDefinition:
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

    def replace_idiom(self, site: Site, right: str) -> tuple[WrongDefinition, Substitution]:
        """Return the definition of the nearest idiom that fits in the idiom's place, and the sentence with it.

        Raises:
            Rejected: no such definition fits.
        """
        for wrong in self._near(site.name):
            if are_similar(wrong.sense.text, right):
                continue
            try:
                return wrong, substitute(site, wrong.sense.text)
            except Rejected:
                continue
        raise Rejected(NO_NEAR)

    def _near(self, idiom: str) -> tuple[WrongDefinition, ...]:
        if idiom not in self._nearest:
            self._nearest[idiom] = self._search(idiom)
        return self._nearest[idiom]

    @cached_property
    def _nearest(self) -> dict[str, tuple[WrongDefinition, ...]]:
        return {}

    @cached_property
    def _stems(self) -> Mapping[str, frozenset[str]]:
        return {name: content_stems(name) for name in self.glossary.senses}

    def _search(self, idiom: str) -> tuple[WrongDefinition, ...]:
        from rapidfuzz import fuzz

        idiom_stems = content_stems(idiom)
        candidates = []
        for name, stems in self._stems.items():
            common_stems, ratio = idiom_stems & stems, fuzz.ratio(idiom.casefold(), name)
            variant = _jaccard(_words(name), _words(idiom)) >= MIN_VARIANT_JACCARD
            if not variant and (common_stems or ratio >= MIN_FORM_RATIO):
                words = ", ".join(sorted(common_stems))
                rule = f"shares {words}" if common_stems else f"letters alike ({ratio:.0f} of 100)"
                candidates.append((-len(common_stems), -ratio, name, rule))
        return tuple(
            WrongDefinition(name, sense, rule)
            for *_, name, rule in sorted(candidates)[:MAX_NEIGHBOURS]
            for sense in self.glossary.of(name)
        )


@lru_cache(maxsize=1 << 14)
def _words(idiom: str) -> frozenset[str]:
    return frozenset(stem(word) for word in TOKEN.findall(idiom.lower()) if has_words(word)) - FUNCTION_STEMS


def _jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    return len(left & right) / len(left | right) if left | right else 1.0


@lru_cache(maxsize=1 << 16)
def are_similar(first: str, second: str) -> bool:
    """Return whether two definitions may mean the same."""
    from rapidfuzz import fuzz

    left, right = content_stems(first), content_stems(second)
    if left & right or fuzz.token_sort_ratio(first.lower(), second.lower()) >= MIN_SIMILAR_RATIO:
        return True
    return any(synonyms(word) & right for word in left)


@lru_cache(maxsize=1 << 14)
def content_stems(text: str) -> frozenset[str]:
    """Return the stems of the words of a text other than function words."""
    words = [
        token for token in TOKEN.findall(text.lower()) if len(token) > 2 and token[0].isalpha() and has_words(token)
    ]
    stop = _stop_stems()
    return frozenset(root for word in words if (root := stem(word)) not in stop)


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


def contradict(right: Substitution, seed: str) -> tuple[str, str, str]:
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
    candidates = []
    for index, token in enumerate(within):
        alternative = "or" in words[max(0, index - 1) : index + 2]
        opposite = None if alternative or token.lower in ENGLISH_STOP_WORDS else antonym(token.lower, token.tag)
        if opposite and opposite not in words:
            candidates.append((RANKS[token.tag[:2]], token, opposite))
    if not candidates:
        raise Rejected(NO_ANTONYM)
    best = min(rank for rank, *_ in candidates)
    _, token, opposite = random.Random(seed).choice([candidate for candidate in candidates if candidate[0] == best])
    replacement = with_capitals(opposite, token.word)
    start, new_text = after_article(right.text, token.start, replacement)
    return f"{right.text[:start]}{new_text}{right.text[token.end :]}", token.word, replacement


@lru_cache(maxsize=1 << 14)
def antonym(word: str, tag: str) -> str | None:
    """Return an antonym of a word, in the part of speech and the form of a Penn tag, or None if there is none.

    It belongs to the most common sense that has antonyms; among several, it is the one with most senses in WordNet,
    which is hardly ever a rare word.
    """
    wordnet, pos = open_wordnet(), PARTS.get(tag[:2])
    lemma = wordnet.morphy(word, pos) if pos else None
    form = tag.replace("NNP", "NN")
    if lemma is None or lemma in LIGHT or word not in inflect(lemma, form):
        return None
    for entry in wordnet.lemmas(lemma, pos):  # the commonest sense first
        antonyms = {other.name() for other in entry.antonyms()}
        if forms := single_words(antonyms, form) - {word}:
            return min(forms, key=lambda other: (-len(wordnet.synsets(other, pos)), other))
    return None
