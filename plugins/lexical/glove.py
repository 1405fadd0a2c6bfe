"""Mean of word vectors (GloVe, Pennington et al. 2014; word2vec), the bag-of-vectors baseline of the field.

The default is the 10,000 most frequent words of GloVe 6B in 50 dimensions; `path=FILE` reads any other file of vectors
(`vector_files`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import normalize

from figeval.errors import ModelError
from figeval.io.files import digest_of_file, is_file
from figeval.language.words import TaskWords, find_words
from figeval.models.model import refuse_model_name
from figeval.types import JSON, Text

from .vector_files import read_vectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


DEFAULT = "glove.6B.50d.10k.txt"


class Glove:
    """Mean of the vectors of the known words; the file is read at the first text.

    A text without a known word falls back on the beginnings of its words ("familiarity" → "familiar"). Without those,
    it has no direction: its vector is NaN, so its cosines are NaN and the prediction gets the status `nan`. A zero
    vector would silently tie it with everything.

    Args:
        model: must be empty.
        path: a file of vectors, in the format of GloVe or one of word2vec; empty for the 10,000 most frequent words of
            GloVe 6B in 50 dimensions.
    """

    def __init__(self, model: str = "", path: str = "") -> None:
        refuse_model_name("glove", model)
        if path and not is_file(Path(path)):
            raise ModelError(f"'glove' found no file {path!r}; set path= to a file of word vectors, or leave it out")
        self._path = path
        self._words = TaskWords()
        self._tokens = self._known = 0
        self._begun = self._unknown = 0  # numbers of texts

    def use_words(self, words: TaskWords) -> None:
        """Divide texts into these words from now on."""
        self._words = words

    def embed(self, requests: Sequence[Text]) -> NDArray[np.float64]:
        """Return mean vectors, shape (n, d), float64; a row of NaN for a text without known words."""
        import numpy as np

        vectors = self._table[1]
        means = np.full((len(requests), vectors.shape[1]), np.nan)
        for mean, request in zip(means, requests, strict=True):
            rows = self._rows(self._keys(request.text))
            if rows:
                mean[:] = vectors[rows].mean(axis=0, dtype=np.float64)
        return means

    def canonical(self, request: Text) -> Text:
        """Return the text without its role, which makes no difference."""
        return request if request.role == "" else replace(request, role="")

    def _keys(self, text: str) -> list[str]:
        """Return the words of a text as a vector file has them: in lower case (straße), as written, or folded."""
        row_of, reading, keys = self._table[0], self._words.reading_of(text), []
        for word in find_words(text, reading.language, reading.segmenter):
            written = normalize("NFC", text[word.start : word.end].replace("’", "'"))
            forms = (normalize("NFC", written.lower()), written, word.text)
            keys.append(next((form for form in forms if form in row_of), forms[0]))
        return keys

    def _rows(self, tokens: list[str]) -> list[int]:
        """Return the rows of the known words, or else of known beginnings, and count the texts for `describe`."""
        row_of = self._table[0]
        rows = [row_of[token] for token in tokens if token in row_of]
        self._tokens += len(tokens)
        self._known += len(rows)
        if not rows:
            beginnings = ([token[:end] for end in range(len(token), 3, -1)] for token in tokens)  # the longest first
            matches = (
                next((candidate for candidate in candidates if candidate in row_of), None) for candidates in beginnings
            )
            rows = [row_of[beginning] for beginning in matches if beginning is not None]
            self._begun += bool(rows)
            self._unknown += not rows
        return rows

    def fingerprint(self) -> str:
        """Return the sha256 of the vector file."""
        return f"glove {digest_of_file(self._file).hex()}"

    def describe(self) -> JSON:
        """Return the vectors' details and their `coverage` of the tokens so far (None before the first text)."""
        vectors = self._table[1]
        return {
            "file": self._file.name,
            "vectors": len(vectors),
            "dimensions": vectors.shape[1],
            "coverage": self._known / self._tokens if self._tokens else None,
            "texts_by_beginnings": self._begun,
            "texts_unknown": self._unknown,
        }

    @cached_property
    def _file(self) -> Path:
        from figeval.data.cache import fetch

        return Path(self._path) if self._path else fetch("glove", DEFAULT)

    @cached_property
    def _table(self) -> tuple[dict[str, int], NDArray[np.float32]]:
        return read_vectors(self._file)
