"""The content of a report on several runs: comparisons, calibration, positions, and the rows of the sample explorer.

The folder of several seeds counts as one run, whose scores are means. What has no mean is shown of each seed: answers,
breakdowns, calibration and positions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import figeval
from figeval import JSON, Harness, PredictionRow, RecordError, RunRecord, TaskRecord
from figeval.io.text import clean_json, one_line
from figeval.records import conditions
from figeval.records.run_folder import RunFolder
from figeval.records.sweep import run_or_seeds, whole_runs
from figeval.records.training import TrainingRecord, read_training
from figeval.runs.stored import with_breakdown
from figeval.wings.report.buckets import break_down_by_texts
from figeval.wings.report.example_texts import ExampleTexts, SampleTexts, is_retrieval
from figeval.wings.report.reliability import reliability

StoredRuns: TypeAlias = tuple[RunRecord, list[tuple[RunRecord, RunFolder]]]  # of `run_or_seeds`
MAX_REPLY_CHARS = 4_000
MAX_REASON_CHARS = 300  # of a notice
MAX_POSITIONS = 100
PAIRWISE = "pairwise"  # type of tasks whose right answers are votes for each option and for a tie
DECIMALS = 4  # of scores
AND_T = "“and t”: clusters differ in size, and a t-test must find the difference, too"
EXPLANATIONS = {  # by the beginning of a test's name
    "exact McNemar": "if neither run is better, each is equally likely to be the only one that gets an example right",
    "sign flip": f"p comes from flipping the signs of the clusters' summed differences; {AND_T}",
    "permutation": f"p comes from exchanging the two runs' answers to a cluster, for scores that are no means; {AND_T}",
    "t over": "a t-test whose variance covers other seeds as well as other examples",
}


class StoredTask(NamedTuple):
    """The record of a task in one run, and its rows by the id of the example."""

    task: TaskRecord
    rows: dict[str, PredictionRow]


@dataclass(slots=True)
class ReportContent:
    """Everything that a report shows beyond the records of the runs.

    Attributes:
        runs: records of the runs that are compared, then those of single seeds; their indices are the columns of
            tables.
        seeds: for a run that is the mean of several seeds, the indices of their runs.
        trainings: records of the trainings that models of these runs come from.
        comparisons: the first run against each of the others: indices `a` and `b`, `metric`, the `grid` and the `notes`
            of `figeval compare`, and as `changes` the examples on which the runs differ.
        tests: sentences that explain the tests of the comparisons.
        calibration: calibration per task and run, where the scores of options are or give probabilities, without
            trivial models and tasks in which one label is always right.
        positions: chosen and right options per position, by task and run.
        samples: per task the rows of all runs by column, with the texts of the examples.
        notices: sentences about what is missing, and about licences.
    """

    runs: list[RunRecord] = field(default_factory=list)
    seeds: dict[int, list[int]] = field(default_factory=dict)
    trainings: list[TrainingRecord] = field(default_factory=list)
    comparisons: list[JSON] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)
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
    metrics: Sequence[str] = (),
    by: Sequence[str] = (),
    seed: int = 0,
) -> ReportContent:
    """Collect the content of a report.

    Args:
        paths: folders of runs, of trainings (all their runs) or of several seeds.
        texts: reader of the example texts, or None to leave texts out.
        metrics: metrics of the comparisons, by default `acc`; the first that a task has judges its samples.
        by: columns of the examples for breakdowns, in addition to those that the runs have stored.
        seed: random seed of the sign-flip tests.

    Raises:
        RecordError: there is no run, its predictions have been changed, or no task has one of the columns.
    """
    run_paths = {run.resolve(): run for path in paths for run in whole_runs(path)}
    stored_runs = [run_or_seeds(path) for path in run_paths.values()]
    content, folders = content_of(stored_runs)
    folder_paths = (*paths, *(folder.path for folder in folders.values()))
    files = dict.fromkeys(file for path in folder_paths for file in _training_records(path))
    content.trainings = [read_training(file, RecordError) for file in files]
    for key in by:
        _break_down(content, folders, key)
    if len(stored_runs) > 1:
        _compare(content, stored_runs, metrics or [conditions.default_metric(content.compared)], seed)
    reasons: dict[str, list[str]] = {}
    for name in dict.fromkeys(task.task for record in content.runs for task in record.tasks_with_rows()):
        tasks = dict(_stored_tasks(content.runs, folders, name))
        _add_statistics(content, name, tasks)
        if reason := _add_samples(content, name, tasks, metrics or ["acc"], texts):
            reasons.setdefault(reason.replace(f" of {name}", ""), []).append(name)  # one reason, many tasks
    content.notices += (f"The texts of {', '.join(names)} are left out: {reason}." for reason, names in reasons.items())
    return content


def content_of(stored_runs: Sequence[StoredRuns]) -> tuple[ReportContent, dict[int, RunFolder]]:
    """Return content that has only the records of some runs and of their seeds, and the folder of each single run."""
    content = ReportContent(runs=[record for record, _ in stored_runs])
    folders: dict[int, RunFolder] = {}
    for index, (record, runs) in enumerate(stored_runs):
        if record is runs[0][0]:
            folders[index] = runs[0][1]
            continue
        content.seeds[index] = []
        for seed_record, folder in runs:
            content.seeds[index].append(len(content.runs))
            folders[len(content.runs)] = folder
            content.runs.append(seed_record)
    content.runs = conditions.with_scores_of_all(content.runs)
    return content, folders


# ---- folders ---------------------------------------------------------------------------------------------------------


def _training_records(path: Path) -> Iterator[Path]:
    """Yield the training record in a folder, or in the folder of the model whose runs it is one of."""
    run = path.resolve()
    for folder in (run, run.parent.parent):
        file = folder / "training" / "record.json"
        if file.is_file() and (folder == run or run.parent.name == "runs"):
            yield file


def _break_down(content: ReportContent, folders: Mapping[int, RunFolder], key: str) -> None:
    """Add the scores by one column to the records. Raises `RecordError` if no run has it."""
    metrics, problems = Harness().metrics, []
    for index, folder in folders.items():
        try:
            computed = with_breakdown(folder.path, key, metrics)
        except RecordError as error:
            problems.append(error)
            continue
        for task, computed_task in zip(content.runs[index].tasks, computed.tasks, strict=True):
            stored = [breakdown for breakdown in task.breakdowns if breakdown.by != key]
            task.breakdowns = stored + computed_task.breakdowns
    if len(problems) == len(folders):
        raise problems[0]


# ---- comparisons -----------------------------------------------------------------------------------------------------


def _compare(content: ReportContent, stored_runs: Sequence[StoredRuns], metrics: Sequence[str], seed: int) -> None:
    """Add the comparisons of the first run with each of the others; a notice says which are missing."""
    if "compare" not in dir(figeval):
        content.notices.append("The runs are not compared: figeval/wings/comparison is not installed.")
        return
    from figeval.wings.comparison.family import compare_with_first

    comparisons, problems = compare_with_first(stored_runs, metrics, seed)
    for comparison in comparisons:
        shown = figeval.Comparison(comparison.result)
        content.comparisons.append(
            {
                "a": 0,
                "b": comparison.run,
                "metric": shown.metric,
                "grid": shown.grids[0],
                "notes": list(shown.notes()),
                "changes": list(map(asdict, comparison.changes)),
            }
        )
    tests = (
        task.comparison.test
        for comparison in comparisons
        for pair in comparison.result.pairs.values()
        for task in pair.tasks
    )
    content.tests = list(_explain_tests(dict.fromkeys(tests)))
    labels = conditions.labels([record for record, _ in stored_runs])
    for run, reason in problems:
        text = one_line(reason, MAX_REASON_CHARS)
        content.notices.append(f"{labels[0]} and {labels[run]} are not compared: {text}.")


def _explain_tests(tests: Collection[str]) -> Iterator[str]:
    for beginning, text in EXPLANATIONS.items():
        if names := [test for test in tests if test.startswith(beginning)]:
            yield f"{', '.join(names)}: {text}"


# ---- one task --------------------------------------------------------------------------------------------------------


def _stored_tasks(
    runs: Sequence[RunRecord], folders: Mapping[int, RunFolder], name: str
) -> Iterator[tuple[int, StoredTask]]:
    """Yield the index of each run that has rows of a task, with its record of the task and the rows by id."""
    for index, folder in folders.items():
        task = next((task for task in runs[index].tasks if task.task == name), None)
        if task is not None and folder.has_predictions(name):
            yield index, StoredTask(task, {row["id"]: row for row in folder.rows(name)})


def _add_statistics(content: ReportContent, name: str, tasks: Mapping[int, StoredTask]) -> None:
    """Add calibration and positions of one task."""
    harness = Harness()
    for index, (task, rows) in tasks.items():
        is_trivial = content.runs[index].model.backend in _trivial_models(content.runs, task, harness)
        if task.only_label is None and not is_trivial and (calibration := _calibration(task, rows.values(), harness)):
            content.calibration.append({"task": name, "run": index, **calibration})
        if positions := _positions(rows.values()):
            content.positions.append({"task": name, "run": index, "positions": positions})


def _trivial_models(runs: Iterable[RunRecord], task: TaskRecord, harness: Harness) -> set[str]:
    """Return the models that the task, its type, or any task of the runs has as baselines."""
    recorded = {floor.baseline for run in runs for task in run.tasks for floor in task.baselines}
    is_known = task.task_type in harness.task_types
    return recorded | set(harness.task_types.get(task.task_type).default_baselines if is_known else ())


def _add_samples(
    content: ReportContent,
    name: str,
    tasks: Mapping[int, StoredTask],
    metrics: Sequence[str],
    reader: ExampleTexts | None,
) -> str:
    """Add the samples of one task. Return the reason why they have no texts, or an empty string."""
    if not tasks:
        content.notices.append(f"{name} has no stored predictions, so its samples are not shown.")
        return ""
    task = next(iter(tasks.values())).task
    if any(stored.task.examples_sha256 != task.examples_sha256 for stored in tasks.values()):
        content.notices.append(f"The runs were made on different examples of {name}, so its samples are not shown.")
        return ""
    ids = list(dict.fromkeys(key for stored in tasks.values() for key in stored.rows))
    seed = int(content.runs[next(iter(tasks))].config.get("seed", 0))
    texts = SampleTexts() if reader is None else reader.of(task, seed, ids, _retrieved_ids(tasks.values()))
    if texts.notice:
        content.notices.append(texts.notice)
    if texts.properties:
        harness = Harness()
        for record, rows in tasks.values():
            buckets = break_down_by_texts(record, rows, texts.properties, harness, seed)
            record.breakdowns = [*record.breakdowns, *buckets]
    rows_by_run = {index: stored.rows for index, stored in tasks.items()}
    retrieving = {index for index, stored in tasks.items() if is_retrieval(stored.task)}
    content.samples.append(_samples(task, ids, rows_by_run, retrieving, texts, metrics))
    return texts.missing


def _retrieved_ids(tasks: Iterable[StoredTask]) -> set[str]:
    """Return the ids of examples that rows name: those whose text is an answer, and those added to the input."""
    rows = [row for stored in tasks for row in stored.rows.values()]
    answers = {
        row["pred"]
        for stored in tasks
        if is_retrieval(stored.task)
        for row in stored.rows.values()
        if isinstance(row["pred"], str)
    }
    return answers.union(*(row.get("retrieved", ()) for row in rows))


def _samples(
    task: TaskRecord,
    ids: Sequence[str],
    runs: Mapping[int, Mapping[str, PredictionRow]],
    retrieving: Collection[int],
    texts: SampleTexts,
    metrics: Sequence[str],
) -> JSON:
    """Return the rows of all runs on a task, column by column; answers of `retrieving` runs are ids of examples."""
    first = {key: next(rows[key] for rows in runs.values() if key in rows) for key in ids}
    columns = dict.fromkeys(key for row in first.values() for key in row["meta"])
    means = dict.fromkeys(
        name for row in first.values() for name, value in row["metrics"].items() if not isinstance(value, list)
    )
    metric = next((name for name in (*metrics, *means) if name in means), "")
    votes: list[Any] = [row["gold"] if task.task_type == PAIRWISE else None for row in first.values()]
    content: JSON = {
        "task": task.task,
        "metric": metric,
        "binary": _is_binary(runs.values(), metric),
        "labels": task.settings.get("labels", []),
        "ids": ids,
        "gold": [
            row["gold"] if counts is None else _preferred(counts)
            for row, counts in zip(first.values(), votes, strict=True)
        ],
        "votes": votes if any(votes) else None,
        "meta": {key: [row["meta"].get(key) for row in first.values()] for key in columns},
        "fields": {name: [values.get(key) for key in ids] for name, values in texts.fields.items()},
        "lists": texts.lists,
        "options": texts.options,
        "passage": texts.passage,
        "retrieved": texts.retrieved,
        "spans": [texts.spans.get(key, []) for key in ids] if texts.spans else [],
        "kinds": _kinds(list(first.values())),
        "runs": [
            {"run": index, "retrieves": index in retrieving, **_answers([rows.get(key) for key in ids], metric)}
            for index, rows in runs.items()
        ],
    }
    return clean_json(content)


def _preferred(votes: Sequence[float]) -> int | None:
    """Return the index of the outcome with the most votes, or None if several have equally many."""
    return votes.index(max(votes)) if votes.count(max(votes)) == 1 else None


def _is_binary(runs: Iterable[Mapping[str, PredictionRow]], metric: str) -> bool:
    """Return whether answers are right or wrong by a metric, i.e. 1 or 0; only ties are in between."""
    values = ((row["metrics"].get(metric), row.get("tied")) for rows in runs for row in rows.values())
    return all(value in (0, 1, None) or tied != 1 for value, tied in values)


def _kinds(rows: Sequence[PredictionRow]) -> JSON:
    """Return the kinds of the options of each example by key of `option_meta`; empty for tasks that declare none."""
    kinds = [choice["kinds"] if (choice := row.get("choice")) else {} for row in rows]
    return {key: [each.get(key) for each in kinds] for key in dict.fromkeys(key for each in kinds for key in each)}


def _answers(rows: Sequence[PredictionRow | None], metric: str) -> JSON:
    """Return the columns of one run; optional columns that no row has are left out."""
    columns: JSON = {
        "status": [row and row["status"] for row in rows],
        "pred": [row and row["pred"] for row in rows],
        "value": [row and _short(row["metrics"].get(metric)) for row in rows],
    }
    optional: dict[str, list[Any]] = {
        "scores": [row and ([_short(score) for score in row.get("scores") or ()] or None) for row in rows],
        "reply": [_cut(str(row["raw"])) if row and row.get("raw") else None for row in rows],
        "samples": [row and ([_answer_of(sample) for sample in row.get("samples") or ()] or None) for row in rows],
        "error": [row and row.get("error") for row in rows],
        "retrieved": [row and (row.get("retrieved") or None) for row in rows],
        "spans": [row and ([p["pred"] for p in row.get("parts") or () if p["pred"]] or None) for row in rows],
    }
    return columns | {name: column for name, column in optional.items() if any(cell is not None for cell in column)}


def _answer_of(sample: Mapping[str, Any]) -> Any:
    answer = sample["pred"] if sample["status"] == "ok" else None
    return _cut(answer) if isinstance(answer, str) else answer


def _short(value: Any) -> Any:
    return round(value, DECIMALS) if isinstance(value, float) else None if isinstance(value, list) else value


def _cut(text: str) -> str:
    return text if len(text) <= MAX_REPLY_CHARS else f"{text[:MAX_REPLY_CHARS]} … ({len(text):,} characters)"


def _calibration(task: TaskRecord, rows: Iterable[PredictionRow], harness: Harness) -> JSON:
    """Return the calibration of a run on a task; empty if the scores of its options are not probabilities."""
    labels = list(task.settings.get("labels", ()))
    option_scores, gold, clusters = [], [], []
    answers: Iterator[tuple[PredictionRow, Any]] = (
        (row, answer) for row in rows for answer in row.get("samples") or [row]
    )
    for row, answer in answers:
        right, scores = row["gold"], answer.get("scores")
        index = labels.index(right) if isinstance(right, str) and right in labels else right
        if answer["status"] == "ok" and scores and type(index) is int and 0 <= index < len(scores):  # True is no index
            option_scores.append([float("nan") if score is None else float(score) for score in scores])
            gold.append(index)
            clusters.append(row["cluster"] or f"\0{row['id']}")  # the samples of an example are not independent
    kind = next((route.scores for route in harness.routes.of(task.task_type) if route.name == task.route), "")
    calibration = reliability(option_scores, gold, kind, clusters)
    return asdict(calibration) if calibration is not None else {}


def _positions(rows: Iterable[PredictionRow]) -> list[JSON]:
    """Return how often each position of the options was chosen, and how often it was right.

    With several orders or samples, each answer counts, at the position at which the option was shown.
    """
    chosen: dict[int, int] = {}
    right: dict[int, int] = {}
    positions = answered = 0
    for row in rows:
        gold = row["gold"]
        if not isinstance(gold, int) or not isinstance(row["pred"], int | None):
            continue
        samples: Sequence[Any] = row.get("samples") or [row]
        for answer in (answer for sample in samples for answer in sample.get("answers") or [sample]):
            pred, order = answer["pred"], answer.get("order")
            shown = order if isinstance(order, list) else range(MAX_POSITIONS)
            if not isinstance(pred, int) or pred not in shown or gold not in shown:
                continue
            of_pred, of_gold = shown.index(pred), shown.index(gold)
            chosen[of_pred] = chosen.get(of_pred, 0) + 1
            right[of_gold] = right.get(of_gold, 0) + 1
            positions, answered = max(positions, of_pred + 1, of_gold + 1), answered + 1
    return [
        {"position": position + 1, "chosen": chosen.get(position, 0), "right": right.get(position, 0), "n": answered}
        for position in range(positions)
    ]
