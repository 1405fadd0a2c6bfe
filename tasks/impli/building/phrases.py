"""Analysis of idioms and definitions as phrases: part of speech, inflected words, and reasons to reject a definition.

The tags are those of NLTK's perceptron. It tags an idiom in its sentence, and a definition in a frame that fits a
phrase of the required part of speech ("They will …", "It was …").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from figeval.language.tagging import Token, reader
from figeval.language.word_forms import inflect, open_lemminflect

VERB, NOUN, MODIFIER = "verb", "noun", "modifier"
FRAMES = {VERB: "They will ", NOUN: "It was ", MODIFIER: "It was "}
NOUNS = ("NN", "NNS", "NNP", "NNPS")
ADJECTIVES, ADVERBS = ("JJ", "JJR", "JJS", "VBN", "VBG"), ("RB", "RBR", "RBS")
WITHIN_NOUN_PHRASE = frozenset({"DT", "PDT", "PRP$", "POS", "CD", "CC", *NOUNS, *ADJECTIVES, *ADVERBS})
FINITE = frozenset({"VBZ", "VBP", "VBD", "MD"})
BEHIND_NOUN_PHRASE = frozenset({"IN", "TO", "WDT", "WP", "WP$", "WRB", ",", "VBN", "VBG", "PRP"})
CLAUSE = frozenset({"TO", "MD", "WDT", "WP", "WRB"})  # a verb behind these is not coordinated with the first one
PLURAL = frozenset({"NNS", "NNPS"})
ARTICLES = ("a ", "an ", "the ")
QUOTES = str.maketrans("’‘“”", "''\"\"")

# Reasons why a definition, or the idiom in a sentence, makes no pair.
USAGE = "the definition says how the idiom is used"
SEVERAL_DEFINITIONS = "several definitions in one"
MAX_DEFINITION_WORDS = 40  # a longer text is an article about the idiom
TOO_LONG = f"the definition has more than {MAX_DEFINITION_WORDS} words"
NEGATED = "the definition begins with a negation"
OTHER_PART = "the definition is of another part of speech"
EMPTY_DEFINITION = "the definition is empty"
USED = re.compile(
    r"(?:(?:usually|often|generally|commonly) )?(?:used|said|when|if|where|an? (?:expression|phrase|idiom|saying)|"
    r"expression|something said|to say that|meaning|means)\b",
    re.IGNORECASE,
)
SAID = re.compile(
    r"\bused to (?:say|show|denote|describe|indicate|express|refer)\b|\b(?:is|are) used\b|\bit means\b", re.IGNORECASE
)
PARENTHESES = re.compile(r"\s*[(\[][^()\[\]]*[)\]]")
COPULA = re.compile(r"(?:(?:to )?be|being) (?=\w)")
NEGATIONS = frozenset({"not", "never", "no", "n't"})


class Rejected(Exception):
    """Raised if no pair can be made, with a reason that the report counts."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Phrase:
    """A definition that fits a part of speech.

    Attributes:
        text: the text that can replace an idiom: without "to", remarks in parentheses and outer punctuation, but with
            its articles.
        part: `VERB`, `NOUN` or `MODIFIER`.
        heads: character spans of the words that are inflected: the verbs or the noun; none in a modifier.
        tags: Penn tags of the words of the text.
        is_plural: whether its noun is in the plural.
        changes: descriptions of what was removed from the definition.
    """

    text: str
    part: str
    heads: tuple[tuple[int, int], ...]
    tags: tuple[str, ...]
    is_plural: bool = False
    changes: tuple[str, ...] = ()

    @property
    def is_adverb(self) -> bool:
        """True if it begins with an adverb that no adjective follows."""
        return self.tags[0] in ADVERBS and not any(tag in ADJECTIVES for tag in self.tags[:3])

    @property
    def is_adjective(self) -> bool:
        """True if it is an adjective or a participle, with or without complements, perhaps after an adverb."""
        first = next((tag for tag in self.tags if tag not in ADVERBS), "")
        return first in ("JJ", "JJR", "JJS", "VBN")

    @property
    def is_postnominal(self) -> bool:
        """True if it can follow a noun: an adjective with complements, or no adjective."""
        return not self.is_adjective or (len(self.tags) > 1 and self.tags[-1] not in (*ADJECTIVES, *ADVERBS))

    @property
    def is_prenominal(self) -> bool:
        """True if it can precede a noun."""
        return len(self.tags) <= 2 and self.tags[-1] in ADJECTIVES

    @property
    def ends_in_preposition(self) -> bool:
        """True if it ends in a preposition, so that a noun phrase has to follow."""
        return self.tags[-1] in ("IN", "TO")


def fit_phrase(definition: str, part: str) -> Phrase:
    """Return a definition as a phrase of a part of speech.

    Raises:
        Rejected: the definition is not a phrase of this part of speech, or is unsuitable for another reason.
    """
    phrase = _examine(definition, part)
    if isinstance(phrase, str):
        raise Rejected(phrase)
    return phrase


@lru_cache(maxsize=1 << 14)
def _examine(definition: str, part: str) -> Phrase | str:
    """Return the phrase or the reason for a rejection, cached because a definition is used many times."""
    try:
        text, changes = tidy(definition)
        text, infinitive, copula = _without_particle(text, part)
        tokens = behind(FRAMES[part], text)
        heads = _heads(text, tokens, part, infinitive)
    except Rejected as error:
        return error.reason
    offset = len(FRAMES[part])
    return Phrase(
        text=text,
        part=part,
        heads=tuple((token.start - offset, token.end - offset) for token in heads),
        tags=tuple(token.tag for token in tokens),
        is_plural=part == NOUN and heads[0].tag in PLURAL,
        changes=(*changes, *(["copula of the definition left out"] if copula else [])),
    )


def _without_particle(text: str, part: str) -> tuple[str, bool, bool]:
    """Return a tidied definition without "to", or without "be" if it is no verb, and whether it had "to" and "be"."""
    if not text:
        raise Rejected(EMPTY_DEFINITION)
    if USED.match(text) or SAID.search(text):
        raise Rejected(USAGE)
    if "/" in text or ";" in text:
        raise Rejected(SEVERAL_DEFINITIONS)
    if len(text.split()) > MAX_DEFINITION_WORDS:
        raise Rejected(TOO_LONG)
    infinitive = text.startswith("to ")
    if part != VERB and (copula := COPULA.match(text)):
        return text[copula.end() :], False, True
    if infinitive and part != VERB:
        raise Rejected(OTHER_PART)
    return (text[3:] if infinitive else text), infinitive, False


def _heads(text: str, tokens: Sequence[Token], part: str, infinitive: bool) -> list[Token]:
    """Return the words of a definition that are inflected. Raises `Rejected` if the definition is unsuitable."""
    if not tokens:
        raise Rejected(EMPTY_DEFINITION)
    if tokens[0].lower in NEGATIONS or tokens[min(1, len(tokens) - 1)].lower == "n't":
        raise Rejected(NEGATED)
    if part == VERB:
        verbs = verbs_of(tokens) if infinitive or not begins_otherwise(text) else []
        if not verbs:
            raise Rejected(OTHER_PART)
        return verbs
    if part == MODIFIER and tokens[0].tag in ("VBN", "VBG") and tokens[0].lower != lemma(tokens[0].lower, "VERB"):
        return []
    actual_part, head = part_of(tokens)
    if actual_part != part:
        raise Rejected(OTHER_PART)
    return [] if head is None else [tokens[head]]


def tidy(definition: str) -> tuple[str, tuple[str, ...]]:
    """Return a definition without remarks in parentheses and outer punctuation, and the changes made."""
    text = definition.translate(QUOTES)
    bare = PARENTHESES.sub("", text)
    changes = ("remark in parentheses left out",) if bare != text else ()
    text = " ".join(bare.split()).strip(" .,:;!?\"'-")
    first = text.partition(" ")[0]
    if first[1:].islower() or first in ("A", "To"):
        text = text[:1].lower() + text[1:]
    return text, changes


def part_of(tokens: Sequence[Token]) -> tuple[str | None, int | None]:
    """Return the part of speech of a phrase, and the index of the noun or verb that heads it.

    The part is None for clauses ("the ball is in your court") and for ambiguous tags; a modifier has no head.
    """
    first = next((index for index, token in enumerate(tokens) if token.tag not in ADVERBS), None)
    if first is None:
        return MODIFIER, None
    if tokens[first].tag.startswith("VB"):
        return VERB, first
    if tokens[first].tag in ("IN", "TO", "RP"):
        return MODIFIER, None
    end = next((index for index in range(len(tokens)) if not _within_noun_phrase(tokens, index)), len(tokens))
    run = tokens[:end]
    after = tokens[end].tag if end < len(tokens) else ""
    nouns = [index for index, token in enumerate(run) if token.tag in NOUNS]
    determiners = [index for index, token in enumerate(run) if token.tag in ("DT", "PRP$")]
    if nouns:
        twice = any(index > nouns[0] and run[index - 1].tag != "CC" for index in determiners)
        closed = not after or after in BEHIND_NOUN_PHRASE
        return (NOUN, nouns[-1]) if closed and not twice else (None, None)
    if any(token.tag in ADJECTIVES for token in run) and not determiners and after not in FINITE:
        return MODIFIER, None
    return None, None


def behind(frame: str, text: str) -> list[Token]:
    """Return the tokens of a non-empty text, tagged as the continuation of a frame."""
    return [token for sentence in reader().sentences(frame + text) for token in sentence if token.start >= len(frame)]


def begins_otherwise(text: str) -> bool:
    """Return whether a definition without "to" is tagged as no verb after a copula: "crazy" in "It was crazy"."""
    first = behind(FRAMES[MODIFIER], text)[0]
    if {*open_lemminflect().getAllLemmas(first.lower)} == {"VERB"}:
        return False
    return first.tag[:2] in ("JJ", "IN", "DT", "RB", "PR", "CD")


def _within_noun_phrase(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a token may belong to the noun phrase before it; a comma may, between adjectives."""
    if tokens[index].tag != ",":
        return tokens[index].tag in WITHIN_NOUN_PHRASE
    return 0 < index < len(tokens) - 1 and all(tokens[index + step].tag in ADJECTIVES for step in (-1, 1))


def verbs_of(tokens: Sequence[Token]) -> list[Token]:
    """Return the verb with which a definition begins in the frame of infinitives, and the verbs coordinated with it.

    There is none if the first word, apart from adverbs, is not a verb in base form or in another form that some
    dictionaries use ("keeps working", "having different aims").
    """
    head = next((index for index, token in enumerate(tokens) if token.tag not in ADVERBS), len(tokens))
    if head == len(tokens) or base_of(tokens[head]) is None:
        return []
    heads = [tokens[head]]
    for index in range(head + 1, len(tokens) - 1):
        token = tokens[index]
        if token.tag in CLAUSE or token.lower == "that":
            break
        if token.tag == "CC":
            other = next((word for word in tokens[index + 1 :] if word.tag not in ADVERBS), None)
            if other is not None and other.tag.startswith("VB") and same_form(other, heads[0]):
                heads.append(other)
    return heads


def base_of(token: Token) -> str | None:
    """Return the lemma of a verb in base form, third person singular or -ing form, or None for any other word."""
    if not token.tag.startswith("VB"):
        return None
    word = token.lower
    if "VERB" not in open_lemminflect().getAllLemmas(word):
        return None
    base = lemma(word, "VERB")
    return base if any(word in inflect(base, form) for form in ("VB", "VBZ", "VBG")) else None


def same_form(first: Token, second: Token) -> bool:
    """Return whether two verbs are both in base form, both in third person singular or both in -ing form."""
    return any(
        all(token.lower in inflect(lemma(token.lower, "VERB"), form) for token in (first, second))
        for form in ("VB", "VBZ", "VBG")
    )


def lemma(word: str, upos: str) -> str:
    """Return lemminflect's lemma of a word in a given part of speech (`VERB`, `NOUN`, `ADJ` or `ADV`)."""
    lemmas: tuple[str, ...] = open_lemminflect().getLemma(word.lower(), upos=upos)
    return lemmas[0].lower() if lemmas else word.lower()
