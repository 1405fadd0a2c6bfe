"""Logs of Inspect (`inspect_ai`) in JSON, version 2: one per run and task, for its viewer and its data frames."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from figeval import RunRecord, TaskRecord
from figeval.records.conditions import describe_conditions
from figeval.records.provenance import recorded_packages
from figeval.records.schema import ScoreRecord
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

VERSION = 2
STATUS = {"done": "success", "failed": "error", "running": "started"}
STOP_REASONS = {"stop": "stop", "length": "max_tokens", "refusal": "content_filter"}  # reason of a reply → Inspect's


def export(runs: Sequence[RunRecord], stored: Sequence[StoredRun]) -> dict[str, str]:
    """Return `TIME_TASK_ID.json` for each task of each run, in a folder per model."""
    files: dict[str, str] = {}
    for run, stored_run in zip(runs, stored, strict=True):
        folder = file_name(run.model.name.replace("/", "__"))
        time = parse_time(run, run.started).strftime("%Y-%m-%dT%H-%M-%S-00-00")
        entries: dict[str, list[ScoreEntry]] = {}
        for metric_score in score_entries(run):
            if metric_score.task is not None:
                entries.setdefault(metric_score.task.task, []).append(metric_score)
        for task in run.tasks_with_rows():
            answers = list(stored_run.answers(task))
            identity = _identity(run, task)
            name = f"{folder}/{time}_{file_name(task.task)}_{identity}"
            files[unique_name(name, ".json", files)] = dump_json(_log(run, task, answers, entries.get(task.task, [])))
    return files


def _identity(run: RunRecord, task: TaskRecord) -> str:
    """Return an id as Inspect's: 22 letters and digits."""
    return hashlib.sha256(f"{run.identity} {run.started} {task.task}".encode("utf-8", "replace")).hexdigest()[:22]


def _log(
    run: RunRecord, task: TaskRecord, answers: Sequence[StoredAnswer], entries: Sequence[ScoreEntry]
) -> dict[str, Any]:
    epochs = task.settings.get("samples", 1)
    samples = [
        _sample(run, sample, epoch)
        for answer in answers
        for epoch, sample in enumerate(answer.samples or (answer,), start=1)
    ]
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
            "total_samples": task.n * epochs,
            "completed_samples": len(samples) if task.predictions else task.n,
            "scores": [_score(task, metric_score) for metric_score in entries],
        },
        "stats": {
            "started_at": parse_time(run, run.started).isoformat(),
            "completed_at": parse_time(run, run.finished or run.started).isoformat(),
            "model_usage": {},
        },
        "samples": samples,
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
        "created": parse_time(run, run.started).isoformat(),
        "task": task.task,
        "task_id": f"{task.task}-{run.identity}",
        "task_version": task.version,
        "task_attribs": {},
        "task_args": {},
        "dataset": {
            "name": task.of or task.task,
            "samples": task.available,
            "sample_ids": [answer.row["id"] for answer in answers],
            "shuffled": False,
        },
        "model": f"figeval/{run.model.name}",
        "model_args": run.model.options,
        "model_generate_config": _generation(run),
        "config": {"epochs": task.settings.get("samples", 1), **({"limit": task.n} if task.n < task.available else {})},
        "packages": {name: str(version) for name, version in recorded_packages(run.provenance).items() if version},
        "metadata": {
            "task_type": task.task_type,
            "route": task.route,
            "conditions": describe_conditions(task),
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
    settings = {"max_tokens": config.get("max_new_tokens"), "seed": config.get("seed")}
    settings |= run.model.description.get("sampling") or {}
    settings["system_message"] = config.get("system_instruction") or None
    return {name: value for name, value in settings.items() if value is not None}


def _score(task: TaskRecord, metric_score: ScoreEntry) -> dict[str, Any]:
    """Return one metric with its standard error and its interval, under the names that Inspect uses."""
    score = metric_score.score
    name = f"{score.metric} ({metric_score.part})" if metric_score.part else score.metric
    metrics = {"mean": metric_score.value, "stderr": score.stderr, "ci_lower": score.low, "ci_upper": score.high}
    values = {key: value for key, value in metrics.items() if value is not None}
    return {
        "name": name,
        "scorer": score.metric,
        "scored_samples": score.n,
        "unscored_samples": 0 if metric_score.part else max(0, task.n - score.n),
        "metrics": {key: {"name": key, "value": value, "params": {}} for key, value in values.items()},
        "metadata": {
            **_details(score),
            "notes": list(metric_score.notes),
            **{f"baseline_{key}": value for key, value in metric_score.baselines.items()},
        },
    }


def _details(score: ScoreRecord) -> dict[str, Any]:
    names = ("interval", "clusters", "effective_clusters", "higher_is_better", "sd", "seen")
    stored = score.model_dump()
    return {name: value for name in names if (value := stored[name]) is not None}


def _sample(run: RunRecord, answer: StoredAnswer, epoch: int) -> dict[str, Any]:
    """Return one sample, numbered by its epoch; without texts, the target is a label, an index or a span."""
    row: Mapping[str, Any] = answer.row
    raw = row.get("raw")
    text = answer.answer if raw is None else raw
    means = {name: value for name, value in row["metrics"].items() if isinstance(value, float | int)}
    message = {"role": "assistant", "content": text, "source": "generate", "model": run.model.name}
    fields = ("status", "tied", "truncated", "scores", "top", "cluster", "group", "language", "meta", "seen")
    sample: dict[str, Any] = {
        "id": row["id"],
        "epoch": epoch,
        "input": answer.input,
        "choices": list(answer.options) or None,
        "target": list(answer.reference) if len(answer.reference) != 1 else answer.reference[0],
        "messages": [{"role": "user", "content": answer.input}, message] if answer.input else [message],
        "output": {
            "model": run.model.name,
            "choices": [{"message": message, "stop_reason": STOP_REASONS.get(row.get("finish") or "", "unknown")}],
            "completion": text,
        },
        "scores": {
            name: {"value": value, "answer": answer.answer, "explanation": raw} for name, value in means.items()
        },
        "metadata": {name: row[name] for name in fields if row.get(name) is not None},
    }
    if error := row.get("error"):
        sample["error"] = {"message": error, "traceback": "", "traceback_ansi": ""}
    return sample
