"""Choice and ranking: score every option against the query; the best score wins.

Ranking differs only in that there are hundreds of options and that `background` options count for `*_all` metrics.
"""

from __future__ import annotations

from functools import lru_cache

from figeval.protocols.routes import Briefing, Dialogue, decide
from figeval.protocols.similarity import cosines
from figeval.types import ChoiceExample, Continuation, RankingExample, Text, TextPair

Options = tuple[str, ...]


def _options(example: ChoiceExample | RankingExample) -> tuple[Options, int]:
    """All options to score, and how many of them the prediction chooses among."""
    if isinstance(example, RankingExample):
        return example.candidates + example.background, len(example.candidates)
    return example.options, len(example.options)


@lru_cache(maxsize=64)
def _as_texts(options: Options) -> tuple[Text, ...]:
    """The options as requests: one object each, however many examples share them."""
    return tuple(map(Text, options))


def by_pair_score(example: ChoiceExample | RankingExample, _briefing: Briefing) -> Dialogue:
    """Closeness of the query and each option, as the model scores it."""
    options, among = _options(example)
    scores = yield [TextPair(example.query, option) for option in options]
    return decide(example.id, scores, among)


def by_loglikelihood(example: ChoiceExample | RankingExample, briefing: Briefing) -> Dialogue:
    """Log P(option | context), natural logarithm, summed over the option's tokens."""
    options, among = _options(example)
    context = briefing.render("context", example)
    continuations = [briefing.render("continuation", example, option=option) for option in options]
    scores = yield [Continuation(context, continuation) for continuation in continuations]
    return decide(example.id, scores, among)


def by_cosine(example: ChoiceExample | RankingExample, _briefing: Briefing) -> Dialogue:
    """Cosine of the embeddings of the query and of each option (Ghosh and Srivastava 2022, section 5.1)."""
    options, among = _options(example)
    query, *others = yield (Text(example.query), *_as_texts(options))
    return decide(example.id, cosines(query, others), among)
