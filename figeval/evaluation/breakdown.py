"""Scores per value of a meta column: per idiom, proverb or corpus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from figeval.records.schema import BreakdownRecord, GroupRecord
from figeval.types import JSON

if TYPE_CHECKING:
    from figeval.evaluation.scoring import Measures, Scorecard


def breakdown(
    key: str, rows: Callable[[], Iterable[JSON]], measures: Measures, seed: int, settings: Mapping[str, Any]
) -> BreakdownRecord:
    """Every score per value of a meta column, the most frequent value first.

    Within one value of the cluster column (one idiom) rows are independent: their cluster is what is held fixed. A
    minimal pair counts where all of its members have the value.

    Args:
        key: the column.
        rows: of the task; they are read twice.
        measures: the task's metrics.
        seed: of the bootstrap.
        settings: of the task's record.
    """
    cards = parted(lambda row: row["meta"].get(key), rows, measures, settings)
    groups = [GroupRecord(value=value, scores=card.scores(seed)) for value, card in cards.items()]
    groups.sort(key=lambda group: (-max(score.n for score in group.scores), group.value))
    return BreakdownRecord(by=key, groups=groups)


def parted(
    value_of: Callable[[JSON], str | None],
    rows: Callable[[], Iterable[JSON]],
    measures: Measures,
    settings: Mapping[str, Any],
    strict: bool | None = None,
) -> dict[str, Scorecard]:
    """Return value → scorecard of the rows that have it, as `breakdown` counts them.

    Rows whose value is None are left out. `strict` is whether there are minimal pairs; by default, whether a row is in
    one.
    """
    values = _values_of_groups(value_of, rows())
    cards: dict[str, Scorecard] = {}
    parts: dict[str, list[JSON]] = defaultdict(list)
    for row in rows():
        value = value_of(row)
        if value is None:
            continue
        own = {
            **row,
            "cluster": None if row["cluster"] == value else row["cluster"],
            "group": None if len(values.get(row["group"], ())) > 1 else row["group"],
        }
        card = cards.setdefault(value, measures.scorecard(strict=bool(values) if strict is None else strict))
        if measures.pooled:
            parts[value].append(own)
        else:
            card.add(own)
    for value, part in parts.items():
        for row in measures.related(part, settings, pooled=True):
            cards[value].add(row)
    return cards


def _values_of_groups(value_of: Callable[[JSON], str | None], rows: Iterable[JSON]) -> dict[str, set[Any]]:
    """Per minimal pair the values that its members have."""
    found: dict[str, set[Any]] = defaultdict(set)
    for row in rows:
        if row["group"] is not None:
            found[row["group"]].add(value_of(row))
    return found
