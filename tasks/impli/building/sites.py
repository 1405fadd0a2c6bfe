"""Location of an idiom in its sentence, and reasons why it cannot be replaced there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from figeval.language.tagging import SUBJECTS, Token
from figeval.language.word_forms import open_lemminflect

from ..idioms import ARTICLES, POSSESSIVES, SLOT, TOKEN, Occurrence, counts
from .phrases import MODIFIER, NOUNS, Rejected, lemma, part_of

SHUFFLED = "the idiom's words are in a different order"
INSERTED = "there are other words between those of the idiom"
CUT = "the idiom begins or ends within a word"
NO_PART = "the idiom is a clause, or its part of speech is unclear"
NAME = "a word of the idiom is part of a name"
DETERMINED = "the idiom's article or possessive is not that of its dictionary form"

TEMPORAL = frozenset({"yesterday", "today", "tomorrow", "tonight", "last", "next", "this", "every"})
REFLEXIVE = {
    "my": "myself",
    "your": "yourself",
    "his": "himself",
    "her": "herself",
    "its": "itself",
    "our": "ourselves",
    "their": "themselves",
}
OWNERS = {word: word for word in REFLEXIVE} | {reflexive: word for word, reflexive in REFLEXIVE.items()}
ARTICLE = re.compile(r"(?:an?|the) ")
POSSESSIVE = re.compile(r"\b(?:my|your|his|her|its|our|their|one's|someone's)(?!\w)")


@dataclass(frozen=True, slots=True)
class Site:
    """An idiom in its tagged sentence.

    Attributes:
        sentence: the text.
        tokens: all tokens of the text.
        first, last: indices of the idiom's first and last token.
        part: its part of speech.
        head: index of the token that heads it; None for a modifier.
        name: its dictionary form.
        filler: text in the slot of the idiom; empty if there is none.
        possessive: possessive pronoun within the idiom, in lower case; empty if there is none.
    """

    sentence: str
    tokens: tuple[Token, ...]
    first: int
    last: int
    part: str
    head: int | None
    name: str
    filler: str = ""
    possessive: str = ""

    @property
    def start(self) -> int:
        """Offset of the idiom's first character."""
        return self.tokens[self.first].start

    @property
    def end(self) -> int:
        """Offset just after the idiom's last character."""
        return self.tokens[self.last].end

    @property
    def follower(self) -> str:
        """Token after the idiom, in lower case; empty at the end of the sentence."""
        return self.tokens[self.last + 1].lower if self.last + 1 < len(self.tokens) else ""

    def tag(self, index: int) -> str:
        """Return the tag of a token ("RB" for "yesterday" and the like), or an empty text outside of the sentence."""
        if not 0 <= index < len(self.tokens):
            return ""
        return "RB" if self.tokens[index].lower in TEMPORAL else self.tokens[index].tag


def find_site(sentence: str, tokens: Sequence[Token], occurrence: Occurrence) -> Site:
    """Return the location of an idiom. Raises `Rejected` if it cannot be replaced there."""
    if not occurrence.in_order:
        raise Rejected(SHUFFLED)
    covered = [
        index for index, token in enumerate(tokens) if token.end > occurrence.start and token.start < occurrence.end
    ]
    if not covered or tokens[covered[0]].start < occurrence.start or tokens[covered[-1]].end > occurrence.end:
        raise Rejected(CUT)
    check_edges(sentence, occurrence)
    words = [index for index in covered if any(_overlap(tokens[index], word) for word in occurrence.words)]
    if occurrence.name.islower() and any(index and tokens[index].tag.startswith("NNP") for index in words):
        raise Rejected(NAME)
    part, head = part_of(tokens[covered[0] : covered[-1] + 1])
    word = tokens[covered[0]]
    if begins_with_participle(occurrence, tokens, covered[0]):
        part, head = MODIFIER, None
    if len(covered) == 1 and {*open_lemminflect().getAllLemmas(word.lower)} == {"ADJ"}:
        part, head = MODIFIER, None  # whatever the tagger says
    if part is None:
        raise Rejected(NO_PART)
    filling = [tokens[index] for index in covered if index not in words]
    check_determiners(occurrence.name, filling, part)
    filler = filler_of(occurrence, filling)
    first = covered[0]
    if ARTICLE.match(occurrence.name.lower()) and first and tokens[first - 1].lower in ARTICLES:
        first -= 1
    return Site(
        sentence=sentence,
        tokens=tuple(tokens),
        first=first,
        last=covered[-1],
        part=part,
        head=None if head is None else covered[0] + head,
        name=occurrence.name,
        filler=sentence[filler[0].start : filler[-1].end] if filler else "",
        possessive="" if filler else next((owner for token in filling if (owner := OWNERS.get(token.lower))), ""),
    )


def begins_with_participle(occurrence: Occurrence, tokens: Sequence[Token], first: int) -> bool:
    """Return whether an idiom of several words is a modifier that begins with a participle ("armed to the teeth").

    The participle must be that of the dictionary form, and not a verb with its subject ("she made it").
    """
    word = tokens[first]
    if (
        len(occurrence.words) < 2
        or word.lower != occurrence.name.lower().split()[0]
        or word.lower == lemma(word.lower, "VERB")
    ):
        return False
    subject = first > 0 and tokens[first - 1].tag in (*NOUNS, *SUBJECTS)
    return word.tag == "VBN" or (word.tag == "VBD" and not subject)


def filler_of(occurrence: Occurrence, filling: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens in the slot of an idiom that stands for somebody or something ("someone", not "one's").

    The slot lies between the same words as in the dictionary form; an article after it there ("give someone the cold
    shoulder") belongs to the idiom. A slot at the beginning or end of an idiom is not within it.

    Args:
        occurrence: the idiom.
        filling: tokens within it that are not its own words.

    Raises:
        Rejected: the slot is empty, or words other than articles, possessives and its filler stand between the
            idiom's words.
    """
    name = occurrence.name.lower()
    slot = next((slot for slot in SLOT.finditer(name) if slot.group().startswith("some")), None)
    within: list[Token] = []
    if slot is not None:
        before, after = (sum(map(counts, TOKEN.findall(part))) for part in (name[: slot.start()], name[slot.end() :]))
        if before and after and before + after == len(occurrence.words):
            start, end = occurrence.words[before - 1][1], occurrence.words[before][0]
            within = [token for token in filling if start <= token.start < end]
            if len(within) > 1 and within[-1].lower in ARTICLES and ARTICLE.match(name[slot.end() :].lstrip()):
                within.pop()
        if not within and before and after:
            raise Rejected(INSERTED)
    extra_words = {"'s", *REFLEXIVE.values()} if "oneself" in name else {"'s"}
    if any(token not in within and token.lower not in ARTICLES | POSSESSIVES | extra_words for token in filling):
        raise Rejected(INSERTED)
    return within


def check_determiners(name: str, filling: Sequence[Token], part: str) -> None:
    """Raise `Rejected` if the determiners within an idiom are not those of its dictionary form.

    Some dictionary forms leave them out ("find feet"), but "in the face of" is not "in your face", and "on the edge" is
    not "on edge".
    """
    owned = any(token.tag == "POS" or token.lower in POSSESSIVES for token in filling)
    if POSSESSIVE.search(name.lower()) and not owned:
        raise Rejected(DETERMINED)
    if (
        part == MODIFIER
        and any(token.tag == "DT" for token in filling)
        and not re.search(r"\b(?:an?|the)\b", name.lower())
    ):
        raise Rejected(DETERMINED)


def check_edges(sentence: str, occurrence: Occurrence) -> None:
    """Raise `Rejected` if hyphens join an idiom's words with other words, or are missing between its own words.

    "On a knife-edge" is not "on edge", and "has been" is not "has-been"; the article in "run-of-the-mill" is its own.
    """
    articles = re.finditer(r"\b(?:an?|the)\b", occurrence.surface)
    inner = ((occurrence.start + article.start(), occurrence.start + article.end()) for article in articles)
    starts, ends = zip(*occurrence.words, *inner, strict=True)
    for start, end in occurrence.words:
        before, after = sentence[max(0, start - 2) : start], sentence[end : end + 2]
        joined_before = before[-1:] == "-" and before[:1].isalnum() and start - 1 not in ends
        joined_after = after[:1] == "-" and after[1:].isalnum() and end + 1 not in starts
        if joined_before or joined_after:
            raise Rejected(CUT)
    if occurrence.name.count("-") > occurrence.surface.count("-"):
        raise Rejected(CUT)


def _overlap(token: Token, word: tuple[int, int]) -> bool:
    return token.start < word[1] and token.end > word[0]
