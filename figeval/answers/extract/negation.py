"""Options that a reply names without claiming them: "not A", "A is wrong", "between A and B"."""

from __future__ import annotations

import re
from functools import partial

from figeval.answers.extract.joints import AND, NOT, WRONG
from figeval.answers.extract.marks import REF, TEXT, index_of, mark, turned
from figeval.answers.extract.phrases import FILLER

_MORE = rf"[\"')\]]*+\s*+(?:,\s*+)?(?:{AND}\s*+)?[\"'(\[]*+{REF}"
_SEVERAL = rf"{REF}(?>{_MORE}){{0,9}}"  # atomic: "," is a comma and a word for "and"
_IS = r"(?:is|are|was|were|does|do|did|would|could|can|should|seems?|fits?|passt|ist|sind|est|sont|es|son|è|é|jest)?"
_ADVERB = r"(?:clearly|also|simply|just|both|all|really|quite|definitely|plainly|n'est|no|das|the|a|far)"
UNCLAIMED = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("negated", rf"{NOT}(?:\s+{FILLER}){{0,4}}[\s\"'(\[]*(?P<refs>{_SEVERAL})"),
        ("negated", rf"(?P<refs>{_SEVERAL})[\"')\]]*\s*{_IS}\s*(?:{_ADVERB}\s+)*{WRONG}"),
        ("negated", rf"\bno\s(?P<refs>{TEXT})"),
        ("negated", rf"\brul(?:e|es|ed|ing)\s+(?P<refs>{_SEVERAL})\s+out\b"),
        ("listed", rf"\b(?:between|among|entre|zwischen)\s+[\"'(\[]*(?P<refs>{REF}{_MORE})"),
    )
)
"""As what kind of reference they remain, and how they are found."""


def set_aside(marked: str) -> str:
    """References that are denied, or only weighed against each other, become such."""
    for kind, pattern in UNCLAIMED:
        marked = pattern.sub(partial(_turn, kind), marked)
    return marked


def _turn(kind: str, found: re.Match[str]) -> str:
    return found[0].replace(found["refs"], turned(found["refs"], kind))


_NOT_THIS = re.compile(
    r"(?:\bnot?|n't)\s+(?:(?:an?|any|the|of|really|be|in|case|have|show|express|constitute|represent|form|clear|strict|"
    rf"logical)\s+){{0,3}}[\"'(]*({REF})",
    re.IGNORECASE,
)


def deny_one_of_two(marked: str) -> str:
    """Of two labels, "not the one" is the other."""
    return _NOT_THIS.sub(lambda found: mark("text", 1 - index_of(found[1])), marked)
