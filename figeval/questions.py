"""When two examples ask the same: with the same input, blanks, punctuation and case aside, whatever their ids are."""

from __future__ import annotations

from hashlib import blake2b

from figeval.types import Example


def question_keys(example: Example) -> frozenset[int]:
    """Return 64-bit digests of what identifies an example's question; two examples that share one ask the same."""
    identities = (tuple(map(core_of, texts)) for texts in example.identities)
    return frozenset(
        int.from_bytes(blake2b("\n".join(texts).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
        for texts in identities
        if any(texts)
    )


def core_of(text: str) -> str:
    """Return the letters and digits of a text or, if it has none (an emoji), all of it without blanks."""
    from figeval.words import letters

    return letters(text) or "".join(text.split())
