"""Statistics of the kinds of options that a model chose, from stored rows: e.g. antonyms or literal meanings."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from figeval.metrics.aggregation import MetricAggregator
from figeval.metrics.statistic import Features, Statistic, ratio
from figeval.records.predictions import PredictionRow
from figeval.records.schema import ChoicesRecord, KindRecord, Role, ScoreRecord
from figeval.runs.selection_bias import withheld
from figeval.types import Interval

NEVER_WRONG = "no wrong answer could be of this kind"
ROUNDING_ERROR = 1e-9  # a probability this close to 0 or 1 differs from it only by rounding


@dataclass(frozen=True, slots=True)
class ChosenKinds:
    """The kinds of options of one row, according to one key of `option_meta`.

    Attributes:
        row: the row.
        offered: number of options of each kind.
        chosen: probability that an option of the kind was chosen, by kind.
        offered_wrong: number of wrong options of each kind.
        chosen_wrong: probability that a wrong option of the kind was chosen, by kind.
        wrong: probability that the answer is wrong, or None if the right answer is hidden.
        wrong_options: number of wrong options.
    """

    row: PredictionRow
    offered: Counter[str]
    chosen: dict[str, float]
    offered_wrong: Counter[str]
    chosen_wrong: dict[str, float]
    wrong: float | None
    wrong_options: int


def choices(rows: Callable[[], Iterable[PredictionRow]], seed: int) -> list[ChoicesRecord]:
    """Return a table per key of `option_meta`, or an empty list if the rows have no kinds of options.

    Args:
        rows: function that opens the rows of the task; they are read once per key, and once more.
        seed: random seed of the bootstrap.
    """
    keys = dict.fromkeys(key for row in rows() if (choice := row.get("choice")) for key in choice["kinds"])
    return [table for key in keys if (table := by_kind(key, list(choices_by(key, rows())), seed)) is not None]


def choices_by(key: str, rows: Iterable[PredictionRow]) -> Iterator[ChosenKinds]:
    """Yield the kinds of options of each answered row, according to a key of `option_meta`."""
    for row in rows:
        choice = row.get("choice")
        if choice is None or not choice["chosen"] or key not in choice["kinds"]:
            continue
        chosen, right = choice["chosen"], choice["right"]
        offered, offered_wrong = Counter[str](), Counter[str]()
        shares, shares_wrong = defaultdict[str, float](float), defaultdict[str, float](float)
        wrong_options = [index for index in range(len(chosen)) if index not in (right or ())]
        for index, kind in enumerate(choice["kinds"][key]):
            if kind is not None:
                offered[kind] += 1
                shares[kind] += chosen[index]
            if kind is not None and right is not None and index in wrong_options:
                offered_wrong[kind] += 1
                shares_wrong[kind] += chosen[index]
        wrong = None if right is None else round_share(math.fsum(chosen[index] for index in wrong_options))
        yield ChosenKinds(row, offered, dict(shares), offered_wrong, dict(shares_wrong), wrong, len(wrong_options))


def round_share(share: float) -> float:
    """Return 0 or 1 if a sum of shares differs from it only by rounding, else the sum itself."""
    return float(round(share)) if abs(share - round(share)) < ROUNDING_ERROR else share


@dataclass(slots=True)
class OptionKind:
    """Sums over the rows for one kind of options."""

    wrong_statistic: Statistic
    offered: int = 0
    examples: int = 0
    offered_wrong: int = 0
    expected: float = 0.0
    chosen: MetricAggregator = field(init=False)
    chosen_wrong: MetricAggregator = field(init=False)

    def __post_init__(self) -> None:
        self.chosen = MetricAggregator("chosen", share_of(is_mean=True))
        self.chosen_wrong = MetricAggregator("chosen_wrong", self.wrong_statistic)

    def add(self, value: str, choice: ChosenKinds) -> None:
        """Add one answered row."""
        cluster = choice.row["cluster"]
        self.offered += choice.offered[value]
        self.examples += choice.offered[value] > 0
        self.chosen.add(cluster, (round_share(choice.chosen.get(value, 0.0)), 1.0))
        if choice.wrong:
            self.offered_wrong += choice.offered_wrong[value]
            self.expected += choice.wrong * choice.offered_wrong[value] / choice.wrong_options
            self.chosen_wrong.add(cluster, (round_share(choice.chosen_wrong.get(value, 0.0)), choice.wrong))


def share_of(*, is_mean: bool) -> Statistic:
    """Return the statistic of a share: a mean if every row has weight 1, else a ratio of sums."""
    return Statistic(_none, ratio, is_mean=is_mean, absent="no wrong answers")


def _none(_example: Any, _prediction: Any) -> Features:
    """Return None, since the features are taken from rows and not computed from predictions."""
    return None


def by_kind(key: str, rows: list[ChosenKinds], seed: int) -> ChoicesRecord | None:
    """Return the table of one key, the most frequent kind first, or None if nothing was answered."""
    if not rows:
        return None
    wrong = [choice.wrong for choice in rows if choice.wrong]
    statistic = share_of(is_mean=all(weight == 1 for weight in wrong))
    kinds = {value: OptionKind(statistic) for choice in rows for value in choice.offered}
    seen, seen_wrong = Counter[Role](), Counter[Role]()
    for choice in rows:
        for value, kind in kinds.items():
            kind.add(value, choice)
        if role := choice.row.get("seen"):
            seen[role] += 1
            seen_wrong[role] += bool(choice.wrong)
    total = math.fsum(wrong)
    records = []
    for value, kind in sorted(kinds.items(), key=lambda item: (-item[1].offered, item[0])):
        chosen, chosen_wrong = (
            ScoreRecord.of(aggregator.score(seed)) for aggregator in (kind.chosen, kind.chosen_wrong)
        )
        if wrong and not kind.offered_wrong:
            chosen_wrong = chosen_wrong.with_interval(Interval(reason=NEVER_WRONG), value=None)
        records.append(
            KindRecord(
                value=value,
                offered=kind.offered,
                examples=kind.examples,
                chosen=withheld(chosen, seen),
                chosen_wrong=withheld(chosen_wrong, seen_wrong),
                expected_wrong=kind.expected / total if total else None,
            )
        )
    return ChoicesRecord(key=key, answered=len(rows), wrong=total, kinds=records)
