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
PART = "part of the examples"  # in words, where no flag says which


@dataclass(frozen=True, slots=True)
class BoardEntry:
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


class BoardResult(NamedTuple):
    """The result of one entry, before it is on a leaderboard; a suite or contrast has no task record.

    `members` are the tasks of a suite, whose notes are about its mean as well.
    """

    entry: BoardEntry
    name: str
    kind: Kind
    data: Data
    examples: int
    scores: list[ScoreRecord]
    baselines: list[BaselineRecord]
    task: TaskRecord | None = None
    members: Sequence[str] = ()

    @property
    def portion(self) -> str:
        """The flags by which only part of the examples was used; empty if all were."""
        return (conditions.portion(self.entry.record.config) or PART) if self.data.portion else ""

    @property
    def fingerprint(self) -> str | None:
        """Fingerprint of the model, which changes whenever an answer could change, or None if it is unknown."""
        return self.entry.record.model.fingerprint or None


def leaderboards(results: Sequence[BoardResult], owners: Mapping[str, str], seed: int) -> Iterator[Leaderboard]:
    """Yield the leaderboards of one task, contrast or suite, that of all examples and most runs first.

    Args:
        results: its results in all entries.
        owners: benchmark of each installed task and suite.
        seed: random seed of the sign-flip tests.
    """
    groups: dict[tuple[Data, str], list[BoardResult]] = {}
    for result in _share_prompts(results):
        sample = result.task.sample_sha256 if result.task is not None else ""
        groups.setdefault((result.data, sample or ""), []).append(result)
    ordered = sorted(groups.values(), key=_importance, reverse=True)
    first = ordered[0][0]
    for index, group in enumerate(ordered):
        result = group[0]
        distinction = "" if index == 0 and not first.data.portion else _distinction(result, first if index else None)
        metric = result.scores[0].metric
        yield Leaderboard(
            name=first.name,
            kind=first.kind,
            benchmark=_benchmark(first, owners),
            metric=metric,
            apart=distinction,
            portion=result.portion,
            only_label=(result.task.only_label if result.task is not None else None) or "",
            examples=result.examples,
            examples_sha256=result.data.examples,
            rows=_rows(group, metric, seed),
            notes=list(_notes(group)),
        )


def _share_prompts(results: Sequence[BoardResult]) -> Iterator[BoardResult]:
    """Yield the results; those with the most frequent prompt are on one leaderboard with those without a prompt."""
    by_data: dict[Data, list[BoardResult]] = {}
    for result in results:
        by_data.setdefault(result.data._replace(template=""), []).append(result)
    for group in by_data.values():
        counts = Counter(result.data.template for result in group if result.data.template)
        common = counts.most_common(1)[0][0] if counts else ""
        for result in group:
            is_common = result.data.template == common
            yield result._replace(data=result.data._replace(template="")) if is_common else result


def _importance(group: Sequence[BoardResult]) -> tuple[object, ...]:
    first = group[0]
    return (not first.data.portion, first.data[1:3], len(group), first.examples, first.entry.record.started)


def _benchmark(result: BoardResult, owners: Mapping[str, str]) -> str:
    task = result.task
    name = task.of or result.name if task is not None else result.name.partition(":")[0]
    return owners.get(name, OTHER_BENCHMARK)


def _distinction(result: BoardResult, first: BoardResult | None) -> str:
    """Return what distinguishes the data of a result from that of the first leaderboard, in words."""
    data = result.data
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
            task = result.task
            template = task.template if task is not None and task.template else "the template"
            parts.append(f"another prompt ({one_line(template, 60)}, sha256 {data.template:.8}…)")
        parts = parts or ["another random sample"]
    return "; ".join(parts)


def _notes(results: Sequence[BoardResult]) -> Iterator[str]:
    """Yield the notes about the results of a leaderboard, with the models that they are about if not about all."""
    records = [result.entry.record for result in results]
    metrics = [score.metric for score in results[0].scores]
    names = dict.fromkeys(name for result in results for name in (result.name, *result.members))
    for note, indices in shared_notes(records, list(names), metrics).items():
        models = ", ".join(results[index].entry.label for index in indices)
        yield note if len(indices) == len(results) else f"{models}: {note}"


# ---- the rows of one leaderboard -------------------------------------------------------------------------------------


def _rows(results: Sequence[BoardResult], metric: str, seed: int) -> list[BoardRow]:
    """Return the rows of one leaderboard: the runs with their ranks and the baselines, the best score first."""
    scores = [score for result in results for score in result.scores if score.metric == metric]
    sign = 1 if all(score.higher_is_better for score in scores) else -1
    counts = Counter(result.entry.label for result in results)
    rows = []
    for result in results:
        entry, task = result.entry, result.task
        identity = entry.record.identity
        rows.append(
            BoardRow(
                model=f"{entry.label} ({one_line(identity, 12)})" if counts[entry.label] > 1 else entry.label,
                kind="run",
                run=identity,
                page=entry.page,
                route=task.route if task is not None else "",
                conditions=conditions.describe_conditions(task) if task is not None else "",
                same_as=_namesake(result, results),
                seeds=len(entry.runs),
                date=one_line(entry.record.started, 10).rstrip("…"),
                scores=result.scores,
            )
        )
    _set_ranks(rows, results, metric, sign, seed)
    rows += _baselines(results)

    def order(row: BoardRow) -> tuple[bool, float]:
        score = row.score(metric)
        value = None if score is None else score.value
        return (value is None, 0.0 if value is None else -sign * value)

    return sorted(rows, key=order)


def _namesake(result: BoardResult, results: Sequence[BoardResult]) -> str:
    """Return the label of the first entry with the same model by another name; empty if there is none."""
    if result.fingerprint is None:
        return ""
    first = next(each for each in results if each.fingerprint == result.fingerprint).entry
    return "" if first.record.model.name == result.entry.record.model.name else first.label


def _baselines(results: Sequence[BoardResult]) -> Iterator[BoardRow]:
    """Yield each baseline once, but not a trivial model that is on the leaderboard as a run.

    Floors of a model (`minilm on no_query`) with other scores are those of other runs of it, and are all shown.
    """
    models = {result.entry.record.model.backend for result in results}
    baselines: dict[Hashable, tuple[BaselineRecord, str]] = {}
    for result in results:
        model = result.entry.record.model.name
        for baseline in result.baselines:
            is_floor = baseline.baseline.startswith(f"{model} on ")
            values = tuple(score.value for score in baseline.scores) if is_floor else ()
            if is_floor or baseline.baseline not in models:
                baselines.setdefault((baseline.baseline, values), (baseline, model if is_floor else ""))
    for baseline, model in baselines.values():
        name = one_line(baseline.baseline, 120)
        yield BoardRow(model=name, kind="baseline", floor_of=one_line(model, 120), scores=baseline.scores)


def _set_ranks(rows: Sequence[BoardRow], results: Sequence[BoardResult], metric: str, sign: int, seed: int) -> None:
    """Set the ranks of the runs by their scores, and the confidence sets of those whose predictions are stored."""
    values: dict[int, float] = {}
    models: dict[Hashable, str] = {}
    for index, (row, result) in enumerate(zip(rows, results, strict=True)):
        score, task, key = row.score(metric), result.task, _content(result)
        if score is None or score.value is None:
            row.note = f"no {metric}"
        elif task is not None and task.only_label is not None:
            row.note = f"the right answer is {one_line(task.only_label, 60)} for every example; contrasts are ranked"
        elif score.seen is not None:
            row.note = "the model has seen some of these examples"
        elif key is not None and key in models:
            row.note = f"the same model with the same scores as {models[key]}"
        else:
            models[key] = row.model
            values[index] = sign * score.value
    ranks = _rank_by_tests([results[index] for index in values], metric, seed) if len(values) > 1 else ""
    for number, (index, value) in enumerate(values.items()):
        row = rows[index]
        row.rank = 1 + sum(better > value for better in values.values())
        if isinstance(ranks, str):
            row.note = ranks
        else:
            row.best, row.worst = ranks[number].best, ranks[number].worst


def _content(result: BoardResult) -> Hashable:
    """Return what two results have in common if one repeats the other, or None if the model is unknown."""
    if result.fingerprint is None:
        return None
    task = result.task
    setting = (task.route, conditions.describe_conditions(task)) if task is not None else ()
    return (result.fingerprint, setting, *((score.metric, score.value) for score in result.scores))


def _rank_by_tests(results: Sequence[BoardResult], metric: str, seed: int) -> dict[int, RankedRun] | str:
    """Return the tested ranks by the index of a run, or the reason why there are none."""
    first = results[0]
    if first.task is None:
        return "a mean over tasks has no test" if first.kind == "suite" else "a contrast has no paired test"
    if not all(folder.has_predictions(each.name) for each in results for _, folder in each.entry.runs):
        return "not all of these runs have stored predictions"
    if "compare" not in dir(figeval):
        return "figeval/wings/comparison, which tests ranks, is not installed"
    from figeval.wings.comparison.family import rank_runs

    stored_runs = [(result.entry.record, result.entry.runs) for result in results]
    try:
        ranks = rank_runs(stored_runs, first.name, metric, seed)
    except FigevalError as error:
        return one_line(str(error), 200)
    if not ranks or any(rank.best is None for rank in ranks):
        return f"no paired test of {metric} is possible for all pairs of these runs"
    return {rank.run: rank for rank in ranks}
