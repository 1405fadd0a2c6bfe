"""YAML for model repositories on the Hugging Face Hub: `model-index` for model cards, and `.eval_results/*.yaml`.

The Hub shows the first as a table on the page of the model. The second adds scores to the leaderboard of a benchmark,
so it needs the hub id of that benchmark's data set; figeval's tasks have none of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from figeval.errors import OptionError, RecordError
from figeval.records.schema import SEEN_NOTES, RunRecord
from figeval.text import cleaned, one_line

from .results import HUB_ID, Result, developer_and_name, file_name, moment, results, unique

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
    told = {"interval": score.interval, "notes": "; ".join(result.notes) or None}
    return {name: value for name, value in {**found, **told}.items() if value is not None}


def eval_results(runs: Sequence[RunRecord], *, dataset_id: str, metric: str = "acc") -> dict[str, str]:
    """Return `DEVELOPER/MODEL/.eval_results/TASK.yaml`, whose last two parts belong into the model's repository.

    Args:
        runs: the runs.
        dataset_id: the benchmark on the Hub, whose leaderboard gets the scores.
        metric: the metric of that leaderboard, because the format has one number per task.

    Raises:
        OptionError: `dataset_id` is not a hub id, or no run has the metric.
        RecordError: the model has seen some of the examples behind such a score.
    """
    if not HUB_ID.fullmatch(str(dataset_id)):
        raise OptionError(f"dataset_id {one_line(str(dataset_id), 80)!r} is not a hub id; write OWNER/NAME")
    files: dict[str, str] = {}
    for run in runs:
        folder = "/".join(developer_and_name(run.model.name))
        for result in results(run):
            if result.score.metric != metric or result.task is None or result.part:
                continue
            if result.score.seen:
                raise RecordError(
                    f"the {metric} of {one_line(run.model.name)} on {result.name} does not belong on a leaderboard: "
                    f"{SEEN_NOTES[result.score.seen]}; leave this run out, or give the whole record with --to csv"
                )
            notes = "; ".join(result.notes)
            entry = {
                "dataset": {"id": dataset_id, "task_id": result.name},
                "value": result.value,
                "date": moment(run, run.started).isoformat(),
                **({"notes": notes} if notes else {}),
            }
            name = f"{folder}/.eval_results/{file_name(result.name)}"
            files[unique(name, ".yaml", files)] = _yaml([entry])
    if not files:
        raise OptionError(f"no run has a score for the metric {one_line(metric, 80)!r}; name one with metric=…")
    return files


def _yaml(value: Any) -> str:
    text: str = yaml.safe_dump(cleaned(value, one_line), sort_keys=False, allow_unicode=True, width=1000)
    return text
