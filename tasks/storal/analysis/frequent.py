"""Appendix A.3: the stories' most frequent nouns by kind (Figure 3), and their most frequent 5-grams (Table 12)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from figeval.errors import DataError
from figeval.language import tagging
from figeval.language.word_forms import open_wordnet
from figeval.metrics.texts import ngrams
from figeval.records.findings import AnalysedNumber, Analysis, Listing

from .. import extras
from .corpus import Stories

NOUNS = 50  # as in Figure 3
GRAM = 5  # words, as in Table 12
GRAMS = 100  # that are written
TAGS = frozenset({"NN", "NNS"})  # common nouns
OWN_KINDS = {
    "en": "The kinds are WordNet's classes of a noun's first sense (its lexicographer files).",
    "zh": "The kinds are jieba's tags: n is a common noun, nr a person, ns a place, nt an organization, nz other.",
}
NOT_THE_PAPERS = "The paper has four kinds of nouns, which its text does not give, so they are missing here."
TAGGED = {
    "en": "tokens that NLTK's perceptron tags NN or NNS, lemma by simplemma",
    "zh": "words of two characters or more that jieba tags n…",
}


def nouns(stories: Stories) -> Analysis:
    """Return the most frequent nouns of the stories with their kinds."""
    tokens, texts = Counter[str](), Counter[str]()
    for pair in stories.pairs:
        in_story = list(_nouns_of(pair.story, stories.language))
        tokens.update(in_story)
        texts.update(set(in_story))
    frequent = tokens.most_common(NOUNS)
    kinds, kinds_note = _kinds(stories.language)
    rows = [(kinds(noun), _word_of(noun), count, texts[noun]) for noun, count in frequent]
    by_kind = Counter(kind for kind, *_ in rows if kind)
    of_kinds = [(kind, count, sum(row[2] for row in rows if row[0] == kind)) for kind, count in by_kind.most_common()]
    method, language = TAGGED[stories.language], stories.language
    note = f"{NOT_THE_PAPERS} {kinds_note}"
    findings = [
        AnalysedNumber(name="nouns", value=tokens.total(), definition=f"tokens; {method}", note=note),
        AnalysedNumber(name="different nouns", value=len(tokens), definition=f"lemmas; {method}"),
    ]
    listings = [
        Listing(f"nouns_{language}", "Most frequent nouns", ("kind", "noun", "tokens", "stories"), rows),
    ]
    if of_kinds:
        title = f"Kinds of these {len(rows)} nouns"
        listings.append(Listing(f"noun_kinds_{language}", title, ("kind", "nouns", "tokens"), of_kinds))
    return Analysis(name=f"Figure 3: nouns, {stories.title}", findings=findings, listings=listings)


def _nouns_of(story: str, language: str) -> Iterator[str]:
    """Yield the nouns of a story: lemmas in English, words with their tag in Chinese."""
    if language == "zh":
        yield from (f"{word}/{tag}" for word, tag in extras.tagged_segments(story) if tag[0] == "n" and len(word) > 1)
        return
    lemma = _lemma()
    for sentence in tagging.reader().sentences(story):
        yield from (lemma(token.lower) for token in sentence if token.tag in TAGS and token.word.isalpha())


def _lemma() -> Any:
    import simplemma

    return cache(lambda word: str(simplemma.lemmatize(word, "en")).lower())


def _word_of(noun: str) -> str:
    return noun.partition("/")[0]


def _kinds(language: str) -> tuple[Callable[[str], str | None], str]:
    """Return the function from a noun to its kind, and what the kinds are, or how to get WordNet, which has them."""
    if language == "zh":
        return (lambda noun: noun.partition("/")[2]), OWN_KINDS[language]
    try:
        wordnet = open_wordnet()
    except DataError as error:
        return (lambda _: None), f"Kinds are left out: {error}."

    def kind_of(noun: str) -> str | None:
        senses = wordnet.synsets(noun, "n")
        return senses[0].lexname().removeprefix("noun.") if senses else None

    return kind_of, OWN_KINDS[language]


def five_grams(stories: Stories) -> Analysis:
    """Return the most frequent sequences of five words within a sentence of a story."""
    counts, texts = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for sentences in stories.story_sentences:
        in_story = list(_grams(sentences, stories))
        counts.update(in_story)
        texts.update(set(in_story))
    separator = "" if stories.language == "zh" else " "
    rows = [(separator.join(gram), count, texts[gram]) for gram, count in counts.most_common(GRAMS)]
    definition = "five words within a sentence of a story, without punctuation"
    findings = [
        AnalysedNumber(name="different 5-grams", value=len(counts), definition=definition),
        AnalysedNumber(
            name="5-grams in several stories", value=sum(count > 1 for count in texts.values()), definition=definition
        ),
    ]
    head = ("5-gram", "times", "stories")
    listing = Listing(f"five_grams_{stories.language}", "Most frequent 5-grams", head, rows)
    return Analysis(name=f"Table 12: 5-grams, {stories.title}", findings=findings, listings=[listing])


def _grams(sentences: Iterable[str], stories: Stories) -> Iterator[tuple[str, ...]]:
    for sentence in sentences:
        yield from ngrams([word for word in stories.words(sentence) if any(map(str.isalnum, word))], GRAM)
