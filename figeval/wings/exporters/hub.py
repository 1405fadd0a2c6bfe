"""YAML for model repositories on the Hugging Face Hub: `model-index` for model cards, and `.eval_results/*.yaml`.

The Hub shows the first as a table on the page of the model. The second adds scores to the leaderboard of a benchmark,
so it needs the hub id of that benchmark's data set; figeval's tasks have none of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml

from figeval.errors import OptionError, RecordError
from figeval.io.text import cleaned, one_line
from figeval.records.schema import SEEN_NOTES, RunRecord
from figeval.wings.exporters.results import HUB_ID, Result, developer_and_name, file_name, moment, results, unique

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

    known: dict[str, list[Any]] = {}
    for run in runs:
        for result in results(run):
            task = result.task
            entry = EvalResult(
                task_type=KINDS.get("" if task is None else task.task_type, "other"),
                dataset_type=one_line(dataset_id) or result.name,
                dataset_name=result.name,
                dataset_config=result.name,
                dataset_split="test" if task is None else str(task.settings.get("split", "test")),
                dataset_args=None if task is None else {"version": task.version, "examples": task.n},
                metric_type=METRICS.get(result.score.metric, result.score.metric),
                metric_name=result.score.metric,
                metric_value=result.value,
                metric_args=_uncertainty(result),
            )
            known.setdefault(one_line(run.model.name), []).append(entry)
    index = [
        one
        for name, entries in known.items()
        for one in ModelCardData(model_name=name, eval_results=entries).to_dict()["model-index"]
    ]
    return _yaml({"model-index": index})


def _uncertainty(result: Result) -> dict[str, Any]:
    """Return the standard error and the 95 % interval, if they are known, the number of examples, and notes."""
    score = result.score
    found = {"stderr": score.stderr, "ci_lower": score.low, "ci_upper": score.high, "n": score.n}
    told = {"interval": str(score.interval), "notes": "; ".join(result.notes) or None}
    return {name: value for name, value in {**found, **told}.items() if value is not None}


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
    chosen = [(run, result) for run in runs for result in _with_metric(run, metric)]
    if not chosen:
        raise OptionError(f"no run has a score for the metric {one_line(metric, 80)!r}; name one with metric=…")
    benchmarks = stored[0].benchmarks() if stored else {}
    names = _of_dataset(dataset_id, [_task_of(result) for _, result in chosen], benchmarks, tasks)
    files: dict[str, str] = {}
    for run, result in chosen:
        if _task_of(result) not in names:
            continue
        if result.score.seen:
            raise RecordError(
                f"the {metric} of {one_line(run.model.name)} on {result.name} does not belong on a leaderboard: "
                f"{SEEN_NOTES[result.score.seen]}; leave this run out, or give the whole record with --to csv"
            )
        remarks = "; ".join(result.notes)
        entry = {
            "dataset": {"id": dataset_id, "task_id": result.name},
            "value": result.value,
            "date": moment(run, run.started).isoformat(),
            **({"notes": remarks} if remarks else {}),
        }
        name = f"{'/'.join(developer_and_name(run.model.name))}/.eval_results/{file_name(result.name)}"
        files[unique(name, ".yaml", files)] = _yaml([entry])
    return files


def _with_metric(run: RunRecord, metric: str) -> Iterator[Result]:
    """Yield the scores by a metric on all examples of a task."""
    for result in results(run):
        if result.score.metric == metric and result.task is not None and not result.part:
            yield result


def _task_of(result: Result) -> str:
    """Return the task of a score, also of one with another prompt."""
    return result.name if result.task is None else result.task.of or result.task.task


def _of_dataset(
    dataset_id: str, tasks: Sequence[str], benchmarks: Mapping[str, str], chosen: Sequence[str]
) -> Collection[str]:
    """Return the tasks that belong to a data set. Raises `OptionError` if that is open, or if there is none."""
    if chosen:
        names = {task for task in tasks if task in chosen}
        if not names:
            raise OptionError(f"the runs have none of these tasks; they have {', '.join(dict.fromkeys(tasks))}")
        return names
    has = dict.fromkeys(benchmarks.get(task, "other tasks") for task in tasks)
    name = _folded(dataset_id.partition("/")[2])
    namesake = next((benchmark for benchmark in benchmarks.values() if _folded(benchmark) == name), "")
    if len(has) == 1 and namesake in ("", *has):
        return tasks
    if namesake in has:
        return {task for task in tasks if benchmarks.get(task) == namesake}
    raise OptionError(f"the runs have tasks of {', '.join(has)}; name those of {dataset_id} with --tasks")


def _folded(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def _yaml(value: Any) -> str:
    text: str = yaml.safe_dump(cleaned(value, one_line), sort_keys=False, allow_unicode=True, width=1000)
    return text
