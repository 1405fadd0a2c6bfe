"""Models that compare or copy words."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from figeval.language.words import Reading, TaskWords, split_words
from figeval.models.model import refuse_model_name
from figeval.types import JSON, Inputs, ManyPairs, TextPair

from .plain_model import PlainModel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PLAIN_READING = Reading()


class Overlap:
    """Jaccard index of the two sets of words, |A ∩ B| / |A ∪ B|; 0 if neither text has a word.

    It is one division of two integers, so equal ratios are equal floats and ties are exact.
    """

    def __init__(self, model: str = "") -> None:
        refuse_model_name("overlap", model)
        self.use_words(TaskWords())

    def use_words(self, words: TaskWords) -> None:
        """Divide texts into these words from now on."""
        self._words = words
        self._indexed: tuple[tuple[str, ...], WordIndex] | None = None  # of the last `score_many`

    def score_pairs(self, requests: Sequence[TextPair]) -> list[float]:
        return [jaccard(self._set(request.left), self._set(request.right)) for request in requests]

    def score_many(self, request: ManyPairs) -> NDArray[np.float64]:
        """Return the indexes of a text and many others, shape (n,), as `score_pairs` does, to the last bit."""
        if self._indexed is None or self._indexed[0] != request.rights:
            self._indexed = request.rights, WordIndex.of(map(self._words.split, request.rights))
        return self._indexed[1].jaccard(self._set(request.left))

    def _set(self, text: str) -> frozenset[str]:
        return word_set(text, self._words.reading_of(text))

    def fingerprint(self) -> str:
        """Return the name; the notion of a word is part of the record of a task."""
        return "overlap 1"

    def describe(self) -> JSON:
        """Return the measure in words."""
        return {"measure": "Jaccard index of the sets of words, whatever their case"}


@dataclass(frozen=True, slots=True)
class Echo(PlainModel):
    """A model that joins the inputs that are lists (keywords) by blanks; the text is empty if there are none."""

    name: ClassVar[str] = "echo"

    def write(self, requests: Sequence[Inputs]) -> list[str]:
        return [" ".join(self._keywords(request)) for request in requests]

    def _keywords(self, request: Inputs) -> Iterator[str]:
        for _, value in request.values:
            if not isinstance(value, str):
                yield from value


@lru_cache(maxsize=4096)  # a window's narratives and all its candidates; bounds memory on long streams
def word_set(text: str, reading: Reading = PLAIN_READING) -> frozenset[str]:
    return frozenset(split_words(text, reading.language, reading.segmenter))


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

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]]) -> WordIndex:
        """Return the index of texts that are divided into words."""
        import numpy as np

        texts_with: defaultdict[str, array[int]] = defaultdict(lambda: array("q"))
        sizes = []
        for number, words in enumerate(texts):
            different = set(words)
            sizes.append(len(different))
            for word in different:
                texts_with[word].append(number)
        return cls(dict(texts_with), np.array(sizes, dtype=np.int64))

    def jaccard(self, left: frozenset[str]) -> NDArray[np.float64]:
        """Return |left ∩ text| / |left ∪ text| of each text, or 0 for two empty sets; shape (n,)."""
        import numpy as np

        shared = np.zeros(len(self.words), dtype=np.int64)
        for word in left & self.texts.keys():
            shared[np.asarray(self.texts[word])] += 1
        union = len(left) + self.words - shared
        return np.asarray(np.divide(shared, union, out=np.zeros(len(union)), where=union > 0))
