"""When two examples ask the same: with the same input, blanks, punctuation and case aside, whatever their ids are."""

from __future__ import annotations

import unicodedata
from functools import cache
from hashlib import blake2b
from typing import Any

from figeval.types import Example

# Marks within a number or between two: 3.14 is not 314, nor 2 - 3 the same as 2 / 3. In "1990, 12" there is none.
OPERATORS = r"(?:(?<=\d)[.,:](?=\d)|(?<=\d\s*)[-/*](?=\s*\d)|(?<=\d\s*)%)"
ANY_I = str.maketrans({"ı": "i", "\u0307": None})  # I may be the capital of ı, in examples that name no language


def question_keys(example: Example) -> frozenset[int]:
    """Return 64-bit digests of what identifies an example's question; two examples that share one ask the same."""
    identities = (tuple(map(core_of, texts)) for texts in example.identities)
    return frozenset(
        int.from_bytes(blake2b("\n".join(texts).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
        for texts in identities
        if any(texts)
    )


def core_of(text: str) -> str:
    """Return a text in full case folding and without blanks, punctuation and differences in width.

    Symbols such as emoji and the signs of arithmetic stay. Of a text of punctuation alone, all but blanks does.
    """
    from figeval.language.words import normalize

    folded = normalize(unicodedata.normalize("NFKC", text))
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFD", folded).translate(ANY_I))
    core: str = _punctuation().sub("", _dashes().sub("-", folded))
    return core or "".join(text.split())


@cache
def _punctuation() -> Any:
    import regex

    return regex.compile(rf"(?!{OPERATORS})[\s\p{{P}}\p{{Z}}\p{{Cf}}\p{{Cc}}]")


@cache
def _dashes() -> Any:
    import regex

    return regex.compile(r"[\p{Pd}\u2212]")
