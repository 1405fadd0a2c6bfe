"""Logs of Inspect (`inspect_ai`) in JSON, version 2: one per run and task, for its viewer and its data frames."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from figeval.records.conditions import described
from figeval.records.schema import RunRecord, ScoreRecord, TaskRecord
from figeval.wings.exporters.results import Result, as_json, file_name, moment, results, unique

if TYPE_CHECKING:
    from figeval import StoredAnswer, StoredRun

VERSION = 2
STATUS = {"done": "success", "failed": "error", "running": "started"}
STOPPED = {"stop": "stop", "length": "max_tokens", "refusal": "content_filter"}  # reason of a reply → Inspect's


def export(runs: Sequence[RunRecord], stored: Sequence[StoredRun]) -> dict[str, str]:
    """Return `TIME_TASK_ID.json` for each task of each run, in a folder per model."""
    files: dict[str, str] = {}
    for run, own in zip(runs, stored, strict=True):
        folder = file_name(run.model.name.replace("/", "__"))
        time = moment(run, run.started).strftime("%Y-%m-%dT%H-%M-%S-00-00")
        numbers: dict[str, list[Result]] = {}
        for result in results(run):
            if result.task is not None:
                numbers.setdefault(result.task.task, []).append(result)
        for task in run.tasks_with_rows():
            answers = list(own.answers(task))
            identity = _identity(run, task)
            name = f"{folder}/{time}_{file_name(task.task)}_{identity}"
            files[unique(name, ".json", files)] = as_json(_log(run, task, answers, numbers.get(task.task, [])))
    return files


def _identity(run: RunRecord, task: TaskRecord) -> str:
    """Return an id as Inspect's: 22 letters and digits."""
    return hashlib.sha256(f"{run.identity} {run.started} {task.task}".encode("utf-8", "replace")).hexdigest()[:22]


def _log(
    run: RunRecord, task: TaskRecord, answers: Sequence[StoredAnswer], numbers: Sequence[Result]
) -> dict[str, Any]:
    log = {
        "version": VERSION,
        "status": STATUS[task.status],
        "eval": _spec(run, task, answers),
        "plan": {
            "name": "figeval",
            "steps": [{"solver": task.route, "params": {}}],
            "config": _generation(run),
        },
        "results": {
            "total_samples": task.n,
            "completed_samples": len(answers) if task.predictions else task.n,
            "scores": [_score(task, result) for result in numbers],
        },
        "stats": {
            "started_at": moment(run, run.started).isoformat(),
            "completed_at": moment(run, run.finished or run.started).isoformat(),
            "model_usage": {},
        },
        "samples": [_sample(run, answer) for answer in answers],
    }
    if task.error and task.error.strip():
        lines = task.error.strip().splitlines()
        log["error"] = {"message": lines[-1], "traceback": task.error, "traceback_ansi": task.error}
    return log


def _spec(run: RunRecord, task: TaskRecord, answers: Sequence[StoredAnswer]) -> dict[str, Any]:
    git = run.provenance.get("git") or {}
    spec: dict[str, Any] = {
        "eval_id": _identity(run, task),
        "run_id": run.identity,
        "created": moment(run, run.started).isoformat(),
        "task": task.task,
        "task_id": f"{task.task}-{run.identity}",
        "task_version": task.version,
        "task_attribs": {},
        "task_args": {},
        "dataset": {
            "name": task.of or task.task,
            "samples": task.available,
            "sample_ids": [one.row["id"] for one in answers],
            "shuffled": False,
        },
        "model": f"figeval/{run.model.name}",
        "model_args": run.model.options,
        "model_generate_config": _generation(run),
        "config": {"epochs": 1, **({"limit": task.n} if task.n < task.available else {})},
        "packages": {name: str(version) for name, version in (run.provenance.get("packages") or {}).items() if version},
        "metadata": {
            "task_type": task.task_type,
            "route": task.route,
            "conditions": described(task),
            "examples_sha256": task.examples_sha256,
            "counts": task.counts,
            "warnings": task.warnings,
        },
    }
    if git.get("commit"):
        spec["revision"] = {"type": "git", "origin": "", "commit": git["commit"], "dirty": bool(git.get("dirty"))}
    return spec


def _generation(run: RunRecord) -> dict[str, Any]:
    config = run.config
    given = {"max_tokens": config.get("max_new_tokens"), "seed": config.get("seed")}
    given["system_message"] = config.get("system_instruction") or None
    return {name: value for name, value in given.items() if value is not None}


def _score(task: TaskRecord, result: Result) -> dict[str, Any]:
    """Return one metric with its standard error and its interval, under the names that Inspect uses."""
    score = result.score
    name = f"{score.metric} ({result.part})" if result.part else score.metric
    metrics = {"mean": result.value, "stderr": score.stderr, "ci_lower": score.low, "ci_upper": score.high}
    known = {key: value for key, value in metrics.items() if value is not None}
    return {
        "name": name,
        "scorer": score.metric,
        "scored_samples": score.n,
        "unscored_samples": 0 if result.part else max(0, task.n - score.n),
        "metrics": {key: {"name": key, "value": value, "params": {}} for key, value in known.items()},
        "metadata": {
            **_about(score),
            "notes": list(result.notes),
            **{f"baseline_{key}": value for key, value in result.baselines.items()},
        },
    }


def _about(score: ScoreRecord) -> dict[str, Any]:
    names = ("interval", "clusters", "effective_clusters", "higher_is_better", "sd", "seen")
    stored = score.model_dump()
    return {name: value for name in names if (value := stored[name]) is not None}


def _sample(run: RunRecord, answer: StoredAnswer) -> dict[str, Any]:
    """Return one sample; without texts, the target is a label, an index or a span."""
    row: Mapping[str, Any] = answer.row
    raw = row.get("raw")
    text = answer.answer if raw is None else raw
    means = {name: value for name, value in row["metrics"].items() if isinstance(value, float | int)}
    message = {"role": "assistant", "content": text, "source": "generate", "model": run.model.name}
    known = ("status", "tied", "truncated", "scores", "top", "cluster", "group", "language", "meta", "seen")
    sample: dict[str, Any] = {
        "id": row["id"],
        "epoch": 1,
        "input": answer.input,
        "choices": list(answer.options) or None,
        "target": list(answer.reference) if len(answer.reference) != 1 else answer.reference[0],
        "messages": [{"role": "user", "content": answer.input}, message] if answer.input else [message],
        "output": {
            "model": run.model.name,
            "choices": [{"message": message, "stop_reason": STOPPED.get(row.get("finish") or "", "unknown")}],
            "completion": text,
        },
        "scores": {
            name: {"value": value, "answer": answer.answer, "explanation": raw} for name, value in means.items()
        },
        "metadata": {name: row[name] for name in known if row.get(name) is not None},
    }
    if error := row.get("error"):
        sample["error"] = {"message": error, "traceback": "", "traceback_ansi": ""}
    return sample
