"""The content of a report on several runs: comparisons, calibration, positions, and the rows of the sample explorer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from figeval.errors import RecordError
from figeval.evaluation.buckets import bucketed
from figeval.evaluation.compare import RunComparison, compare_sides
from figeval.evaluation.comparisons import corrected
from figeval.evaluation.harness import Harness
from figeval.evaluation.report_texts import ExampleTexts, TaskTexts
from figeval.evaluation.sides import Side
from figeval.evaluation.stored import with_breakdown
from figeval.jsonfile import read_json
from figeval.metrics.reliability import reliability
from figeval.records.predictions import PredictionRow, answers_of
from figeval.records.run_folder import RunFolder, read_run
from figeval.records.schema import RunRecord, TaskRecord
from figeval.records.sweep import run_folders
from figeval.text import cleaned
from figeval.types import JSON

LONGEST_REPLY = 4_000  # characters of a model's text
MOST_POSITIONS = 100
FINEST = 4  # decimals of scores


class OwnRows(NamedTuple):
    """The record of a task in one run, and its rows by the id of the example."""

    task: TaskRecord
    rows: dict[str, PredictionRow]


@dataclass(slots=True)
class ReportContent:
    """Everything that a report shows beyond the records of the runs.

    Attributes:
        runs: records of the runs, in the order of the columns.
        trainings: records of the trainings that models of these runs come from.
        comparisons: the first run against each of the others, as JSON.
        family: number of tests over which the p-values of all comparisons were corrected.
        calibration: calibration per task and run, where the scores of options are or give probabilities.
        positions: chosen and right options per position, by task and run.
        samples: per task the rows of all runs by column, with the texts of the examples.
        notices: sentences about what is missing, and about licences.
    """

    runs: list[RunRecord] = field(default_factory=list)
    trainings: list[JSON] = field(default_factory=list)
    comparisons: list[JSON] = field(default_factory=list)
    family: int = 0
    calibration: list[JSON] = field(default_factory=list)
    positions: list[JSON] = field(default_factory=list)
    samples: list[JSON] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def report_content(
    paths: Sequence[Path],
    texts: ExampleTexts | None,
    *,
    metric: str = "acc",
    by: Sequence[str] = (),
    seed: int = 0,
) -> ReportContent:
    """Collect the content of a report.

    Args:
        paths: folders of runs, of trainings (all their runs) or of several seeds (all their runs).
        texts: reader of the example texts, or None to leave texts out.
        metric: metric of the comparisons, which must be a mean over examples.
        by: columns of the examples for breakdowns, in addition to those that the runs have stored.
        seed: random seed of the sign-flip tests.

    Raises:
        RecordError: there is no run, its predictions have been changed, or no task has one of the columns.
    """
    places = list({one.resolve(): one for path in paths for one in run_folders(path)}.values())
    opened = [read_run(place) for place in places]
    found = ReportContent(runs=[record for record, _ in opened])
    folders = [folder for _, folder in opened]
    files = dict.fromkeys(file for place in (*paths, *places) for file in _training_records(place))
    found.trainings = [cleaned(read_json(file, RecordError)) for file in files]
    for key in by:
        _break_down(found, places, key)
    if len(places) > 1:
        _compare(found, places, metric, seed)
    names = dict.fromkeys(task.task for record in found.runs for task in record.tasks_with_rows())
    missing: dict[str, list[str]] = {}
    for name in names:
        own = {place: rows for place, rows in enumerate(_rows(found.runs, folders, name)) if rows is not None}
        _add_statistics(found, name, own, metric)
        if why := _add_samples(found, name, own, metric, texts):
            missing.setdefault(why, []).append(name)
    found.notices += (f"The texts of {', '.join(tasks)} are left out: {why}." for why, tasks in missing.items())
    return found


# ---- folders ---------------------------------------------------------------------------------------------------------


def _training_records(path: Path) -> Iterator[Path]:
    """Yield the training record in a folder, or in the folder of the model whose runs it is one of."""
    own = path.resolve()
    for folder in (own, own.parent.parent):
        file = folder / "training" / "record.json"
        if file.is_file() and (folder == own or own.parent.name == "runs"):
            yield file


def _break_down(found: ReportContent, places: Sequence[Path], key: str) -> None:
    """Add the scores by one column to the records. Raises `RecordError` if no run has it."""
    metrics, problems = Harness().metrics, []
    for record, place in zip(found.runs, places, strict=True):
        try:
            computed = with_breakdown(place, key, metrics)
        except RecordError as error:
            problems.append(error)
            continue
        for task, own in zip(record.tasks, computed.tasks, strict=True):
            task.breakdowns = [one for one in task.breakdowns if one.by != key] + own.breakdowns
    if len(problems) == len(places):
        raise problems[0]


# ---- comparisons -----------------------------------------------------------------------------------------------------


def _compare(found: ReportContent, places: Sequence[Path], metric: str, seed: int) -> None:
    """Add the comparisons of the first run with the others; p-values are corrected over the tests of all of them."""
    first, results = Side.at(places[0]), dict[tuple[int, int], RunComparison]()
    for place in range(1, len(places)):
        try:
            results[0, place] = compare_sides(first, Side.at(places[place]), metric, seed)
        except RecordError as error:
            found.notices.append(f"Runs 1 and {place + 1} are not compared: {error}.")
    for (_, place), result in corrected(results, "holm").items():
        found.family += sum(one.p_adjusted is not None for one in result.tasks)
        rows = map(asdict, result.tasks)
        tasks = [{**row.pop("comparison"), **row, "changes": None} for row in rows]
        about = {"a": 0, "b": place, "metric": metric, "left_out": dict(result.left_out)}
        found.comparisons.append({**about, "tasks": tasks})


def _changes(a: Mapping[str, PredictionRow], b: Mapping[str, PredictionRow], metric: str) -> JSON:
    """Return the ids of the examples on which A or B has the higher value, and the number of those where both agree.

    Examples are counted as in the comparison: both runs have a value, and no model has seen them.
    """
    pairs: dict[str, tuple[float, float]] = {}
    for name, row in a.items():
        other = b.get(name)
        if other is None or row.get("seen") or other.get("seen"):
            continue
        first, second = row["metrics"].get(metric), other["metrics"].get(metric)
        if isinstance(first, int | float) and isinstance(second, int | float):
            pairs[name] = first, second
    return {
        "a_higher": [name for name, (first, second) in pairs.items() if first > second],
        "b_higher": [name for name, (first, second) in pairs.items() if first < second],
        "both_right": sum(values == (1, 1) for values in pairs.values()),
        "both_wrong": sum(values == (0, 0) for values in pairs.values()),
        "n": len(pairs),
        "is_binary": all(value in (0, 1) for values in pairs.values() for value in values),
    }


# ---- one task --------------------------------------------------------------------------------------------------------


def _rows(runs: Sequence[RunRecord], folders: Sequence[RunFolder], name: str) -> Iterator[OwnRows | None]:
    """Yield the record of a task and its rows by id for each run, or None for a run without them."""
    for record, folder in zip(runs, folders, strict=True):
        task = next((one for one in record.tasks if one.task == name), None)
        has_rows = task is not None and folder.has_predictions(name)
        yield OwnRows(task, {row["id"]: row for row in folder.rows(name)}) if task is not None and has_rows else None


def _add_statistics(found: ReportContent, name: str, own: Mapping[int, OwnRows], metric: str) -> None:
    """Add calibration and positions of one task, and the examples on which compared runs differ."""
    for place, (task, rows) in own.items():
        if calibrated := _calibration(task, rows.values()):
            found.calibration.append({"task": name, "run": place, **calibrated})
        if positions := _positions(rows.values()):
            found.positions.append({"task": name, "run": place, "positions": positions})
    for pair in found.comparisons:
        for one in pair["tasks"]:
            if one["task"] == name:
                one["changes"] = _changes(own[pair["a"]].rows, own[pair["b"]].rows, metric)


def _add_samples(
    found: ReportContent, name: str, own: Mapping[int, OwnRows], metric: str, texts: ExampleTexts | None
) -> str:
    """Add the samples of one task. Return the reason why they have no texts, or an empty string."""
    if not own:
        found.notices.append(f"{name} has no stored predictions, so its samples are not shown.")
        return ""
    (task, _), *others = own.values()
    if any(other.examples_sha256 != task.examples_sha256 for other, _ in others):
        found.notices.append(f"The runs were made on different examples of {name}, so its samples are not shown.")
        return ""
    ids = list(dict.fromkeys(key for _, rows in own.values() for key in rows))
    seed = int(found.runs[next(iter(own))].config.get("seed", 0))
    shown = TaskTexts() if texts is None else texts.of(task, seed, ids)
    if shown.notice:
        found.notices.append(shown.notice)
    if shown.measured:
        metrics = Harness().metrics
        for one, rows in own.values():
            one.breakdowns = [*one.breakdowns, *bucketed(one, rows, shown.measured, metrics, seed)]
    found.samples.append(_samples(task, ids, {place: rows for place, (_, rows) in own.items()}, shown, metric))
    return shown.missing


def _samples(
    task: TaskRecord, ids: Sequence[str], runs: Mapping[int, Mapping[str, PredictionRow]], shown: TaskTexts, metric: str
) -> JSON:
    """Return the rows of all runs on a task, column by column, which compresses well."""
    first = {key: next(rows[key] for rows in runs.values() if key in rows) for key in ids}
    columns = dict.fromkeys(key for row in first.values() for key in row["meta"])
    known = dict.fromkeys(
        name for row in first.values() for name, one in row["metrics"].items() if not isinstance(one, list)
    )
    judged = metric if metric in known else next(iter(known), "")
    content: JSON = {
        "task": task.task,
        "metric": judged,
        "labels": task.settings.get("labels", []),
        "ids": ids,
        "gold": [row["gold"] for row in first.values()],
        "meta": {key: [row["meta"].get(key) for row in first.values()] for key in columns},
        "fields": {name: [values.get(key) for key in ids] for name, values in shown.fields.items()},
        "lists": shown.lists,
        "options": shown.options,
        "passage": shown.passage,
        "spans": [shown.spans.get(key, []) for key in ids] if shown.spans else [],
        "kinds": _kinds(list(first.values())),
        "runs": [{"run": place, **_answers([rows.get(key) for key in ids], judged)} for place, rows in runs.items()],
    }
    return cleaned(content)


def _kinds(rows: Sequence[PredictionRow]) -> JSON:
    """Return the kinds of the options of each example by key of `option_meta`; empty for tasks that declare none."""
    made = [choice["kinds"] if (choice := row.get("choice")) else {} for row in rows]
    return {key: [kinds.get(key) for kinds in made] for key in dict.fromkeys(key for kinds in made for key in kinds)}


def _answers(rows: Sequence[PredictionRow | None], metric: str) -> JSON:
    """Return the columns of one run; columns that no row has are left out."""
    scores = [None if row is None else [_short(one) for one in row.get("scores") or ()] or None for row in rows]
    replies = [None if row is None or not row.get("raw") else _cut(str(row.get("raw"))) for row in rows]
    errors = [None if row is None else row.get("error") for row in rows]
    found: JSON = {
        "status": [None if row is None else row["status"] for row in rows],
        "pred": [None if row is None else row["pred"] for row in rows],
        "value": [None if row is None else _short(row["metrics"].get(metric)) for row in rows],
    }
    parts = [
        None if row is None else [one["pred"] for one in row.get("parts") or () if one["pred"]] or None for row in rows
    ]
    more: dict[str, list[Any]] = {"scores": scores, "reply": replies, "error": errors, "spans": parts}
    return found | {name: column for name, column in more.items() if any(one is not None for one in column)}


def _short(value: Any) -> Any:
    return round(value, FINEST) if isinstance(value, float) else None if isinstance(value, list) else value


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_REPLY else f"{text[:LONGEST_REPLY]} … ({len(text):,} characters)"


def _calibration(task: TaskRecord, rows: Iterable[PredictionRow]) -> JSON:
    """Return the calibration of a run on a task; empty if the scores of its options are not probabilities."""
    labels = list(task.settings.get("labels", ()))
    scores, gold = [], []
    for row in rows:
        right, own = row["gold"], row.get("scores")
        place = labels.index(right) if isinstance(right, str) and right in labels else right
        if row["status"] == "ok" and own and type(place) is int and 0 <= place < len(own):  # True is no index
            scores.append([float("nan") if one is None else float(one) for one in own])
            gold.append(place)
    found = reliability(scores, gold)
    return asdict(found) if found is not None else {}


def _positions(rows: Iterable[PredictionRow]) -> list[JSON]:
    """Return how often each position of the options was chosen, and how often it was right.

    With several orders, each answer counts at the position at which the option was shown.
    """
    chosen: dict[int, int] = {}
    right: dict[int, int] = {}
    widest = answered = 0
    for row in rows:
        gold = row["gold"]
        if not isinstance(gold, int) or not isinstance(row["pred"], int | None):
            continue
        for answer in answers_of(row):
            pred, order = answer["pred"], answer.get("order")
            shown = order if isinstance(order, list) else range(MOST_POSITIONS)
            if not isinstance(pred, int) or pred not in shown or gold not in shown:
                continue
            first, second = shown.index(pred), shown.index(gold)
            chosen[first] = chosen.get(first, 0) + 1
            right[second] = right.get(second, 0) + 1
            widest, answered = max(widest, first + 1, second + 1), answered + 1
    return [
        {"position": place + 1, "chosen": chosen.get(place, 0), "right": right.get(place, 0), "n": answered}
        for place in range(widest)
    ]
