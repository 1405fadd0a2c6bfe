"""Scores of a task with rows in several languages: of each language, and their unweighted mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from figeval.evaluation.breakdown import parted
from figeval.evaluation.overlap import withheld
from figeval.metrics.languages import Part, mean_over_languages
from figeval.records.schema import LanguageRecord, Role, ScoreRecord
from figeval.types import JSON

if TYPE_CHECKING:
    from figeval.evaluation.scoring import Measures, Scorecard


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of a task; of one with rows in several languages they are means over these."""

    scores: list[ScoreRecord]
    languages: list[LanguageRecord] = field(default_factory=list)


def by_language(
    rows: Callable[[], Iterable[JSON]],
    languages: Sequence[str],
    measures: Measures,
    settings: Mapping[str, Any],
    *,
    strict: bool,
    seed: int,
) -> Scored:
    """Return every score per language, and the means over them.

    A minimal pair counts where all of its members are in the language. Metrics that describe a set of rows as a whole
    are computed anew for each language; those that relate a row to the other ones take them in all languages.

    Args:
        rows: of the task; they are read twice.
        languages: of the task, in order. One without a row (--limit) has scores without a value.
        measures: the task's metrics.
        settings: of the task's record.
        strict: whether the task has minimal pairs.
        seed: of the bootstrap.
    """
    found = parted(lambda row: row.get("language"), rows, measures, settings, strict)
    cards = {language: found.get(language) or measures.scorecard(strict=strict) for language in languages}
    records = [LanguageRecord(language=language, scores=card.scores(seed)) for language, card in cards.items()]
    return Scored(means(cards, seed), records)


def means(cards: Mapping[str, Scorecard], seed: int) -> list[ScoreRecord]:
    """Return the means over the languages; without an interval where the model has seen examples behind one."""
    summed = [[Part(language, *pair) for pair in card.summed(seed)] for language, card in cards.items()]
    seen: dict[str, Counter[Role]] = {}
    for card in cards.values():
        for metric, counts in card.seen_by_metric().items():
            seen.setdefault(metric, Counter()).update(counts)
    found = [mean_over_languages(parts, seed) for parts in zip(*summed, strict=True)]
    return [withheld(ScoreRecord(**asdict(score)), seen.get(score.metric, {})) for score in found]
