"""Models of word counts and word vectors, without a neural network: TF-IDF and GloVe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from figeval.hooks import hookimpl

if TYPE_CHECKING:
    from figeval.hooks import BackendRegistrar


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """Register one model per module."""
    summary = (
        "TF-IDF cosine with scikit-learn's defaults, fitted to the texts of the task (fit=train: of its train split)"
    )
    register("tfidf", f"{__name__}.tfidf:Tfidf", summary)
    summary = "TF-IDF and logistic regression, fitted to the train split: the floor of trained classifiers"
    register("tfidf_logreg", f"{__name__}.tfidf_logreg:TfidfLogreg", summary)
    register("glove", f"{__name__}.glove:Glove", "mean of GloVe vectors (path=FILE for others, also of word2vec)")
