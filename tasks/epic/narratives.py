"""Rows of narrative generation: `epic:narrative_{seen,unseen}_{train,test}` and `…_authors_{train,test}`.

The default splits are the official ones, 60 to 40. The authors' code draws splits of 80 to 20 with Python's shuffle and
seed 42; since it does not fix the order of drawing, the `_authors` splits have the same rule and sizes, but not the
same rows.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby

from figeval.data import DataContext, Row
from figeval.data.row_files import read_json

from .epic_rows import Corpus, narrative_fields, proverb_of, read_corpus, with_lower
from .keywords import keywords_of

SEED, TRAIN_OF_TEN, TRAIN_PROVERBS = 42, 8, 200


def official(kind: str, part: str, context: DataContext) -> Iterator[Row]:
    """Return the rows of one half of an official split."""
    ids = read_json(context.fetch("epic", f"task_1_proverb_only_{kind}_{part}_data_indices.json"))
    return narrative_rows(ids, read_corpus(context), context)


def authors(kind: str, part: str, context: DataContext) -> Iterator[Row]:
    """Return the rows of one part of a split drawn by the rule of the authors' code."""
    corpus = read_corpus(context)
    return narrative_rows(authors_split(corpus, kind)[part], corpus, context)


seen_train, seen_test = partial(official, "seen", "train"), partial(official, "seen", "test")
unseen_train, unseen_test = partial(official, "unseen", "train"), partial(official, "unseen", "test")
seen_authors_train, seen_authors_test = partial(authors, "seen", "train"), partial(authors, "seen", "test")
unseen_authors_train, unseen_authors_test = partial(authors, "unseen", "train"), partial(authors, "unseen", "test")


def narrative_rows(ids: Iterable[str], corpus: Corpus, context: DataContext) -> Iterator[Row]:
    """Yield one row per id, with `keywords` as in the text and `keywords_lower`, either of which may be empty."""
    keywords = keywords_of(corpus.narratives, context.notes)
    for key in ids:
        yield {**narrative_fields(corpus, key, "split"), **with_lower("keywords", keywords[key])}


def authors_split(corpus: Corpus, kind: str) -> dict[str, list[str]]:
    """Return the ids of `train` and `test`.

    The seen split puts eight of each proverb's ten narratives into train and two into test; the unseen split puts the
    narratives of 200 proverbs into train and those of 50 into test.
    """
    generator = random.Random(SEED)
    groups = [list(group) for _, group in groupby(corpus.narratives, key=proverb_of)]
    if kind == "unseen":
        generator.shuffle(groups)
        halves = groups[:TRAIN_PROVERBS], groups[TRAIN_PROVERBS:]
        return {
            part: [key for group in half for key in group] for part, half in zip(("train", "test"), halves, strict=True)
        }
    for group in groups:
        generator.shuffle(group)
    return {
        "train": [key for group in groups for key in group[:TRAIN_OF_TEN]],
        "test": [key for group in groups for key in group[TRAIN_OF_TEN:]],
    }
