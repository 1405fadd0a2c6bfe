"""TF-IDF with logistic regression: the classifier that a trained model has to beat.

It uses lower-cased words of two characters or more and pairs of neighbouring words, weighted as in `tfidf`, and
scikit-learn's `LogisticRegression`, with at most 1,000 iterations and otherwise its defaults. Classes weigh the same
however rare they are (`class_weight="balanced"`), because a rare class would otherwise hardly ever be predicted. If
several labels may hold, each has a regression of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from figeval.errors import DataError, ModelError, TaskError
from figeval.language.words import TaskWords
from figeval.models.model import refuse_model_name
from figeval.types import JSON, Example

from ..baselines.guessing import gold_answers
from .tfidf import vectorizing

if TYPE_CHECKING:
    from ..classification.requests import TextLabels


@dataclass(frozen=True, slots=True)
class _Learnt:
    """The fitted data: vectorizer, TF-IDF rows (n, words), right answers, texts, and a digest of texts and answers."""

    vectorizer: Any
    rows: Any
    golds: Sequence[tuple[str, ...]]
    texts: frozenset[str]
    digest: str


class TfidfLogreg:
    """A classifier fitted to the texts and labels of the train split; without one it has nothing to learn from."""

    capabilities = ("label_texts",)
    fit_splits = ("train",)

    def __init__(self, model: str = "") -> None:
        refuse_model_name("tfidf_logreg", model)
        self._words = TaskWords()
        self._learnt: _Learnt | None = None
        self._regressions: dict[tuple[tuple[str, ...], bool], list[Any]] = {}

    def use_words(self, words: TaskWords) -> None:
        """Divide texts into these words from now on."""
        self._words = words

    def fit(self, examples: Iterable[Example]) -> None:
        """Learn the words and store the right answers, leaving out hidden ones.

        Raises:
            DataError: there is no example to learn from, or no text has a word of two characters.
        """
        from sklearn.feature_extraction.text import TfidfVectorizer

        labelled = [(" ".join(example.texts), gold_answers(example)) for example in examples if not example.hidden]
        if not labelled:
            raise DataError("'tfidf_logreg' has no labelled example to learn from")
        digest = blake2b(digest_size=8)
        for text, gold in labelled:
            digest.update("\0".join((text, *gold, "")).encode("utf-8", "surrogatepass"))
        vectorizer = TfidfVectorizer(ngram_range=(1, 2), **vectorizing(self._words))
        try:
            rows = vectorizer.fit_transform([text for text, _ in labelled])
        except ValueError as error:
            raise DataError(f"'tfidf_logreg' cannot be fitted to the texts of this task: {error}") from error
        texts = frozenset(text for text, _ in labelled)
        self._learnt = _Learnt(vectorizer, rows, [gold for _, gold in labelled], texts, digest.hexdigest())
        self._regressions = {}

    def label_texts(self, requests: Sequence[TextLabels]) -> list[dict[str, float]]:
        """Return the probabilities of the labels.

        A label that no text of the train split has gets 0; one that all texts have gets 1.

        Raises:
            ModelError: `fit` was not called.
            TaskError: these are the very texts it was fitted to, because the task has no train split.
        """
        learnt = self._learnt
        if learnt is None:
            raise ModelError("'tfidf_logreg' knows no labels before fit(examples) has read the train split")
        if len(requests) > 1 and learnt.texts.issuperset(request.text for request in requests):
            raise TaskError(
                "'tfidf_logreg' would be tested on the texts that it was fitted to; give the task a train split"
            )
        rows = learnt.vectorizer.transform([request.text for request in requests])
        kinds = {(request.labels, request.several) for request in requests}
        probabilities = {kind: self._probabilities(learnt, *kind, rows) for kind in kinds}
        return [
            dict(zip(request.labels, map(float, probabilities[request.labels, request.several][index]), strict=True))
            for index, request in enumerate(requests)
        ]

    def fingerprint(self) -> str:
        """Return a digest that changes with the fitted texts and the library."""
        import sklearn

        fitted = self._learnt.digest if self._learnt else "no"
        return f"tfidf_logreg scikit-learn={sklearn.__version__} fitted={fitted}"

    def describe(self) -> JSON:
        """Return the numbers of words and texts, once fitted."""
        if self._learnt is None:
            return {}
        return {"vocabulary": len(self._learnt.vectorizer.vocabulary_), "texts": len(self._learnt.golds)}

    def _probabilities(self, learnt: _Learnt, labels: tuple[str, ...], several: bool, rows: Any) -> Any:
        """Return probabilities (rows, labels), by one regression, or by one per label if several may hold."""
        import numpy as np

        if (labels, several) not in self._regressions:
            golds = [[label in gold for label in labels] for gold in learnt.golds]
            targets = [*np.array(golds).T] if several else [np.array(golds).argmax(axis=1)]
            self._regressions[labels, several] = [_regression(learnt.rows, target) for target in targets]
        outputs = [regression.predict_proba(rows) for regression in self._regressions[labels, several]]
        table = np.zeros((rows.shape[0], len(labels)))
        for index, (regression, probabilities) in enumerate(
            zip(self._regressions[labels, several], outputs, strict=True)
        ):
            if several:
                table[:, index] = (
                    probabilities[:, list(regression.classes_).index(True)] if True in regression.classes_ else 0.0
                )
            else:
                table[:, regression.classes_] = probabilities
        return table


def _regression(rows: Any, target: Any) -> Any:
    """Return a fitted regression, or a constant classifier if there is only one class."""
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression

    if len(set(target.tolist())) == 1:
        return DummyClassifier().fit(rows, target)
    return LogisticRegression(class_weight="balanced", max_iter=1000).fit(rows, target)
