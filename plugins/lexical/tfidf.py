"""TF-IDF cosine, with the defaults of scikit-learn's `TfidfVectorizer`.

It uses lower-cased words of two characters or more (`terms`), raw counts times smoothed idf (ln((1 + n) / (1 + df)) +
1), and rows of Euclidean length 1. A text without a known word is a row of zeros and scores exactly 0 with everything:
a tie.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import chain, compress, islice
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import combining

from figeval.errors import DataError, ModelError
from figeval.language.words import Reading, TaskWords, is_unspaced
from figeval.models.model import refuse_model_name
from figeval.types import JSON, Example, ManyPairs, TextPair

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import TfidfVectorizer

ENGLISH = (Reading(), Reading("en"))
TOKEN = re.compile(r"\b\w\w+\b")  # scikit-learn's
OF_TEST = (
    "tfidf: word weights are those of the scored texts, options included; --model_args fit=train takes them from the "
    "training split"
)
BATCH = 65_536  # texts that are compared with the earlier ones at a time
BLOCK = 8192  # pairs multiplied at a time: some 10 MB for paragraphs


class Tfidf:
    """Cosine of TF-IDF rows; `fit` learns vocabulary and idf from the unique texts of a split.

    Word weights need no labels, so by default they are those of the scored texts, options included. They then know how
    rare the words of wrong options are. With those of the training split, words that it does not have count nothing.

    Args:
        model: must be empty.
        fit: split whose texts are learned from.
    """

    needs_fit_split = True

    def __init__(self, model: str = "", fit: Literal["test", "train"] = "test") -> None:
        refuse_model_name("tfidf", model)
        if fit not in ("test", "train"):
            raise ModelError(f"'tfidf' cannot take word weights from fit={fit!r}; write fit=test or fit=train")
        self.fit_splits = (fit,)
        self._words = TaskWords()
        self._vectorizer: TfidfVectorizer | None = None
        self._digest = ""
        self._candidates: tuple[tuple[str, ...], csr_matrix] | None = None  # of the last `score_many`

    def use_words(self, words: TaskWords) -> None:
        """Divide texts into these words from now on."""
        self._words = words

    def fit(self, examples: Iterable[Example]) -> None:
        """Learn from the distinct texts of the examples in one pass.

        Memory grows with the vocabulary, and by eight bytes per distinct text. The library's own `fit` would hold the
        words of all texts at once.

        Raises:
            DataError: no text has a word of two characters.
        """
        import numpy as np
        from sklearn.feature_extraction.text import TfidfVectorizer

        digest = blake2b(digest_size=8)
        options = vectorizing(self._words)
        words_of = TfidfVectorizer(**options).build_analyzer()
        texts, text_counts = 0, Counter[str]()  # word → number of texts that have it
        for text in unique_texts(examples):
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
            texts += 1
            text_counts.update(set(words_of(text)))
        if not text_counts:
            raise DataError(
                "'tfidf' cannot be fitted to the texts of this task: empty vocabulary; no text has a word of two "
                "characters"
            )
        words = sorted(text_counts)
        self._vectorizer = TfidfVectorizer(vocabulary=words, **options)
        with_word = np.array([text_counts[word] for word in words], np.float64)
        self._vectorizer.idf_ = np.log((1 + texts) / (1 + with_word)) + 1
        self._digest = digest.hexdigest()
        self._candidates = None

    def score_pairs(self, requests: Sequence[TextPair]) -> list[float]:
        """Return cosines; each distinct text is vectorized once.

        Pairs are multiplied row by row in blocks, never as lefts x rights, so that the order of summation, and with it
        the last bit, does not depend on the other pairs in the batch.
        """
        import numpy as np

        if not requests:
            return []
        lefts, left = self._rows([request.left for request in requests])
        rights, right = self._rows([request.right for request in requests])
        scores = np.empty(len(requests))
        for start in range(0, len(requests), BLOCK):
            block = slice(start, start + BLOCK)
            scores[block] = lefts[left[block]].multiply(rights[right[block]]).sum(axis=1).A1
        return scores.tolist()

    def score_many(self, request: ManyPairs) -> NDArray[np.float64]:
        """Return the cosines of a text and many others, shape (n,), as `score_pairs` does, to the last bit.

        The sparse rows of the others are kept for the next text that is compared with the same ones.
        """
        if self._candidates is None or self._candidates[0] != request.rights:
            rows, positions = self._rows(request.rights)
            self._candidates = request.rights, rows[positions]
        rights = self._candidates[1]
        left, _ = self._rows([request.left])
        products = rights.data * left.toarray()[0, rights.indices]  # a matrix product would round differently
        weighted = type(rights)((products, rights.indices, rights.indptr), rights.shape, copy=True)
        weighted.eliminate_zeros()  # the sum over a row depends on how many numbers it has
        scores: NDArray[np.float64] = weighted.sum(axis=1).A1
        return scores

    def fingerprint(self) -> str:
        """Return a digest that changes with the fitted texts and the library."""
        import sklearn

        split = "" if self.fit_splits == ("test",) else f" fit={self.fit_splits[0]}"
        return f"tfidf scikit-learn={sklearn.__version__} fitted={self._digest or 'no'}{split}"

    def describe(self) -> JSON:
        """Return the split that word weights are from and, once fitted, the size of the vocabulary."""
        (split,) = self.fit_splits
        size = {} if self._vectorizer is None else {"vocabulary": len(self._vectorizer.vocabulary_)}
        return {"word_weights": split, **size, "warnings": [OF_TEST] if split == "test" else []}

    def _rows(self, texts: Sequence[str]) -> tuple[csr_matrix, list[int]]:
        """Return the TF-IDF rows of the distinct texts, a sparse (u, vocabulary) matrix, and the row of every text."""
        if self._vectorizer is None:
            raise ModelError("'tfidf' has no word weights before fit(examples) has read the texts of the task")
        row_of = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        return self._vectorizer.transform(row_of), [row_of[text] for text in texts]


def vectorizing(words: TaskWords) -> dict[str, Any]:
    """Return the options of scikit-learn's vectorizers for the words of a task; none in English."""
    if not words.by_text and words.reading in ENGLISH:
        return {}
    return {"tokenizer": partial(terms, words=words), "token_pattern": None, "lowercase": False}


def terms(text: str, words: TaskWords) -> list[str]:
    """Return the words of a text that count: in English scikit-learn's, elsewhere those that are no single letter.

    A letter with accents is still one (ọ́), one with a vowel sign is not (माँ). In scripts without blanks, where single
    characters are words, all count.
    """
    if words.reading_of(text) in ENGLISH:
        return TOKEN.findall(text.lower())
    return [word for word in words.split(text, joined=False) if is_unspaced(word) or sum(map(is_base, word)) > 1]


def is_base(character: str) -> bool:
    """Return whether a character is no accent, point or tone mark, which Unicode orders behind a letter."""
    return combining(character) == 0


def unique_texts(examples: Iterable[Example]) -> Iterator[str]:
    """Yield the distinct texts of the examples in order, comparing digests of 64 bits.

    A distinct text takes eight bytes, whatever its length.
    """
    import numpy as np

    known_digests = np.empty(0, dtype=np.uint64)  # in ascending order
    texts = chain.from_iterable(_without_repeated(examples))
    while batch := list(dict.fromkeys(islice(texts, BATCH))):
        digests = np.array([_digest(text) for text in batch], dtype=np.uint64)
        is_new = np.ones(len(batch), dtype=bool)
        if len(known_digests):
            is_new = known_digests[known_digests.searchsorted(digests).clip(max=len(known_digests) - 1)] != digests
        yield from compress(batch, is_new)
        parts = known_digests, np.sort(digests[is_new])
        known_digests = np.sort(np.concatenate(parts), kind="stable")  # merges them


def _without_repeated(examples: Iterable[Example]) -> Iterator[list[str]]:
    """Yield the texts of each example that the one before does not have, such as thousands of shared candidates."""
    previous: dict[str, None] = {}
    for example in examples:
        distinct_texts = dict.fromkeys(example.texts)
        yield [text for text in distinct_texts if text not in previous]
        previous = distinct_texts


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
