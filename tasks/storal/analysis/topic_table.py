"""The topics of section 3 and Table 3: their number, their sizes, their specificity and their heaviest words."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from figeval.errors import OptionError
from figeval.records.findings import AnalysedNumber, Analysis, Listing

from ..building import topics
from .corpus import Stories

PAPER, RULE = "paper", "rule"  # values of --topics besides a number
MIN_SHARE = {"en": "3.2", "zh": "1.6"}  # percent of the morals, as printed
EXAMPLES = 2  # morals of each topic, as in Table 3
SHOWN = 5  # most specific topics, as in Table 3
METHOD = "latent Dirichlet allocation over the morals of the training split (README.md)"
RULE_TEXT = (
    f"smallest number from {topics.MIN_TOPICS} to {topics.MAX_TOPICS} for which every topic has a specificity above "
    f"{topics.MIN_SPECIFICITY:g}"
)
NO_FORMULA = (
    f"Specificity is here the share of a topic's {topics.TOP_WORDS} heaviest words in its weight. The paper's formula "
    "is lost in the text that figeval follows, so its topics need not have these values."
)
HEAD = ("topic", "specificity", "share, %", "heaviest words", "typical morals")


def read_count(text: str) -> int | str:
    """Return the value of `--topics`. Raises `OptionError` for anything but a number, `paper` or `rule`."""
    if text in (PAPER, RULE):
        return text
    if text.isascii() and text.isdigit() and 2 <= int(text) <= topics.MAX_MORALS:
        return int(text)
    raise OptionError(f"--topics {text:.20}: give a number from 2, {PAPER!r} for the paper's number, or {RULE!r}")


def last_count(count: int | str, language: str) -> int:
    """Return the largest number of topics that may be tried."""
    return topics.PAPER[language] if count == PAPER else topics.MAX_TOPICS if count == RULE else int(count)


def topic_table(stories: Stories, count: int | str, seed: int, progress: Callable[[int], None]) -> Analysis:
    """Return the topics of the morals.

    Args:
        stories: the stories with their morals.
        count: the number of topics; `paper` for the paper's, `rule` to find it by the paper's rule.
        seed: random seed of the model.
        progress: is called with the number that is being tried.
    """
    training = [pair for pair in stories.pairs if pair.split == "train"]
    morals = [pair.moral for pair in training]
    number = None if count == RULE else last_count(count, stories.language)
    model = topics.learn(morals, stories.language, seed, count=number, progress=progress)
    shares = np.bincount(model.of(morals), minlength=model.count) / len(morals)
    likelihood = model.probabilities(morals)
    order = np.argsort(-np.asarray(model.specificity), kind="stable")
    rows = [
        (
            int(topic),
            round(model.specificity[topic], 3),
            round(100 * float(shares[topic]), 1),
            " ".join(model.words[topic]),
            " ".join(training[index].id for index in np.argsort(-likelihood[:, topic], kind="stable")[:EXAMPLES]),
        )
        for topic in order
    ]
    name = f"topics_{stories.language}"
    return Analysis(
        name=f"Table 3: topics, {stories.title}",
        table="storal_topics",
        findings=_findings(stories, model, shares, searched=count == RULE),
        listings=[Listing(name, "Most specific topics", HEAD, rows, SHOWN)],
        details={"seed": seed, "number": model.count, "vocabulary": model.vocabulary},
    )


def _findings(stories: Stories, model: topics.Topics, shares: np.ndarray, *, searched: bool) -> list[AnalysedNumber]:
    """Return the numbers of the section; the number of topics is one of them only if it was searched for."""
    of_count = f"{model.count} topics; {METHOD}"
    missed = (
        f"No number from {topics.MIN_TOPICS} to {topics.MAX_TOPICS} meets the rule; there are {model.count} topics."
    )
    unsearched = f"The number of topics was not searched for, which takes minutes: --topics {RULE}."
    is_specific = [share > topics.MIN_SPECIFICITY for share in model.specificity]
    return [
        AnalysedNumber(
            name="number of topics",
            value=model.count if searched and model.by_rule else None,
            published=str(topics.PAPER[stories.language]),
            definition=RULE_TEXT,
            note="" if searched and model.by_rule else missed if searched else unsearched,
            cell=("lda_topics", stories.row),
        ),
        AnalysedNumber(
            name="smallest topic, % of morals",
            value=100 * float(shares.min()),
            published=MIN_SHARE[stories.language],
            definition=f"most probable topic of each moral; {of_count}",
            cell=("min_topic_share", stories.row),
            scale=0.01,
        ),
        AnalysedNumber(
            name=f"topics with a specificity above {topics.MIN_SPECIFICITY:g}",
            value=sum(is_specific),
            definition=f"share of a topic's {topics.TOP_WORDS} heaviest words in its weight; {of_count}",
            note=NO_FORMULA,
        ),
        AnalysedNumber(
            name="smallest specificity",
            value=min(model.specificity),
            definition=f"share of a topic's {topics.TOP_WORDS} heaviest words in its weight; {of_count}",
        ),
    ]
