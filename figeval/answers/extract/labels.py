"""Find the labels that a reply names, by the words that express them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from figeval.answers.extract.joints import CONNECTOR
from figeval.answers.extract.marks import ANY, CLASH, MOST, mark
from figeval.answers.extract.negation import deny_one_of_two, set_aside
from figeval.answers.extract.words import alternatives

_JOINT = r"[\W_]*"  # non-entailment, non entailment, nonentailment
_SHORT = 5  # letters: a word as short as yes, no, maybe or false occurs in prose as well
_STANDS_OUT = re.compile(rf"\s*(?:[.,:;!?)\]}}\"'/&\n=-]|\Z)|\s+(?:from\b|{CONNECTOR})|[{ANY[1:-1]}]", re.IGNORECASE)
_CHATTER = re.compile(  # an assistant's "Yes, I can help you with that", which answers no question of ours
    r"\s*[,!.]?\s*(?:of course,?\s+)?(?:I|we|you)(?:\s+can|'ll|\s+will|'d|\s+would)"
    r"(?:\s*[.!]|(?:\s+(?:be|also|certainly|gladly|happily|love|like|to|happy))*\s+"
    r"(?:help|assist|add|think of|provide|give|a\b|rephrase|rewrite|write|explain|do that)\b)",
    re.IGNORECASE,
)
_SENTENCE_START = re.compile(r"(?:\A|[.!?:\n])[\s\"'(\[]*\Z")
_IDIOM = re.compile(
    r"\s+(?:doubt|matter|wonder|problem|question|one|other|longer|more|less|evidence|information)\b", re.I
)


@lru_cache(maxsize=256)
def label_marker(words: tuple[tuple[str, ...], ...]) -> Callable[[str], str]:
    """What rewrites a plain reply so that each word of a label is one character.

    Raises:
        ValueError: there are more labels than can be told apart.
    """
    if len(words) > MOST:
        raise ValueError(f"{len(words)} labels, at most {MOST}")
    indexed: dict[str, int] = {}
    for index, label in enumerate(words):
        for word in label:
            indexed[_key(word)] = index if indexed.get(_key(word), index) == index else CLASH
    pattern = alternatives([word for label in words for word in label], _JOINT)
    echo = _listing(pattern.pattern, len(indexed))

    def run(text: str) -> str:
        text = echo.sub(_unlisted, text)

        def replace(found: re.Match[str]) -> str:
            index = indexed.get(_key(found[0]), CLASH)
            return mark("text", index) if _is_answer(text, found) else found[0]

        marked = pattern.sub(replace, text)
        return set_aside(deny_one_of_two(marked) if len(words) == 2 else marked)

    return run


def _listing(word: str, count: int) -> re.Pattern[str]:
    """All words side by side, "Yes, No or Maybe": the question once more. Two may be an answer that wavers."""
    if count < 3:
        return re.compile(r"(?!)")
    return re.compile(
        rf"(?:{word})(?:[,/|\s]+(?:or\s+|and\s+)?(?:{word})){{{count - 1}}}(?!\s*[,/]\s*(?:{word}))", re.I
    )


def _unlisted(found: re.Match[str]) -> str:
    """Blanks where a list of different words stood; what says one word again and again stays."""
    named = re.findall(r"[^\W\d_]+", found[0].casefold())
    return found[0] if len(set(named)) < 3 else " " * len(found[0])


def _key(word: str) -> str:
    return re.sub(r"[\W_]+", "", word.casefold()) or word.strip().casefold()


def _is_answer(text: str, found: re.Match[str]) -> bool:
    """A long word is always the label; a short one only where it stands out from the sentence."""
    if len(found[0]) > _SHORT or not found[0].isascii():
        return True
    if _CHATTER.match(text, found.end()):
        return False
    if _STANDS_OUT.match(text, found.end()):
        return True
    before = text[max(0, found.start() - 20) : found.start()]
    return bool(_SENTENCE_START.search(before)) and not _IDIOM.match(text, found.end())
