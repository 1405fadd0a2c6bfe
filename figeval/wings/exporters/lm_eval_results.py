"""Results and samples as lm-evaluation-harness writes them: `results_DATE.json` and `samples_TASK_DATE.jsonl`.

Its tools (`lm_eval.utils.make_table`, viewers, leaderboards) read them as results of their own. Numbers that the format
has no place for (intervals, baselines) are in the `metadata` of a task's config. Later releases than 0.4.10 also write
`name` and `sample_len` beside the scores. They are left out: 0.4.10 would print them as scores, and the alias and
`n-samples` say the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from figeval import RunRecord, TaskRecord
from figeval.records.conditions import describe_conditions, without_answer
from figeval.records.provenance import recorded_packages
from figeval.wings.exporters.score_entries import (
    ScoreEntry,
    dump_json,
    file_name,
    parse_time,
    score_entries,
    unique_name,
)

if TYPE_CHECKING:
    from figeval import StoredAnswer, StoredRun

FILTER = "none"  # lm-eval's name for answers as they are


def export(runs: Sequence[RunRecord], stored: Sequence[StoredRun]) -> dict[str, str]:
    """Return the files below one folder per model, named and dated as lm-eval does."""
    files: dict[str, str] = {}
    for run, stored_run in zip(runs, stored, strict=True):
        folder = file_name(run.model.name.replace("/", "__"))
        date = parse_time(run, run.started).strftime("%Y-%m-%dT%H-%M-%S.%f")
        if f"{folder}/results_{date}.json" in files:
            folder = unique_name(f"{folder}-{run.identity}", "", {name.partition("/")[0] for name in files})
        hashes = {}
        for task in run.tasks_with_rows():
            lines = list(_samples(task, stored_run))
            if lines:
                hashes[task.task] = _sha256(
                    "".join(line["doc_hash"] + line["prompt_hash"] + line["target_hash"] for line in lines)
                )
                name = unique_name(f"{folder}/samples_{file_name(task.task)}", f"_{date}.jsonl", files)
                files[name] = "".join(dump_json(line, indent=None) for line in lines)
        files[f"{folder}/results_{date}.json"] = dump_json(
            {**_task_part(run), "task_hashes": hashes, **_run_part(run, folder)}
        )
    return files


def _task_part(run: RunRecord) -> dict[str, Any]:
    """Return the part about tasks. A number without a value has no entry."""
    part: dict[str, Any] = {name: {} for name in ("results", "versions", "n-shot", "higher_is_better", "n-samples")}
    entries_by_name: dict[str, list[ScoreEntry]] = {}
    for metric_score in score_entries(run):
        entries_by_name.setdefault(metric_score.name, []).append(metric_score)
    for name, entries in entries_by_name.items():
        task = entries[0].task
        numbers: dict[str, Any] = {"alias": name}
        for metric_score in entries:
            metric = _metric_name(metric_score.metric)
            numbers[f"{metric},{FILTER}"] = metric_score.value
            numbers[f"{metric}_stderr,{FILTER}"] = (
                "N/A" if metric_score.score.stderr is None else metric_score.score.stderr
            )
        part["results"][name] = numbers
        part["higher_is_better"][name] = {
            _metric_name(metric_score.metric): metric_score.score.higher_is_better for metric_score in entries
        }
        if task is not None:
            part["versions"][name] = task.version
            part["n-shot"][name] = int(task.settings.get("num_fewshot", 0))
            n = entries[0].score.n if entries[0].part else _effective_n(task, entries)
            part["n-samples"][name] = {"original": task.available, "effective": n}
    groups: dict[str, dict[str, Any]] = {}
    for mean in run.macro:
        if mean.value is not None:
            groups.setdefault(mean.suite, {"alias": mean.suite})[f"{_metric_name(mean.metric)},{FILTER}"] = mean.value
    part["results"] |= {suite: numbers for suite, numbers in groups.items() if suite not in part["results"]}
    part["configs"] = {name: _config(name, entries) for name, entries in entries_by_name.items()}
    part["group_subtasks"] = {name: [] for name in part["results"]}
    return part | ({"groups": groups} if groups else {})


def _effective_n(task: TaskRecord, entries: Sequence[ScoreEntry]) -> int:
    """Return the number of examples, of those with an answer if there is a score of them only."""
    sizes = (
        metric_score.score.n for metric_score in entries if without_answer(task, metric_score.score, task.baselines)
    )
    return min(sizes, default=task.n)


def _metric_name(metric: str) -> str:
    """Return a metric's name without commas, which separate it from the filter."""
    return metric.replace(",", ";")


def _config(name: str, entries: Sequence[ScoreEntry]) -> dict[str, Any]:
    task = entries[0].task
    details = {
        metric_score.metric: {
            **metric_score.score.model_dump(exclude={"metric"}),
            "baselines": dict(metric_score.baselines),
            **({"notes": list(metric_score.notes)} if metric_score.notes else {}),
        }
        for metric_score in entries
    }
    metrics = [
        {"metric": metric_score.metric, "higher_is_better": metric_score.score.higher_is_better}
        for metric_score in entries
    ]
    config: dict[str, Any] = {"task": name, "metric_list": metrics}
    metadata: dict[str, Any] = {"source": "figeval", "scores": details}
    if task is not None:
        config |= {
            "output_type": "generate_until" if task.extractor else "multiple_choice",
            "num_fewshot": int(task.settings.get("num_fewshot", 0)),
        }
        metadata |= {
            "version": task.version,
            "task_type": task.task_type,
            "route": task.route,
            "conditions": describe_conditions(task),
            "examples_sha256": task.examples_sha256,
        }
    return {**config, "metadata": metadata}


def _run_part(run: RunRecord, folder: str) -> dict[str, Any]:
    """Return the part about the run, as `simple_evaluate` and the tracker of lm-eval add it."""
    config, packages = run.config, recorded_packages(run.provenance)
    system = config.get("system_instruction") or None
    seed = config.get("seed", 0)
    end = parse_time(run, run.finished or run.started)
    seconds = (end - parse_time(run, run.started)).total_seconds()
    return {
        "config": {
            "model": run.model.backend,
            "model_args": {"pretrained": run.model.name, **run.model.options},
            "batch_size": str(config.get("batch_size")),
            "device": config.get("device"),
            "use_cache": None,
            "limit": config.get("limit"),
            "bootstrap_iters": 0,
            "gen_kwargs": None,
            **{f"{name}_seed": seed for name in ("random", "numpy", "torch", "fewshot")},
        },
        "git_hash": (run.provenance.get("git") or {}).get("commit"),
        "date": parse_time(run, run.started).timestamp(),
        "transformers_version": packages.get("transformers"),
        "lm_eval_version": packages.get("lm-eval"),
        "figeval_version": packages.get("figeval"),
        "model_source": run.model.backend,
        "model_name": run.model.name,
        "model_name_sanitized": folder,
        "system_instruction": system,
        "system_instruction_sha": None if system is None else _sha256(system),
        "fewshot_as_multiturn": None,
        "chat_template": None,
        "chat_template_sha": None,
        "total_evaluation_time_seconds": str(seconds),
    }


# ---- samples --------------------------------------------------------------------------------------------------------


def _samples(task: TaskRecord, stored: StoredRun) -> Iterator[dict[str, Any]]:
    for number, answer in enumerate(stored.answers(task)):
        yield _sample(number, answer)


def _sample(number: int, answer: StoredAnswer) -> dict[str, Any]:
    """Return one line. Without texts, `doc` has only the columns of the example, and prompts are never stored.

    `resps` are the texts that the model wrote, one for each sample, or the score of each option.
    """
    row = answer.row
    means = {name: value for name, value in row["metrics"].items() if isinstance(value, float | int)}
    doc = dict(answer.fields) or {"id": row["id"], "meta": row["meta"]}
    target = "; ".join(answer.reference)
    raw = [sample.row.get("raw") for sample in answer.samples or (answer,)]
    responses = [raw] if any(text is not None for text in raw) else [[str(score)] for score in row.get("scores", ())]
    reserved_names = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"}
    return {
        "doc_id": number,
        "doc": doc,
        "target": target,
        "arguments": {"gen_args_0": {"arg_0": answer.input}},
        "resps": responses,
        "filtered_resps": [answer.answer],
        "filter": FILTER,
        "metrics": list(means),
        "doc_hash": _sha256(dump_json(doc, indent=2)),
        "prompt_hash": _sha256(answer.input),
        "target_hash": _sha256(target),
        **{name: value for name, value in means.items() if name not in reserved_names},
    }


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
