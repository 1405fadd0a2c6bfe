"""Leaderboards: results grouped by what may be compared, with ranks, confidence sets and trivial baselines.

Two results are on one leaderboard only if they belong to the same task in the same version, were computed from the same
examples, and were recorded with the same major version of the schema; prompts must have the same text where both runs
used one. All others are on leaderboards of their own, which say what is different.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import figeval
from figeval import FigevalError, RunRecord, TaskRecord
from figeval.io.text import one_line
from figeval.records import conditions
from figeval.records.notes import shared_notes
from figeval.records.run_folder import RunFolder
from figeval.records.schema import BaselineRecord, ScoreRecord
from figeval.wings.report.record import BoardRow, Leaderboard

if TYPE_CHECKING:
    from figeval.wings.comparison.family import RankedRun

Kind: TypeAlias = Literal["task", "contrast", "suite"]
OTHER_BENCHMARK = "other tasks"  # benchmark of tasks that are not installed


@dataclass(frozen=True, slots=True)
class Entry:
    """A run, or the runs of several seeds, as one entry of the leaderboards.

    Attributes:
        path: folder of the run or of the seeds.
        record: the record, or that of the means.
        runs: the run, or those of the seeds, with their folders.
        label: name of the model, with what distinguishes the run from others of the same model.
        page: address of the run's page within the site.
    """

    path: Path
    record: RunRecord
    runs: list[tuple[RunRecord, RunFolder]]
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

    @property
    def fingerprint(self) -> str | None:
        """What changes whenever an answer of the model could change, or None if it is unknown."""
        return self.entry.record.model.fingerprint or None


def leaderboards(standings: Sequence[Standing], owners: Mapping[str, str], seed: int) -> Iterator[Leaderboard]:
    """Yield the leaderboards of one task, contrast or suite, that of all examples and most runs first.

    Args:
        standings: its results in all entries.
        owners: benchmark of each installed task and suite.
        seed: random seed of the sign-flip tests.
    """
    groups: dict[tuple[Data, str], list[Standing]] = {}
    for standing in _share_prompts(standings):
        sample = standing.task.sample_sha256 if standing.task is not None else ""
        groups.setdefault((standing.data, sample or ""), []).append(standing)
    ordered = sorted(groups.values(), key=_importance, reverse=True)
    first = ordered[0][0]
    for index, group in enumerate(ordered):
        standing = group[0]
        distinction = "" if index == 0 and not first.data.portion else _distinction(standing, first if index else None)
        metric = standing.scores[0].metric
        yield Leaderboard(
            name=first.name,
            kind=first.kind,
            benchmark=_benchmark(first, owners),
            metric=metric,
            apart=distinction,
            examples=standing.examples,
            examples_sha256=standing.data.examples,
            rows=_rows(group, metric, seed),
            notes=list(_notes(group)),
        )


def _share_prompts(standings: Sequence[Standing]) -> Iterator[Standing]:
    """Yield the results; those with the most frequent prompt are on one leaderboard with those without a prompt."""
    by_data: dict[Data, list[Standing]] = {}
    for standing in standings:
        by_data.setdefault(standing.data._replace(template=""), []).append(standing)
    for group in by_data.values():
        counts = Counter(standing.data.template for standing in group if standing.data.template)
        common = counts.most_common(1)[0][0] if counts else ""
        for standing in group:
            is_common = standing.data.template == common
            yield standing._replace(data=standing.data._replace(template="")) if is_common else standing


def _importance(group: Sequence[Standing]) -> tuple[object, ...]:
    first = group[0]
    return (not first.data.portion, first.data[1:3], len(group), first.examples, first.entry.record.started)


def _benchmark(standing: Standing, owners: Mapping[str, str]) -> str:
    task = standing.task
    name = task.of or standing.name if task is not None else standing.name.partition(":")[0]
    return owners.get(name, OTHER_BENCHMARK)


def _distinction(standing: Standing, first: Standing | None) -> str:
    """Return what distinguishes the data of a result from that of the first leaderboard, in words."""
    data = standing.data
    parts = [data.portion] if data.portion else []
    if first is not None:
        reference = first.data
        if data.schema != reference.schema:
            parts.append(f"recorded with schema {data.schema}.x, not {reference.schema}.x")
        if data.version != reference.version:
            parts.append(f"version {data.version} of the task, not {reference.version}")
        if data.examples != reference.examples:
            parts.append(f"other examples (sha256 {data.examples:.8}…, not {reference.examples:.8}…)")
        if data.template != reference.template:
            task = standing.task
            template = task.template if task is not None and task.template else "the template"
            parts.append(f"another prompt ({one_line(template, 60)}, sha256 {data.template:.8}…)")
        parts = parts or ["another random sample"]
    return "; ".join(parts)


def _notes(standings: Sequence[Standing]) -> Iterator[str]:
    """Yield the notes about the results of a leaderboard, with the models that they are about if not about all."""
    records = [standing.entry.record for standing in standings]
    metrics = [score.metric for score in standings[0].scores]
    for note, indices in shared_notes(records, [standings[0].name], metrics).items():
        models = ", ".join(standings[index].entry.label for index in indices)
        yield note if len(indices) == len(standings) else f"{models}: {note}"


# ---- the rows of one leaderboard -------------------------------------------------------------------------------------


def _rows(standings: Sequence[Standing], metric: str, seed: int) -> list[BoardRow]:
    """Return the rows of one leaderboard: the runs with their ranks and the baselines, the best score first."""
    scores = [score for standing in standings for score in standing.scores if score.metric == metric]
    sign = 1 if all(score.higher_is_better for score in scores) else -1
    counts = Counter(standing.entry.label for standing in standings)
    rows = []
    for standing in standings:
        entry, task = standing.entry, standing.task
        identity = entry.record.identity
        rows.append(
            BoardRow(
                model=f"{entry.label} ({one_line(identity, 12)})" if counts[entry.label] > 1 else entry.label,
                kind="run",
                run=identity,
                page=entry.page,
                route=task.route if task is not None else "",
                conditions=conditions.described(task) if task is not None else "",
                same_as=_namesake(standing, standings),
                seeds=len(entry.runs),
                date=one_line(entry.record.started, 10).rstrip("…"),
                scores=standing.scores,
            )
        )
    _set_ranks(rows, standings, metric, sign, seed)
    rows += _baselines(standings)

    def order(row: BoardRow) -> tuple[bool, float]:
        score = row.score(metric)
        value = None if score is None else score.value
        return (value is None, 0.0 if value is None else -sign * value)

    return sorted(rows, key=order)


def _namesake(standing: Standing, standings: Sequence[Standing]) -> str:
    """Return the label of the first entry with the same model by another name; empty if there is none."""
    if standing.fingerprint is None:
        return ""
    first = next(each for each in standings if each.fingerprint == standing.fingerprint).entry
    return "" if first.record.model.name == standing.entry.record.model.name else first.label


def _baselines(standings: Sequence[Standing]) -> Iterator[BoardRow]:
    """Yield each baseline once; one that depends on the run's seed is repeated with its other scores."""
    baselines: dict[tuple[str, tuple[float | None, ...]], BaselineRecord] = {}
    for standing in standings:
        for baseline in standing.baselines:
            values = tuple(score.value for score in baseline.scores)
            baselines.setdefault((baseline.baseline, values), baseline)
    for baseline in baselines.values():
        yield BoardRow(model=one_line(baseline.baseline, 120), kind="baseline", scores=baseline.scores)


def _set_ranks(rows: Sequence[BoardRow], standings: Sequence[Standing], metric: str, sign: int, seed: int) -> None:
    """Set the ranks of the runs by their scores, and the confidence sets of those whose predictions are stored."""
    values: dict[int, float] = {}
    models: dict[Hashable, str] = {}
    for index, (row, standing) in enumerate(zip(rows, standings, strict=True)):
        score, task, result = row.score(metric), standing.task, _result(standing)
        if score is None or score.value is None:
            row.note = f"no {metric}"
        elif task is not None and task.only_label is not None:
            row.note = f"the right answer is {one_line(task.only_label, 60)} for every example; contrasts are ranked"
        elif score.seen is not None:
            row.note = "the model has seen some of these examples"
        elif result is not None and result in models:
            row.note = f"the same model with the same scores as {models[result]}"
        else:
            models[result] = row.model
            values[index] = sign * score.value
    ranks = _rank_by_tests([standings[index] for index in values], metric, seed) if len(values) > 1 else ""
    for number, (index, value) in enumerate(values.items()):
        row = rows[index]
        row.rank = 1 + sum(better > value for better in values.values())
        if isinstance(ranks, str):
            row.note = ranks
        else:
            row.best, row.worst = ranks[number].best, ranks[number].worst


def _result(standing: Standing) -> Hashable:
    """Return what two results have in common if one repeats the other, or None if the model is unknown."""
    if standing.fingerprint is None:
        return None
    task = standing.task
    setting = (task.route, conditions.described(task)) if task is not None else ()
    return (standing.fingerprint, setting, *((score.metric, score.value) for score in standing.scores))


def _rank_by_tests(standings: Sequence[Standing], metric: str, seed: int) -> dict[int, RankedRun] | str:
    """Return the tested ranks by the index of a run, or the reason why there are none."""
    first = standings[0]
    if first.task is None:
        return "a mean over tasks has no test" if first.kind == "suite" else "a contrast has no paired test"
    if not all(folder.has_predictions(each.name) for each in standings for _, folder in each.entry.runs):
        return "not all of these runs have stored predictions"
    if "compare" not in dir(figeval):
        return "figeval/wings/comparison, which tests ranks, is not installed"
    from figeval.wings.comparison.family import rank_runs

    stored_runs = [(standing.entry.record, standing.entry.runs) for standing in standings]
    try:
        ranks = rank_runs(stored_runs, first.name, metric, seed)
    except FigevalError as error:
        return one_line(str(error), 200)
    if not ranks or any(rank.best is None for rank in ranks):
        return f"no paired test of {metric} is possible for all pairs of these runs"
    return {rank.run: rank for rank in ranks}
