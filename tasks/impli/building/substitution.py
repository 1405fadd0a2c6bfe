"""Substitution of a definition for an idiom: inflection, articles, slots and agreement, and reasons for rejection.

A definition that does not fit raises `Rejected` with the reason, which the report counts. Every repair is listed in the
changes of the pair.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from figeval.language.tagging import BE, DO, HAVE, SUBJECTS, Token
from figeval.language.word_forms import after_article, indefinite_article, inflect, open_lemminflect

from ..idioms import ARTICLES
from .phrases import FINITE, MODIFIER, NOUN, NOUNS, OTHER_PART, PLURAL, VERB, Phrase, Rejected, fit_phrase, lemma
from .sites import ARTICLE, NO_PART, REFLEXIVE, Site

# Reasons why a definition cannot replace an idiom.
FORM = "the verb's form is unclear"
OPEN_PLACE = "the definition has an open place that nothing fills"
LOST = "what fills the idiom's open place would be lost"
OBJECT = "an object follows the idiom, and the definition takes none"
NO_OBJECT = "the definition needs an object, and none follows"
ADVERB = "an adjective where an adverb is needed, or the reverse"
BEFORE_NOUN = "the definition is too long to precede a noun"
AGREEMENT = "the definition disagrees in number with the words around it"
VOICE = "the idiom is passive and the definition is not"
LONGER = "the idiom is part of a longer phrase"
DOUBLED = "the definition has the preposition that follows the idiom"
DETERMINERS = "two determiners"
SAME_AS_PREMISE = "the hypothesis would be the premise"

SINGULAR = frozenset({"a", "an", "this", "that", "each", "every", "another"})
NOUN_PHRASE = frozenset({"DT", "PRP", "PRP$", "CD", "JJ", "NN", "NNS", "NNP", "NNPS", "EX"})
OBJECTIVE = {"my": "me", "your": "you", "his": "him", "her": "her", "its": "it", "our": "us", "their": "them"}
INDEFINITE = re.compile(r"\b(some(?:one|body)|something)('s)?(?!\w)(?! (?:who|whose|that|which)\b)")
DESCRIBED = re.compile(r"some(?:one|body|thing) (?:who|whose|that|which)\b")
GENERIC_POSSESSIVE = re.compile(r"\b(?:one's|your)(?!\w)")
GENERIC_REFLEXIVE = re.compile(r"\b(?:oneself|yourself|yourselves)\b")
YOU = re.compile(
    r"\byou\b|\b(?:that|what|how|where|when|if|as|than) one\b|"
    r"\bone (?:is|was|has|had|does|did|can|could|will|would|should|must|may|might|needs|wants|feels|thinks|knows)\b"
)
COPULAS = frozenset({"be", "seem", "feel", "get", "become", "look", "stay", "remain", "sound", "go", "turn", "keep"})
DETERMINER = re.compile(r"(?:an?|the|(?:any|every|some)(?:one|thing|body)?|each|no|all|two) ", re.IGNORECASE)
SENTENCE_BEGINS = re.compile(r"(?:^|[.!?:]|[\"'‘“(])\s*$")
PASSIVE = re.compile(r"be (?!able\b|un)\w")


@dataclass(frozen=True, slots=True)
class Substitution:
    """A sentence in which a definition has replaced an idiom.

    Attributes:
        text: the sentence.
        start, end: span of the new characters, half-open.
        changes: descriptions of all changes other than the replacement itself.
    """

    text: str
    start: int
    end: int
    changes: tuple[str, ...]


def substitute(site: Site, definition: str) -> Substitution:
    """Return the sentence with the idiom replaced by a definition. Raises `Rejected` if it does not fit there."""
    copula = site.part == VERB and _head(site).lower in BE
    prefix = ""
    try:
        phrase = fit_phrase(definition, site.part)
    except Rejected as error:
        if not copula or error.reason != OTHER_PART:
            raise
        phrase = _predicate(definition)
        prefix = site.sentence[site.start : _head(site).end]
    check_surroundings(site, phrase, copula=bool(prefix))
    return insert_phrase(site, phrase, prefix)


def _predicate(definition: str) -> Phrase:
    """Return a definition as a predicate of "be": a modifier, or else a noun phrase."""
    try:
        return fit_phrase(definition, MODIFIER)
    except Rejected:
        return fit_phrase(definition, NOUN)


def check_surroundings(site: Site, phrase: Phrase, *, copula: bool) -> None:
    """Raise `Rejected` if a phrase of the right part of speech does not fit the words around the idiom."""
    following = site.tag(site.last + 1)
    object_follows = following in NOUN_PHRASE
    if following in NOUNS and site.tag(site.last) in (*NOUNS, "JJ") and site.part != MODIFIER:
        raise Rejected(BEFORE_NOUN)
    if site.part == MODIFIER and site.tag(site.first) == "IN" and site.follower == "of":
        raise Rejected(LONGER)
    if phrase.ends_in_preposition and not object_follows:
        raise Rejected(NO_OBJECT)
    if following in ("IN", "TO") and site.follower in phrase.text.split():
        raise Rejected(DOUBLED)
    if site.part == VERB and not copula:
        if object_follows and not (phrase.ends_in_preposition or len(phrase.tags) == 1 or phrase.tags[-1] == "RP"):
            raise Rejected(OBJECT)
    elif site.part == MODIFIER:
        _check_modifier(site, phrase)
    elif site.part == NOUN and site.head is not None:
        verb_disagrees = following in FINITE and phrase.is_plural != (site.tag(site.head) in PLURAL)
        if verb_disagrees or (phrase.is_plural and _determiner_before(site) in SINGULAR):
            raise Rejected(AGREEMENT)


def _check_modifier(site: Site, phrase: Phrase) -> None:
    before, following = site.tag(site.first - 1), site.tag(site.last + 1)
    if following in NOUNS and (before in ("DT", "PRP$", "JJ") or site.tag(site.first) == "IN"):
        if not phrase.is_prenominal or site.tag(site.first) == "IN":
            raise Rejected(BEFORE_NOUN)
        return
    index = site.first - 1
    while site.tag(index).startswith("RB"):
        index -= 1
    copula = index >= 0 and lemma(site.tokens[index].lower.replace("'s", "be"), "VERB") in COPULAS
    behind_noun = before in NOUNS and phrase.is_postnominal
    if (phrase.is_adjective and not (copula or behind_noun)) or (phrase.is_adverb and copula):
        raise Rejected(ADVERB)
    if copula and phrase.text.startswith("having "):
        raise Rejected(ADVERB)


def insert_phrase(site: Site, phrase: Phrase, prefix: str) -> Substitution:
    """Return the sentence with a fitting phrase, inflected, with its articles adjusted and its slots filled.

    Args:
        site: location of the idiom.
        phrase: the definition.
        prefix: beginning of the idiom up to its form of "be", if that stays; empty otherwise.

    Raises:
        Rejected: a form or the filler of a slot is unknown, or nothing would change.
    """
    changes = list(phrase.changes)
    text = phrase.text
    if prefix:
        text = f"{prefix} {phrase.text}"
        changes.append("copula of the idiom kept")
    elif site.part == VERB:
        text = conjugate(site, phrase, changes)
    elif site.part == NOUN:
        text = decline_noun(site, phrase, changes)
    text = fill_slots(site, text, changes)
    article = site.tokens[site.first].lower
    if site.part == NOUN and article in ARTICLES and not (phrase.is_plural or DETERMINER.match(text)):
        text = f"{article if article == 'the' else indefinite_article(text)} {text}"
        changes.append("article of the idiom kept")
    start, text = _with_one_determiner(site, text, changes)
    if site.sentence[start].isupper() and SENTENCE_BEGINS.search(site.sentence[:start]):
        text = text[:1].upper() + text[1:]
    sentence = f"{site.sentence[:start]}{text}{site.sentence[site.end :]}"
    if sentence.casefold() == site.sentence.casefold():
        raise Rejected(SAME_AS_PREMISE)
    return Substitution(sentence, start, start + len(text), tuple(changes))


def _with_one_determiner(site: Site, text: str, changes: list[str]) -> tuple[int, str]:
    """Return the start of the replaced stretch, and the text, with one of two determiners and the right "a" or "an".

    Raises:
        Rejected: neither of two determiners is an article that can be dropped.
    """
    before = site.tokens[site.first - 1].lower if site.first else ""
    if site.part == NOUN and (determiner := _determiner_before(site)) and (double := DETERMINER.match(text)):
        if DESCRIBED.match(text) and before in ("a", "an"):
            changes.append("article before the idiom left out")
            return site.tokens[site.first - 1].start, text
        if not ARTICLE.match(text):
            raise Rejected(DETERMINERS)
        text = text[double.end() :]
        changes.append(f"article of the definition left out after {determiner!r}")
    if site.part not in (NOUN, MODIFIER) or before not in ("a", "an"):
        return site.start, text
    start, text = after_article(site.sentence, site.start, text)
    if start != site.start:
        changes.append("article before the idiom changed")
    return start, text


def conjugate(site: Site, phrase: Phrase, changes: list[str]) -> str:
    """Return the phrase with its verbs in the form of the idiom's verb.

    Raises:
        Rejected: that form is unclear, or the idiom is passive and the definition is not.
    """
    tag, text = verb_form(_head(site)), phrase.text
    if tag == "VB" and _auxiliary(site) in ("i", "we", "they", "he", "she"):
        tag = "VBP"
    if tag == "VBN" and _is_past(site):
        tag = "VBD"
    if tag == "VBN" and (auxiliary := _auxiliary(site)) not in HAVE:
        if auxiliary not in BE:
            raise Rejected(FORM)
        if not PASSIVE.match(text):
            raise Rejected(VOICE)
        changes.append("copula of the definition left out")
        return text.removeprefix("be ")
    for start, end in reversed(phrase.heads):
        base = lemma(text[start:end], "VERB")
        if base == "be" and _auxiliary(site) in (*DO, "n't"):
            raise Rejected(FORM)
        form = be_form(site, tag) if base == "be" else next(iter(inflect(base, tag)), None)
        if form is None:
            raise Rejected(FORM)
        if form != text[start:end]:
            changes.append(f"{text[start:end]} → {form} ({tag})")
        text = text[:start] + form + text[end:]
    return text


def _is_past(site: Site) -> bool:
    """Return whether a verb tagged as a participle is a past tense: after a subject, before an object of the idiom."""
    assert site.head is not None
    verb, before = _head(site).lower, site.tag(site.head - 1)
    has_object = site.head < site.last and site.tag(site.head + 1) in NOUN_PHRASE
    return has_object and before in (*NOUNS, *SUBJECTS) and verb in inflect(lemma(verb, "VERB"), "VBD")


def _auxiliary(site: Site) -> str:
    """Return the word before the idiom, skipping adverbs, with contracted forms of "be" and "have" written out."""
    index = site.first - 1
    while site.tag(index).startswith("RB"):
        index -= 1
    word = site.tokens[index].lower if index >= 0 else ""
    return {"'ve": "have", "'d": "had", "'re": "are", "'m": "am", "'s": "is"}.get(word, word)


def verb_form(token: Token) -> str:
    """Return the Penn tag of a verb, corrected if its spelling allows only one other. Raises `Rejected` if unclear."""
    base = lemma(token.lower, "VERB")
    if base == "be":
        return token.tag
    if "VERB" not in open_lemminflect().getAllLemmas(token.lower):
        raise Rejected(NO_PART)
    forms = [tag for tag in ("VB", "VBP", "VBZ", "VBD", "VBN", "VBG") if token.lower in inflect(base, tag)]
    if token.tag in forms:
        return token.tag
    if len(forms) != 1:
        raise Rejected(FORM)
    return forms[0]


def be_form(site: Site, tag: str) -> str | None:
    """Return the form of "be" for a tag, in agreement with the nearest noun or pronoun before the idiom."""
    fixed = {"VB": "be", "VBZ": "is", "VBN": "been", "VBG": "being"}
    if tag in fixed:
        return fixed[tag]
    before = reversed(site.tokens[: site.first])
    subject = next((token for token in before if token.tag in NOUNS or token.tag in SUBJECTS), None)
    if subject is None:
        return None
    if tag == "VBP":
        return "am" if subject.lower == "i" else "are"
    plural = subject.tag in PLURAL or subject.lower in ("we", "you", "they")
    return "were" if plural else "was"


def decline_noun(site: Site, phrase: Phrase, changes: list[str]) -> str:
    """Return the phrase, with its noun in the plural if the idiom's noun is, unlike in the dictionary form."""
    ((start, end),) = phrase.heads
    head = _head(site)
    dictionary_words = site.name.lower().replace("-", " ").split()
    if head.tag not in PLURAL or head.lower in dictionary_words or phrase.is_plural:
        return phrase.text
    plural = next(iter(inflect(lemma(phrase.text[start:end], "NOUN"), "NNS")), None)
    if plural is None:
        raise Rejected(FORM)
    changes.append(f"{phrase.text[start:end]} → {plural} (NNS)")
    return re.sub(r"^an? ", "", phrase.text[:start] + plural + phrase.text[end:])


def fill_slots(site: Site, text: str, changes: list[str]) -> str:
    """Return the text with its slots filled from the idiom. Raises `Rejected` if they cannot be filled."""
    if possessive := site.possessive:
        text = GENERIC_REFLEXIVE.sub(REFLEXIVE[possessive], GENERIC_POSSESSIVE.sub(possessive, text))
    elif GENERIC_POSSESSIVE.search(text) or GENERIC_REFLEXIVE.search(text):
        raise Rejected(OPEN_PLACE)
    if YOU.search(text):
        raise Rejected(OPEN_PLACE)
    slots = list(INDEFINITE.finditer(text))
    if site.filler:
        of_things = "something" in site.name.lower()
        if len(slots) != 1 or (slots[0].group(1) == "something") != of_things:
            raise Rejected(LOST)
        (slot,) = slots
        owner = site.filler.removesuffix("'s").strip()
        replacement = site.filler if slot.group(2) else OBJECTIVE.get(site.filler.lower(), owner)
        text = text[: slot.start()] + replacement + text[slot.end() :]
        changes.append(f"{slot.group()} → {replacement}")
    elif slots and site.tag(site.last + 1) in NOUN_PHRASE | {"IN", "TO"}:
        raise Rejected(OPEN_PLACE)
    return text


def _head(site: Site) -> Token:
    assert site.head is not None
    return site.tokens[site.head]


def _determiner_before(site: Site) -> str:
    """Return the determiner of the noun phrase that ends in the idiom, skipping adjectives; empty if there is none."""
    index = site.first - 1
    if site.tag(index) == "CD":
        return site.tokens[index].lower
    while site.tag(index) in ("JJ", "JJR", "JJS", "VBN", "CD", "CC", ",") or site.tag(index).startswith("RB"):
        index -= 1
    return site.tokens[index].lower if site.tag(index) in ("DT", "PRP$", "POS") else ""
