"""Search for a training split's expressions in other texts, up to case and inflection.

Words are compared lower-cased and as lemmas (simplemma), one by one and in order: "kicks the bucket" is found as
"kicked the bucket", "kicked his bucket" is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b

from .tags import DEFAULT_SCHEME, Scheme, chunks

Stretch = tuple[int, int]


@lru_cache(maxsize=1 << 17)
def lemma(word: str, language: str) -> str:
    """Return the lemma of a word, lower-cased; if simplemma does not support the language, the lower-cased word.

    `language` is an ISO 639-1 code.
    """
    from simplemma import lemmatize

    lower = word.lower()
    try:
        return str(lemmatize(lower, lang=language)).lower()
    except ValueError:
        return lower


def lemmas(words: Iterable[str], language: str) -> tuple[str, ...]:
    """Return the lemmas by which expressions are compared."""
    return tuple(lemma(word, language) for word in words)


def digest(words: Iterable[str], language: str) -> str:
    """Return a short name for an expression that does not reveal its words: the same for all of its inflections."""
    return blake2b("\0".join(lemmas(words, language)).encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()


class Expressions:
    """The expressions of a training split, as sequences of lemmas."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.kinds: dict[tuple[str, ...], str] = {}  # lemmas → the kind of the first occurrence

    def add(self, words: Sequence[str], tags: Sequence[str], scheme: Scheme = DEFAULT_SCHEME) -> None:
        """Add the chunks of a text; `scheme` is that of the tags."""
        text_lemmas = lemmas(words, self.language)
        for start, end, kind in chunks(tags, scheme):
            self.kinds.setdefault(text_lemmas[start:end], kind)

    def stretches(self, words: Sequence[str]) -> list[Stretch]:
        """Return all stretches of words, [start, end), that are such an expression; they may overlap."""
        return list(self._stretches(lemmas(words, self.language)))

    def longest(self, words: Sequence[str]) -> Iterator[tuple[int, int, str]]:
        """Yield (start, end, kind) of expressions from left to right: the longest at each place, without overlap."""
        text_lemmas, free = lemmas(words, self.language), 0
        for start, end in sorted(self._stretches(text_lemmas), key=lambda span: (span[0], -span[1])):
            if start >= free:
                yield start, end, self.kinds[text_lemmas[start:end]]
                free = end

    def _stretches(self, text_lemmas: tuple[str, ...]) -> Iterator[Stretch]:
        sizes = sorted({len(key) for key in self.kinds})
        for start in range(len(text_lemmas)):
            yield from (
                (start, start + size)
                for size in sizes
                if start + size <= len(text_lemmas) and text_lemmas[start : start + size] in self.kinds
            )
