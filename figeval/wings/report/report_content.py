"""The content of a report on several runs: comparisons, calibration, positions, and the rows of the sample explorer.

The folder of several seeds counts as one run, whose scores are means. What has no mean is shown of each seed: answers,
breakdowns, calibration and positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from figeval.errors import RecordError
from figeval.io.text import cleaned, one_line
from figeval.records import conditions
from figeval.records.predictions import PredictionRow, answers_of
from figeval.records.run_folder import RunFolder
from figeval.records.schema import RunRecord, TaskRecord
from figeval.records.sweep import whole_runs
from figeval.records.training import TrainingRecord, read_training
from figeval.runs.harness import Harness
from figeval.runs.stored import with_breakdown
from figeval.task_types.registry import Routes
from figeval.types import JSON
from figeval.wings.comparison.sides import Side
from figeval.wings.report.buckets import bucketed
from figeval.wings.report.reliability import reliability
from figeval.wings.report.report_comparisons import ComparedRuns, compare_with_first
from figeval.wings.report.report_texts import ExampleTexts, TaskTexts

LONGEST_REPLY = 4_000  # characters of a model's text
LONGEST_REASON = 300  # of a notice
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
        runs: records of the runs that are compared, then those of single seeds; their places are the columns of tables.
        seeds: for a run that is the mean of several seeds, the places of their runs.
        trainings: records of the trainings that models of these runs come from.
        comparisons: the first run against each of the others.
        calibration: calibration per task and run, where the scores of options are or give probabilities.
        positions: chosen and right options per position, by task and run.
        samples: per task the rows of all runs by column, with the texts of the examples.
        notices: sentences about what is missing, and about licences.
    """

    runs: list[RunRecord] = field(default_factory=list)
    seeds: dict[int, list[int]] = field(default_factory=dict)
    trainings: list[TrainingRecord] = field(default_factory=list)
    comparisons: list[ComparedRuns] = field(default_factory=list)
    calibration: list[JSON] = field(default_factory=list)
    positions: list[JSON] = field(default_factory=list)
    samples: list[JSON] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    @property
    def compared(self) -> list[RunRecord]:
        """Records of the runs that are compared, in which several seeds count as one."""
        return self.runs[: len(self.runs) - sum(map(len, self.seeds.values()))]


def report_content(
    paths: Sequence[Path],
    texts: ExampleTexts | None,
    *,
    metrics: Sequence[str] = ("acc",),
    by: Sequence[str] = (),
    seed: int = 0,
) -> ReportContent:
    """Collect the content of a report.

    Args:
        paths: folders of runs, of trainings (all their runs) or of several seeds.
        texts: reader of the example texts, or None to leave texts out.
        metrics: metrics of the comparisons; the first that a task has judges its samples.
        by: columns of the examples for breakdowns, in addition to those that the runs have stored.
        seed: random seed of the sign-flip tests.

    Raises:
        RecordError: there is no run, its predictions have been changed, or no task has one of the columns.
    """
    whole = {one.resolve(): one for path in paths for one in whole_runs(path)}
    sides = [Side.at(place) for place in whole.values()]
    found, folders = content_of(sides)
    places = (*paths, *(folder.path for folder in folders.values()))
    files = dict.fromkeys(file for place in places for file in _training_records(place))
    found.trainings = [read_training(file, RecordError) for file in files]
    for key in by:
        _break_down(found, folders, key)
    if len(sides) > 1:
        found.comparisons, problems = compare_with_first(sides, metrics, seed)
        labels = conditions.labels([side.record for side in sides])
        found.notices += (
            f"{labels[0]} and {labels[place]} are not compared: {one_line(why, LONGEST_REASON)}."
            for place, why in problems
        )
    names = dict.fromkeys(task.task for record in found.runs for task in record.tasks_with_rows())
    missing: dict[str, list[str]] = {}
    for name in names:
        own = dict(_rows(found.runs, folders, name))
        _add_statistics(found, name, own)
        if why := _add_samples(found, name, own, metrics, texts):
            missing.setdefault(why.replace(f" of {name}", ""), []).append(name)  # one reason, many tasks
    found.notices += (f"The texts of {', '.join(tasks)} are left out: {why}." for why, tasks in missing.items())
    return found


def content_of(sides: Sequence[Side]) -> tuple[ReportContent, dict[int, RunFolder]]:
    """Return content that has only the records of some runs and of their seeds, and the folder of each single run."""
    found = ReportContent(runs=[side.record for side in sides])
    folders: dict[int, RunFolder] = {}
    for place, side in enumerate(sides):
        if side.record is side.runs[0][0]:
            folders[place] = side.folder
            continue
        found.seeds[place] = []
        for record, folder in side.runs:
            found.seeds[place].append(len(found.runs))
            folders[len(found.runs)] = folder
            found.runs.append(record)
    return found, folders


# ---- folders ---------------------------------------------------------------------------------------------------------


def _training_records(path: Path) -> Iterator[Path]:
    """Yield the training record in a folder, or in the folder of the model whose runs it is one of."""
    own = path.resolve()
    for folder in (own, own.parent.parent):
        file = folder / "training" / "record.json"
        if file.is_file() and (folder == own or own.parent.name == "runs"):
            yield file


def _break_down(found: ReportContent, folders: Mapping[int, RunFolder], key: str) -> None:
    """Add the scores by one column to the records. Raises `RecordError` if no run has it."""
    metrics, problems = Harness().metrics, []
    for place, folder in folders.items():
        try:
            computed = with_breakdown(folder.path, key, metrics)
        except RecordError as error:
            problems.append(error)
            continue
        for task, own in zip(found.runs[place].tasks, computed.tasks, strict=True):
            task.breakdowns = [one for one in task.breakdowns if one.by != key] + own.breakdowns
    if len(problems) == len(folders):
        raise problems[0]


# ---- one task --------------------------------------------------------------------------------------------------------


def _rows(runs: Sequence[RunRecord], folders: Mapping[int, RunFolder], name: str) -> Iterator[tuple[int, OwnRows]]:
    """Yield the place of each run that has rows of a task, with its record of the task and the rows by id."""
    for place, folder in folders.items():
        task = next((one for one in runs[place].tasks if one.task == name), None)
        if task is not None and folder.has_predictions(name):
            yield place, OwnRows(task, {row["id"]: row for row in folder.rows(name)})


def _add_statistics(found: ReportContent, name: str, own: Mapping[int, OwnRows]) -> None:
    """Add calibration and positions of one task."""
    routes = Harness().routes
    for place, (task, rows) in own.items():
        if calibrated := _calibration(task, rows.values(), routes):
            found.calibration.append({"task": name, "run": place, **calibrated})
        if positions := _positions(rows.values()):
            found.positions.append({"task": name, "run": place, "positions": positions})


def _add_samples(
    found: ReportContent, name: str, own: Mapping[int, OwnRows], metrics: Sequence[str], texts: ExampleTexts | None
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
        installed = Harness().metrics
        for one, rows in own.values():
            one.breakdowns = [*one.breakdowns, *bucketed(one, rows, shown.measured, installed, seed)]
    found.samples.append(_samples(task, ids, {place: rows for place, (_, rows) in own.items()}, shown, metrics))
    return shown.missing


def _samples(
    task: TaskRecord,
    ids: Sequence[str],
    runs: Mapping[int, Mapping[str, PredictionRow]],
    shown: TaskTexts,
    metrics: Sequence[str],
) -> JSON:
    """Return the rows of all runs on a task, column by column, which compresses well."""
    first = {key: next(rows[key] for rows in runs.values() if key in rows) for key in ids}
    columns = dict.fromkeys(key for row in first.values() for key in row["meta"])
    known = dict.fromkeys(
        name for row in first.values() for name, one in row["metrics"].items() if not isinstance(one, list)
    )
    judged = next((one for one in (*metrics, *known) if one in known), "")
    content: JSON = {
        "task": task.task,
        "metric": judged,
        "binary": _is_binary(runs.values(), judged),
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


def _is_binary(runs: Iterable[Mapping[str, PredictionRow]], metric: str) -> bool:
    """Return whether answers are right or wrong by a metric, i.e. 1 or 0; only ties are in between."""
    values = ((row["metrics"].get(metric), row.get("tied")) for rows in runs for row in rows.values())
    return all(value in (0, 1, None) or tied != 1 for value, tied in values)


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


def _calibration(task: TaskRecord, rows: Iterable[PredictionRow], routes: Routes) -> JSON:
    """Return the calibration of a run on a task; empty if the scores of its options are not probabilities."""
    labels = list(task.settings.get("labels", ()))
    scores, gold = [], []
    for row in rows:
        right, own = row["gold"], row.get("scores")
        place = labels.index(right) if isinstance(right, str) and right in labels else right
        if row["status"] == "ok" and own and type(place) is int and 0 <= place < len(own):  # True is no index
            scores.append([float("nan") if one is None else float(one) for one in own])
            gold.append(place)
    kind = next((route.scores for route in routes.of(task.task_type) if route.name == task.route), "")
    calibration = reliability(scores, gold, kind)
    return asdict(calibration) if calibration is not None else {}


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
