"""The rows of one leaderboard: runs with their ranks and confidence sets, and trivial baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from figeval.errors import FigevalError
from figeval.io.text import one_line
from figeval.records import conditions
from figeval.records.schema import BaselineRecord, ScoreRecord, TaskRecord
from figeval.wings.comparison.comparisons import RankedRun, ranked
from figeval.wings.comparison.sides import Side
from figeval.wings.report.board_record import BoardRow

Kind = Literal["task", "contrast", "suite"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A run, or the runs of several seeds, as one entry of the leaderboards.

    Attributes:
        place: folder of the run or of the seeds.
        side: the record, or that of the means, with the stored predictions.
        label: name of the model, with what distinguishes the run from others of the same model.
        page: address of the run's page within the site.
    """

    place: Path
    side: Side
    label: str
    page: str


class Data(NamedTuple):
    """Properties that all results on one leaderboard share. Texts are digests, or empty."""

    portion: str  # empty for all examples
    schema: int
    version: int
    examples: str
    template: str


class Standing(NamedTuple):
    """The result of one entry, before it is on a leaderboard; a suite or contrast has no task record."""

    entry: Entry
    name: str
    kind: Kind
    data: Data
    examples: int
    scores: list[ScoreRecord]
    baselines: list[BaselineRecord]
    task: TaskRecord | None = None


def rows_of(own: Sequence[Standing], metric: str, seed: int) -> list[BoardRow]:
    """Return the rows of one leaderboard: the runs with their ranks and the baselines, the best score first."""
    sign = -1 if any(not one.higher_is_better for each in own for one in each.scores if one.metric == metric) else 1
    times = Counter(one.entry.label for one in own)
    rows = []
    for one in own:
        record = one.entry.side.record
        label = one.entry.label
        rows.append(
            BoardRow(
                model=f"{label} ({one_line(record.identity, 12)})" if times[label] > 1 else label,
                kind="run",
                run=record.identity,
                page=one.entry.page,
                route=one.task.route if one.task is not None else "",
                conditions=conditions.described(one.task) if one.task is not None else "",
                same_as=_namesake(one, own),
                seeds=len(one.entry.side.runs),
                date=one_line(record.started, 10).rstrip("…"),
                scores=one.scores,
            )
        )
    _rank(rows, own, metric, sign, seed)
    rows += _baselines(own)

    def place(row: BoardRow) -> tuple[bool, float]:
        score = row.score(metric)
        value = None if score is None else score.value
        return (value is None, 0.0 if value is None else -sign * value)

    return sorted(rows, key=place)


def _namesake(one: Standing, own: Sequence[Standing]) -> str:
    """Return the label of the first entry with the same model by another name; empty if there is none."""
    first = next(other for other in own if other is one or _model(other) == _model(one))
    is_named_alike = first.entry.side.record.model.name == one.entry.side.record.model.name
    return "" if is_named_alike or _model(one) is None else first.entry.label


def _model(one: Standing) -> str | None:
    """Return what changes whenever an answer of the model could change, or None if it is unknown."""
    return one.entry.side.record.model.fingerprint or None


def _result(one: Standing) -> Hashable:
    """Return what two results have in common if one repeats the other, or None if the model is unknown."""
    if _model(one) is None:
        return None
    asked = (one.task.route, conditions.described(one.task)) if one.task is not None else ()
    return (_model(one), asked, *((score.metric, score.value) for score in one.scores))


def _baselines(own: Sequence[Standing]) -> Iterator[BoardRow]:
    """Yield each baseline once; one that depends on the run's seed is repeated with its other scores."""
    known: dict[tuple[str, tuple[float | None, ...]], BaselineRecord] = {}
    for standing in own:
        for each in standing.baselines:
            known.setdefault((each.baseline, tuple(score.value for score in each.scores)), each)
    for one in known.values():
        yield BoardRow(model=one_line(one.baseline, 120), kind="baseline", scores=one.scores)


def _rank(rows: Sequence[BoardRow], own: Sequence[Standing], metric: str, sign: int, seed: int) -> None:
    """Set the ranks of the runs by their scores, and the confidence sets of those whose predictions are stored."""
    valid: dict[int, float] = {}
    known: dict[Hashable, str] = {}
    for place, row in enumerate(rows):
        score, same = row.score(metric), _result(own[place])
        if score is None or score.value is None:
            row.note = f"no {metric}"
        elif (task := own[place].task) is not None and task.only_label is not None:
            row.note = f"the right answer is {one_line(task.only_label, 60)} for every example; contrasts are ranked"
        elif score.seen is not None:
            row.note = "the model has seen some of these examples"
        elif same is not None and same in known:
            row.note = f"the same model with the same scores as {known[same]}"
        else:
            known[same] = row.model
            valid[place] = sign * score.value
    found = _tested([own[place] for place in valid], metric, seed) if len(valid) > 1 else ""
    for number, (place, value) in enumerate(valid.items()):
        row = rows[place]
        row.rank = 1 + sum(other > value for other in valid.values())
        if isinstance(found, str):
            row.note = found
        else:
            row.best, row.worst = found[number].best, found[number].worst


def _tested(own: Sequence[Standing], metric: str, seed: int) -> dict[int, RankedRun] | str:
    """Return the tested ranks by the place of a run, or the reason why there are none."""
    if own[0].task is None:
        return "a mean over tasks has no test" if own[0].kind == "suite" else "a contrast has no paired test"
    if not all(folder.has_predictions(one.name) for one in own for _, folder in one.entry.side.runs):
        return "not all of these runs have stored predictions"
    try:
        ranks = ranked([one.entry.side for one in own], own[0].name, metric, seed)
    except FigevalError as error:
        return one_line(str(error), 200)
    if not ranks or any(one.best is None for one in ranks):
        return f"no paired test of {metric} is possible for all pairs of these runs"
    return {one.run: one for one in ranks}
