"""Choice and ranking: score every option against the query; the best score wins.

Ranking differs only in that there are hundreds of options and that `background` options count for `*_all` metrics.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from figeval.answers.reading import letters_of, read_letter
from figeval.task_types.routes import Briefing, Dialogue, decide
from figeval.task_types.similarity import cosines, dots
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
    """Log P(option | context), natural logarithm, summed over the option's tokens.

    `priors` are the same without the query, asked for where the metric `acc_pmi` is.
    """
    options, among = _options(example)
    blocks = ["context", "unconditional"] if "acc_pmi" in briefing.metrics else ["context"]
    continuations = [briefing.begun(briefing.render("continuation", example, option=option)) for option in options]
    contexts = [briefing.render(block, example) for block in blocks]
    scores = yield [Continuation(context, continuation) for context in contexts for continuation in continuations]
    decided = decide(example.id, scores[: len(options)], among)
    return replace(decided, priors=tuple(map(float, scores[len(options) :])))


def by_letter(example: ChoiceExample, briefing: Briefing) -> Dialogue:
    """The letter that the model writes under a list of lettered options."""
    letters_of(example)  # are there enough?
    (reply,) = yield [briefing.prompt("letter", example)]
    return read_letter(example, briefing, reply)


def by_letter_likelihood(example: ChoiceExample, briefing: Briefing) -> Dialogue:
    """Log P(letter | question and lettered options), as for MMLU (Hendrycks et al. 2021)."""
    letters = letters_of(example)
    context = briefing.render("letter", example)
    scores = yield [Continuation(context, briefing.begun(f" {letter}")) for letter in letters]
    return decide(example.id, scores)


def by_cosine(example: ChoiceExample | RankingExample, _briefing: Briefing) -> Dialogue:
    """Cosine of the embeddings of the query and of each option (Ghosh and Srivastava 2022, section 5.1)."""
    options, among = _options(example)
    query, *others = yield (Text(example.query), *_as_texts(options))
    return decide(example.id, cosines(query, others), among)


def by_dot(example: ChoiceExample | RankingExample, _briefing: Briefing) -> Dialogue:
    """Dot product of the embeddings, for models that were trained with it (Ghosh and Srivastava 2022, their code)."""
    options, among = _options(example)
    query, *others = yield (Text(example.query), *_as_texts(options))
    return decide(example.id, dots(query, others), among)
