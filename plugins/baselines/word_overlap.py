"""Models that compare or copy words, and the definition of a word that all lexical models share."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from figeval.models.model import refuse_model_name
from figeval.types import JSON, Inputs, ManyPairs, TextPair

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Letters and digits of any script; an apostrophe inside a word belongs to it ("don't", "o'clock").
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


def words(text: str) -> list[str]:
    """Return the lower-cased words of a text, in order; a typographic apostrophe counts as a plain one."""
    return WORD.findall(text.lower().replace("’", "'"))


@dataclass(frozen=True, slots=True)
class Overlap:
    """Jaccard index of the two sets of words, |A ∩ B| / |A ∪ B|; 0 if neither text has a word.

    It is one division of two integers, so equal ratios are equal floats and ties are exact.
    """

    model: str = ""

    def __post_init__(self) -> None:
        refuse_model_name("overlap", self.model)

    def score_pairs(self, requests: Sequence[TextPair]) -> list[float]:
        return [jaccard(word_set(request.left), word_set(request.right)) for request in requests]

    def score_many(self, request: ManyPairs) -> NDArray[np.float64]:
        """Return the indexes of a text and many others, shape (n,), as `score_pairs` does, to the last bit."""
        return _index(request.rights).jaccard(word_set(request.left))

    def fingerprint(self) -> str:
        """Return the name; the definition of a word is tied to the version of figeval."""
        return "overlap 1"

    def describe(self) -> JSON:
        """Return the measure in words."""
        return {"measure": "Jaccard index of lower-cased word sets"}


@dataclass(frozen=True, slots=True)
class Echo:
    """A model that joins the inputs that are lists (keywords) by blanks; the text is empty if there are none."""

    model: str = ""

    def __post_init__(self) -> None:
        refuse_model_name("echo", self.model)

    def write(self, requests: Sequence[Inputs]) -> list[str]:
        return [" ".join(self._listed(request)) for request in requests]

    def fingerprint(self) -> str:
        """Return the name, since there are no options."""
        return "echo"

    def describe(self) -> JSON:
        """Return {}: there is nothing to describe."""
        return {}

    def _listed(self, request: Inputs) -> Iterator[str]:
        for _, value in request.values:
            if not isinstance(value, str):
                yield from value


@lru_cache(maxsize=4096)  # a window's narratives and all its candidates; bounds memory on long streams
def word_set(text: str) -> frozenset[str]:
    """Return the set of words of a text."""
    return frozenset(words(text))


def jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    """Return |left ∩ right| / |left ∪ right|, or 0 for two empty sets."""
    shared = len(left & right)
    union = len(left) + len(right) - shared
    return shared / union if union else 0.0


@dataclass(frozen=True, slots=True)
class WordIndex:
    """An inverted index of texts.

    Attributes:
        texts: word → indexes of the texts that have it.
        words: number of different words of each text, shape (n,).
    """

    texts: dict[str, array[int]]
    words: NDArray[np.int64]

    def jaccard(self, left: frozenset[str]) -> NDArray[np.float64]:
        """Return |left ∩ text| / |left ∪ text| of each text, or 0 for two empty sets; shape (n,)."""
        import numpy as np

        shared = np.zeros(len(self.words), dtype=np.int64)
        for word in left & self.texts.keys():
            shared[np.asarray(self.texts[word])] += 1
        union = len(left) + self.words - shared
        return np.asarray(np.divide(shared, union, out=np.zeros(len(union)), where=union > 0))


@lru_cache(maxsize=1)
def _index(texts: tuple[str, ...]) -> WordIndex:
    """Return the index of texts, which is kept for the next text that is compared with the same ones."""
    import numpy as np

    found: defaultdict[str, array[int]] = defaultdict(lambda: array("q"))
    sizes = np.zeros(len(texts), dtype=np.int64)
    for number, text in enumerate(texts):
        own = set(words(text))
        sizes[number] = len(own)
        for word in own:
            found[word].append(number)
    return WordIndex(dict(found), sizes)
