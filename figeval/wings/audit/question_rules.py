"""Shallow rules, which compare the options of an item with its question but understand neither.

Wrong options that resemble the question mislead whoever takes the most similar option, and reward whoever takes the
least similar one, so both are measured. A finished run adds the scores that its model gave to the options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from figeval.language.words import split_words
from figeval.wings.audit.blind_rules import HALVINGS, LABELS, BlindItems, Floats, Rule, Scores, jaccard

QUESTION = "the item and its question"
DIGITS = 9  # likenesses that agree to this digit are equal


def question_rules(items: BlindItems, seed: int, ratings: Mapping[str, Scores]) -> Iterator[Rule]:
    """Yield the result of every rule; `ratings` has the scores of the options by the name of the model."""
    likenesses = question_likenesses(items)
    for name, scores in likenesses.items():
        yield from items.extremes(
            f"least like the question, {name}", f"most like the question, {name}", QUESTION, scores
        )
    for name, scores in ratings.items():
        yield from items.extremes(f"rated lowest by {name}", f"rated highest by {name}", QUESTION, scores)
    halvings = [items.halves(f"{seed} {number}", by_cluster=False) for number in range(HALVINGS)]
    among_options = [items.spread(items.lengths), items.likeness(), items.spelling()]
    with_question = [*likenesses.values(), *ratings.values()]
    for name, compared in (
        ("logistic regression on ranks by length and likeness", among_options),
        ("logistic regression on ranks by likeness to the question", with_question),
        ("logistic regression on all these ranks", [*among_options, *with_question]),
    ):
        features = [np.hstack(list(map(_ranks, rows))) for rows in zip(*compared, strict=True)]
        yield Rule(name, LABELS, items.mean_hits(halvings, partial(items.regress, rows=features)))


def question_likenesses(items: BlindItems) -> dict[str, Scores]:
    """Return the likeness of each option to its question, by what they are compared with."""
    questions = [
        split_words(example.subject, example.language, example.segmenter, joined=False) for example in items.examples
    ]
    texts = [example.subject.lower() for example in items.examples]
    question_sets, option_sets = list(map(frozenset, questions)), list(map(frozenset, items.words))
    return {
        "by words": [
            np.array([jaccard(question, option_sets[option]) for option in options]).round(DIGITS)
            for question, options in zip(question_sets, items.options, strict=True)
        ],
        "by TF-IDF": _cosines(items, questions, items.words, analyzer=list),
        "by spelling": _cosines(items, texts, list(items.numbers), analyzer="char_wb", ngram_range=(2, 4)),
    }


def _cosines(items: BlindItems, questions: Sequence[object], options: Sequence[object], **settings: object) -> Scores:
    """Return the cosine of TF-IDF weights of each option and its question."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    try:
        vectorizer = TfidfVectorizer(**settings).fit([*questions, *options])
    except ValueError:  # there is no word
        return [np.zeros(len(row)) for row in items.options]
    question_weights, option_weights = vectorizer.transform(questions), vectorizer.transform(options)
    return [
        (option_weights[row] @ question_weights[number].T).toarray()[:, 0].round(DIGITS)
        for number, row in enumerate(items.options)
    ]


def _ranks(scores: Floats) -> Floats:
    """Return the shares of options above and below, and whether there are none, of each option; shape (options, 4)."""
    above = (scores > scores[:, None]).mean(axis=1)
    below = (scores < scores[:, None]).mean(axis=1)
    return np.column_stack([above, below, above == 0, below == 0])
