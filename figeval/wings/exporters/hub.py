"""YAML for model repositories on the Hugging Face Hub: `model-index` for model cards, and `.eval_results/*.yaml`.

The Hub shows the first as a table on the page of the model. The second adds scores to the leaderboard of a benchmark,
so it needs the hub id of that benchmark's data set; figeval's tasks have none of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml

from figeval import OptionError, RecordError, RunRecord
from figeval.io.text import clean_json, one_line
from figeval.records.schema import SEEN_NOTES
from figeval.wings.exporters.score_entries import (
    HUB_ID,
    ScoreEntry,
    developer_and_name,
    file_name,
    parse_time,
    score_entries,
    unique_name,
)

if TYPE_CHECKING:
    from figeval import StoredRun

KINDS = {  # task type → the Hub's name for such tasks
    "choice": "multiple-choice",
    "pairs": "text-classification",
    "ranking": "text-ranking",
    "spans": "question-answering",
    "similarity": "sentence-similarity",
    "generation": "text-generation",
}
METRICS = {"acc": "accuracy", "macro_f1": "f1"}  # → the Hub's name


def model_index(runs: Sequence[RunRecord], *, dataset_id: str = "") -> str:
    """Return the `model-index` of a model card, with an entry per model.

    `dataset_id` is the data set on the Hub that has the tasks' data; by default, each task stands for itself.
    """
    from huggingface_hub import EvalResult, ModelCardData

    results: dict[str, list[Any]] = {}
    for run in runs:
        for metric_score in score_entries(run):
            task = metric_score.task
            eval_result = EvalResult(
                task_type=KINDS.get("" if task is None else task.task_type, "other"),
                dataset_type=one_line(dataset_id) or metric_score.name,
                dataset_name=metric_score.name,
                dataset_config=metric_score.name,
                dataset_split="test" if task is None else str(task.settings.get("split", "test")),
                dataset_args=None if task is None else {"version": task.version, "examples": task.n},
                metric_type=METRICS.get(metric_score.metric, metric_score.metric),
                metric_name=metric_score.metric,
                metric_value=metric_score.value,
                metric_args=_uncertainty(metric_score),
            )
            results.setdefault(one_line(run.model.name), []).append(eval_result)
    index = [
        model
        for name, model_results in results.items()
        for model in ModelCardData(model_name=name, eval_results=model_results).to_dict()["model-index"]
    ]
    return _yaml({"model-index": index})


def _uncertainty(metric_score: ScoreEntry) -> dict[str, Any]:
    score = metric_score.score
    values: dict[str, Any] = {"stderr": score.stderr, "ci_lower": score.low, "ci_upper": score.high, "n": score.n}
    values |= {"interval": str(score.interval), "notes": "; ".join(metric_score.notes) or None}
    return {name: value for name, value in values.items() if value is not None}


def eval_results(
    runs: Sequence[RunRecord],
    *,
    stored: Sequence[StoredRun] = (),
    dataset_id: str,
    metric: str = "acc",
    tasks: Sequence[str] = (),
) -> dict[str, str]:
    """Return `DEVELOPER/MODEL/.eval_results/TASK.yaml`, whose last two parts belong into the model's repository.

    Args:
        runs: the runs.
        stored: see `figeval.StoredRun`.
        dataset_id: the benchmark on the Hub, whose leaderboard gets the scores.
        metric: the metric of that leaderboard, because the format has one number per task.
        tasks: the tasks of that benchmark; by default those of figeval's benchmark of the same name, or all tasks if
            the runs have those of a single benchmark.

    Raises:
        OptionError: `dataset_id` is not a hub id, it is open which tasks belong to it, or no run has the metric.
        RecordError: the model has seen some of the examples behind such a score.
    """
    if not HUB_ID.fullmatch(str(dataset_id)):
        raise OptionError(f"dataset_id {one_line(str(dataset_id), 80)!r} is not a hub id; write OWNER/NAME")
    entries = [(run, metric_score) for run in runs for metric_score in _with_metric(run, metric)]
    if not entries:
        raise OptionError(f"no run has a score for the metric {one_line(metric, 80)!r}; name one with metric=…")
    benchmarks = stored[0].benchmarks() if stored else {}
    names = _tasks_of_dataset(dataset_id, [_task_of(metric_score) for _, metric_score in entries], benchmarks, tasks)
    files: dict[str, str] = {}
    for run, metric_score in entries:
        if _task_of(metric_score) not in names:
            continue
        if metric_score.score.seen:
            raise RecordError(
                f"the {metric} of {one_line(run.model.name)} on {metric_score.name} does not belong on a leaderboard: "
                f"{SEEN_NOTES[metric_score.score.seen]}; leave this run out, or give the whole record with --to csv"
            )
        notes = "; ".join(metric_score.notes)
        content = {
            "dataset": {"id": dataset_id, "task_id": metric_score.name},
            "value": metric_score.value,
            "date": parse_time(run, run.started).isoformat(),
            **({"notes": notes} if notes else {}),
        }
        name = f"{'/'.join(developer_and_name(run.model.name))}/.eval_results/{file_name(metric_score.name)}"
        files[unique_name(name, ".yaml", files)] = _yaml([content])
    return files


def _with_metric(run: RunRecord, metric: str) -> Iterator[ScoreEntry]:
    for metric_score in score_entries(run):
        if metric_score.metric == metric and metric_score.task is not None and not metric_score.part:
            yield metric_score


def _task_of(metric_score: ScoreEntry) -> str:
    """Return the task of a score, also of one with another prompt."""
    return metric_score.name if metric_score.task is None else metric_score.task.of or metric_score.task.task


def _tasks_of_dataset(
    dataset_id: str, tasks: Sequence[str], benchmarks: Mapping[str, str], choice: Sequence[str]
) -> Collection[str]:
    """Return the tasks that belong to a data set. Raises `OptionError` if that is open, or if there is none."""
    if choice:
        names = {task for task in tasks if task in choice}
        if not names:
            raise OptionError(f"the runs have none of these tasks; they have {', '.join(dict.fromkeys(tasks))}")
        return names
    run_benchmarks = dict.fromkeys(benchmarks.get(task, "other tasks") for task in tasks)
    name = _normalize(dataset_id.partition("/")[2])
    namesake = next((benchmark for benchmark in benchmarks.values() if _normalize(benchmark) == name), "")
    if len(run_benchmarks) == 1 and namesake in ("", *run_benchmarks):
        return tasks
    if namesake in run_benchmarks:
        return {task for task in tasks if benchmarks.get(task) == namesake}
    raise OptionError(f"the runs have tasks of {', '.join(run_benchmarks)}; name those of {dataset_id} with --tasks")


def _normalize(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def _yaml(value: Any) -> str:
    text: str = yaml.safe_dump(clean_json(value, one_line), sort_keys=False, allow_unicode=True, width=1000)
    return text
