"""Results of battles as tables and small print."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from figeval import Column, Table
from figeval.io.text import pluralize
from figeval.reporting.grid import format_interval, format_number
from figeval.wings.annotation.battles.outcomes import PairResult
from figeval.wings.annotation.battles.ranking import RankedSystem
from figeval.wings.annotation.battles.results import PEOPLE, BattleResults, Ranking, RaterBias
from figeval.wings.annotation.columns import INTERVAL, format_decimals

MAX_PAIRS = 60  # that people see; DataFrames and JSON have all
format_strength: Callable[[Any], str] = partial(format_number, form="+.2f")
format_battles: Callable[[Any], str] = partial(format_number, form=".4g")


class RankedRow(NamedTuple):
    """A system in a ranking."""

    ranking: Ranking
    system: RankedSystem


class PairRow(NamedTuple):
    """A pair of systems in a ranking."""

    ranking: Ranking
    pair: PairResult


def _ranks(row: RankedRow) -> str:
    ranks = row.system.ranks
    return "–" if ranks is None else str(ranks[0]) if ranks[0] == ranks[1] else f"{ranks[0]}–{ranks[1]}"


RANKS: tuple[Column[RankedRow], ...] = (
    Column("criterion", "string", lambda row: row.ranking.criterion, "criterion"),
    Column("by", "string", lambda row: row.ranking.by, "judged by"),
    Column("rank", "Int64", lambda row: row.system.rank, "rank"),
    Column(value=_ranks, head="95 % set", align="right"),
    Column("rank_low", "Int64", lambda row: row.system.ranks and row.system.ranks[0]),
    Column("rank_high", "Int64", lambda row: row.system.ranks and row.system.ranks[1]),
    Column("system", "string", lambda row: row.system.system, "texts by"),
    Column("win_rate", "float64", lambda row: row.system.win_rate, "win rate", format_decimals),
    Column(
        value=lambda row: format_interval(row.system.win_rate_interval.low, row.system.win_rate_interval.high),
        head=INTERVAL,
        align="right",
    ),
    Column("win_rate_low", "float64", lambda row: row.system.win_rate_interval.low),
    Column("win_rate_high", "float64", lambda row: row.system.win_rate_interval.high),
    Column("strength", "float64", lambda row: row.system.strength, "strength", format_strength),
    Column(
        value=lambda row: format_interval(row.system.strength_interval.low, row.system.strength_interval.high, "+.2f"),
        head=f"{INTERVAL} ",
        align="right",
    ),
    Column("strength_low", "float64", lambda row: row.system.strength_interval.low),
    Column("strength_high", "float64", lambda row: row.system.strength_interval.high),
    Column("elo", "float64", lambda row: row.system.elo),
    Column("wins", "float64", lambda row: row.system.wins, "won", format_battles),
    Column("ties", "float64", lambda row: row.system.ties, "tied", format_battles),
    Column("losses", "float64", lambda row: row.system.losses, "lost", format_battles),
    Column("interval", "string", lambda row: str(row.system.strength_interval)),
)
PAIRS: tuple[Column[PairRow], ...] = (
    Column("criterion", "string", lambda row: row.ranking.criterion, "criterion"),
    Column("by", "string", lambda row: row.ranking.by, "judged by"),
    Column("a", "string", lambda row: row.pair.a, "A"),
    Column("b", "string", lambda row: row.pair.b, "B"),
    Column("wins", "float64", lambda row: row.pair.wins, "A won", format_battles),
    Column("ties", "float64", lambda row: row.pair.ties, "tied", format_battles),
    Column("losses", "float64", lambda row: row.pair.losses, "B won", format_battles),
    Column("equal", "Int64", lambda row: row.pair.equal, "equal texts"),
    Column("value", "float64", lambda row: row.pair.score.value, "share of A", format_decimals),
    Column(value=lambda row: format_interval(row.pair.score.low, row.pair.score.high), head=INTERVAL, align="right"),
    Column("low", "float64", lambda row: row.pair.score.low),
    Column("high", "float64", lambda row: row.pair.score.high),
    Column("n", "Int64", lambda row: row.pair.score.n),
    Column("interval", "string", lambda row: str(row.pair.score.interval)),
)
POSITIONS: tuple[Column[RaterBias], ...] = (
    Column("criterion", head="criterion"),
    Column("rater", head="rater"),
    Column("answers", "Int64", lambda row: row.bias.answers, "answers"),
    Column("ties", "Int64", lambda row: row.bias.ties, "ties"),
    Column("first", "float64", lambda row: row.bias.first.value, "first text won", format_decimals),
    Column(value=lambda row: format_interval(row.bias.first.low, row.bias.first.high), head=INTERVAL, align="right"),
    Column("low", "float64", lambda row: row.bias.first.low),
    Column("high", "float64", lambda row: row.bias.first.high),
    Column("both_orders", "Int64", lambda row: row.bias.both_orders, "seen in both orders"),
    Column("contradictions", "Int64", lambda row: row.bias.contradictions, "with different results"),
)


def ranked_rows(results: BattleResults) -> list[RankedRow]:
    """Return the systems of all rankings."""
    return [RankedRow(ranking, system) for ranking in results.rankings for system in ranking.systems]


def pair_rows(results: BattleResults) -> list[PairRow]:
    """Return the pairs of systems of all rankings."""
    return [PairRow(ranking, pair) for ranking in results.rankings for pair in ranking.pairs]


def battle_tables(task: str, results: BattleResults) -> Sequence[Table[Any]]:
    """Return ranking, pairs and position bias; many pairs are left to programs."""
    pairs = pair_rows(results)
    return [
        Table(RANKS, ranked_rows(results), f"{task}: ranking by battles"),
        Table(PAIRS, pairs if len(pairs) <= MAX_PAIRS else [], "Battles of each pair"),
        Table(POSITIONS, results.biases, "Position bias"),
    ]


def describe_bias(row: RaterBias) -> str:
    """Return a sentence about the position bias of a judge."""
    bias = row.bias
    share = "–" if bias.first.value is None else f"{bias.first.value:.3f}"
    return (
        f"{row.criterion}: the first text won {share} of {bias.answers - bias.ties} decided answers; "
        f"{bias.contradictions} of {pluralize(bias.both_orders, 'battle')} had another result in the other order"
    )


def battle_notes(results: BattleResults) -> Iterator[str]:
    """Yield what the rankings mean, what was left out, and why numbers are missing."""
    yield (
        "win rate: expected share of wins against the other systems, ties counted half; strength: log-odds of a win "
        "against an average system; 95 % set: ranks that are not excluded, for all systems together"
    )
    if results.rankings and not any(ranking.by == PEOPLE for ranking in results.rankings):
        yield "nobody has judged a battle: the ranking is that of a model, and no measurement of people"
    for judge in dict.fromkeys(ranking.by for ranking in results.rankings if ranking.weight is not None):
        weights = [f"{row.criterion} {row.weight:.3f}" for row in results.rankings if row.by == judge]
        yield (
            f"{judge}: people's ranking, estimated with the judge's answers (λ: {', '.join(weights)}); it is valid if "
            "the battles that people judged are a random part"
        )
        yield from _unused_battles(results, judge)
    for ranking in results.rankings:
        yield from _notes_on_ranking(ranking)
    if results.equal:
        yield f"{pluralize(results.equal, 'battle')} of equal texts, which count as ties without being judged"
    for judge, count in results.half_answered.items():
        yield f"judge {judge}: {pluralize(count, 'battle')} with an answer in one order only, which do not count"
    if len(pairs := pair_rows(results)) > MAX_PAIRS:
        yield f"{len(pairs)} pairs of systems; --json and AnnotationResults.battle_pairs have them"


def _unused_battles(results: BattleResults, by: str) -> Iterator[str]:
    """Yield how many battles that people judged are not used in a ranking with a judge's help."""
    by_people = {row.criterion: row.decided for row in results.rankings if row.by == PEOPLE}
    for row in results.rankings:
        if row.by == by and (unused := by_people[row.criterion] - row.decided):
            yield (
                f"{row.criterion}, {by}: {pluralize(unused, 'battle')} that people judged not used, because the judge "
                "was not asked about them; judge without --limit to use all"
            )


def _notes_on_ranking(ranking: Ranking) -> Iterator[str]:
    name = f"{ranking.criterion}, {ranking.by}"
    if ranking.decided < ranking.battles:
        yield f"{name}: {ranking.decided} of {ranking.battles} battles decided"
    if ranking.systems and (reason := ranking.systems[0].strength_interval.reason):
        number = "ranking" if ranking.systems[0].strength is None else "interval"
        yield f"{name}: no {number}: {reason}"
    if ranking.by == PEOPLE or ranking.weight is None:
        for system in ranking.systems:
            results = [count for count in (system.wins, system.ties, system.losses) if count]
            if len(results) == 1 and not system.ties and system.strength is not None:
                verb = "won" if system.wins else "lost"
                yield (
                    f"{name}: {system.system} {verb} all of its {results[0]:.4g} battles; its strength is finite only "
                    "by the prior, and can be far more extreme"
                )
