"""What the lexical models share: one definition of a word, and the refusal of a model name they have no use for."""

from __future__ import annotations

import re

from figeval.errors import ModelError

# Letters and digits of any script; an apostrophe inside a word belongs to it ("don't", "o'clock").
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


def words(text: str) -> list[str]:
    """The lower-cased words of a text, in order; a typographic apostrophe counts as a plain one."""
    return WORD.findall(text.lower().replace("’", "'"))


def bare(backend: str, model: str) -> None:
    """Raise `ModelError` when something stands behind the colon of a backend that takes nothing there."""
    if model:
        raise ModelError(f"{backend!r} takes nothing behind the colon, got {model!r}; say --model {backend}")
