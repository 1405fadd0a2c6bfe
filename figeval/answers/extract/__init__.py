"""Answers in words: which option or label a reply commits itself to, if any.

A reply loses its reasoning trace and its markup; references to options become single characters (`marks`); then named
rules (`rules.RULES`) find claims, and the last firm one counts (`decide`). Nothing is guessed: two answers are
`ambiguous`, an answer beyond the options is `unparseable`, a cut-off reply without an answer is `truncated`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from figeval.answers.extract.decide import Extracted, decide
from figeval.answers.extract.labels import label_marker
from figeval.answers.extract.options import option_marker
from figeval.answers.extract.relations import relation
from figeval.answers.extract.traces import strip_reasoning
from figeval.answers.extract.words import pieces
from figeval.types import Reply

__all__ = ["VERSION", "Extracted", "extract_choice", "extract_label", "strip_reasoning"]

VERSION = 4
"""Recorded with every answer; raised when a rule changes an outcome."""


def extract_choice(reply: Reply, options: Sequence[str], letters: Sequence[str]) -> Extracted:
    """The option that the reply commits itself to; `letters[i]` is the letter under which `options[i]` was shown.

    Never raises on any reply. `status` is `error` if there is no reply (`reply.finish` is).

    Raises:
        ValueError: options and letters differ in number.
    """
    return decide(reply, option_marker(tuple(options), tuple(letters)), partial(_completed, options))


def extract_label(reply: Reply, words: Sequence[Sequence[str]]) -> Extracted:
    """The label that the reply commits itself to; `words[i]` are the words that express label i.

    Labels that answer "does it follow?" are also found where a reply says so in other words (`relations`).
    """
    return decide(reply, label_marker(tuple(map(tuple, words))), related=lambda content: relation(content, words))


def _completed(options: Sequence[str], content: str) -> int | None:
    """The one option that begins with the text, which has to be two words at least."""
    begun = pieces(content)
    fits = [index for index, option in enumerate(options) if " ".join(pieces(option)).startswith(" ".join(begun))]
    return fits[0] if len(fits) == 1 and len(begun) > 1 else None
