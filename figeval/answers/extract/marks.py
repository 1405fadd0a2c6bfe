"""References as single characters.

A reply is rewritten so that each reference to an option ("(B)", "option 2", "a patched boat …") is one character
beyond Unicode's assigned planes. The rules are then plain regular expressions over such characters, whatever the
options are.
"""

from __future__ import annotations

import re

KINDS = ("letter", "text", "number", "listed", "negated")
_FIRST, _SIZE = 0xF0000, 0x1000
MOST = _SIZE - 2
OUT, CLASH = MOST, MOST + 1
"""Instead of an index: beyond the last option; the letter of one option with the text of another."""


def mark(kind: str, index: int) -> str:
    """The character that stands for a reference."""
    return chr(_FIRST + KINDS.index(kind) * _SIZE + index)


def kind_of(character: str) -> str:
    """How the option was referred to."""
    return KINDS[(ord(character) - _FIRST) // _SIZE]


def index_of(character: str) -> int:
    """The option's index, OUT or CLASH."""
    return (ord(character) - _FIRST) % _SIZE


def _between(first: str, last: str) -> str:
    return f"{mark(first, 0)}-{mark(last, _SIZE - 1)}"


LETTER = f"[{_between('letter', 'letter')}]"
TEXT = f"[{_between('text', 'text')}]"
REF = f"[{_between('letter', 'number')}]"
NEGATED = f"[{_between('negated', 'negated')}]"
ANY = f"[{_between('letter', 'negated')}]"
NO_REF = f"[^.!?\n{_between('letter', 'negated')}]"
"""One character within a sentence that is not a reference."""


def turned(marked: str, kind: str) -> str:
    """The same references as another kind."""
    return re.sub(ANY, lambda found: mark(kind, index_of(found[0])), marked)


def indexes(marked: str, pattern: str = REF) -> set[int]:
    """The options that a marked text refers to."""
    return {index_of(character) for character in re.findall(pattern, marked)}
