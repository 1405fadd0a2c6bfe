"""Files in the schema of Every Eval Ever, version 0.3: one JSON per run, and a JSONL with its answers.

The schema demands the text of every example, so the answers are exported only if the user asks for texts. What figeval
cannot know (the organisation behind an evaluation, whether weights are open) is `unknown` or `other`, to be filled in
before the files are published.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from figeval import RunRecord, TaskRecord
from figeval.records.conditions import describe_conditions
from figeval.records.provenance import recorded_packages
from figeval.wings.exporters.score_entries import (
    ScoreEntry,
    developer_and_name,
    dump_json,
    is_proportion,
    parse_time,
    score_entries,
    to_texts,
)

if TYPE_CHECKING:
    from figeval import StoredAnswer, StoredRun

VERSION = "0.3.0"
COLLECTION = "figeval"
REMOTE_BACKENDS = ("openai", "anthropic", "lm_eval")  # these backends may ask a server


def export(runs: Sequence[RunRecord], stored: Sequence[StoredRun]) -> dict[str, str]:
    """Return `data/figeval/DEVELOPER/MODEL/UUID.json` for each run, and `UUID_samples.jsonl` beside it with texts."""
    files: dict[str, str] = {}
    for run, stored_run in zip(runs, stored, strict=True):
        developer, name = developer_and_name(run.model.name)
        folder = f"data/{COLLECTION}/{developer}/{name}"
        digest = hashlib.sha256(f"{run.identity} {run.started}".encode("utf-8", "replace")).digest()
        stem = f"{folder}/{UUID(bytes=digest[:16], version=4)}"
        record = _aggregate(run, stored_run)
        if stored_run.has_texts:
            lines = list(_instances(run, stored_run, record["evaluation_id"]))
            samples = "".join(dump_json(line, indent=None) for line in lines)
            files[f"{stem}_samples.jsonl"] = samples
            record["detailed_evaluation_results"] = {
                "format": "jsonl",
                "file_path": f"{stem}_samples.jsonl",
                "hash_algorithm": "sha256",
                "checksum": hashlib.sha256(samples.encode()).hexdigest(),
                "total_rows": len(lines),
            }
        files[f"{stem}.json"] = dump_json(record)
    return files


def _aggregate(run: RunRecord, stored: StoredRun) -> dict[str, Any]:
    timestamp = int(parse_time(run, run.finished or run.started).timestamp())
    packages = recorded_packages(run.provenance)
    evaluation = f"figeval-{run.identity}/{_model_id(run)}/{timestamp}"
    pages = {task.task: stored.homepage(task) for task in run.tasks_with_rows()}
    return {
        "schema_version": VERSION,
        "evaluation_id": evaluation,
        "evaluation_timestamp": str(int(parse_time(run, run.started).timestamp())),
        "retrieved_timestamp": str(timestamp),
        "source_metadata": {
            "source_name": "figeval",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
            "additional_details": to_texts({"run": run.identity, "status": run.status}),
        },
        "eval_library": {
            "name": "figeval",
            "version": str(packages.get("figeval") or "unknown"),
            "additional_details": to_texts({"packages": packages, "record_schema": run.schema_version}),
        },
        "model_info": {
            "name": run.model.name,
            "id": _model_id(run),
            "developer": developer_and_name(run.model.name)[0],
            "additional_details": {
                "deployment_type": "unknown" if run.model.backend in REMOTE_BACKENDS else "self_deployed",
                "model_availability": "unknown",
                **to_texts(
                    {
                        "backend": run.model.backend,
                        "options": run.model.options,
                        "fingerprint": run.model.fingerprint,
                    }
                ),
            },
        },
        "evaluation_results": [
            _result(evaluation, metric_score, pages.get(metric_score.task.task, "") if metric_score.task else "")
            for metric_score in score_entries(run)
        ],
    }


def _model_id(run: RunRecord) -> str:
    return "/".join(developer_and_name(run.model.name))


def _result(evaluation: str, metric_score: ScoreEntry, homepage: str) -> dict[str, Any]:
    score, task = metric_score.score, metric_score.task
    proportion = is_proportion(score.metric)
    size = {} if task is None else {name: getattr(task, name) for name in ("version", "n", "available")}
    digests = {} if task is None else {"examples_sha256": task.examples_sha256, "sample_sha256": task.sample_sha256}
    conditions = (
        {}
        if task is None
        else {"task_type": task.task_type, "route": task.route, "conditions": describe_conditions(task)}
    )
    result: dict[str, Any] = {
        "evaluation_result_id": _result_id(evaluation, metric_score.name, score.metric),
        "evaluation_name": metric_score.name,
        "source_data": {
            "dataset_name": metric_score.name if task is None else (task.of or task.task),
            **({"source_type": "url", "url": [homepage]} if homepage else {"source_type": "other"}),
            "additional_details": to_texts({**size, **digests}),
        },
        "metric_config": {
            "metric_id": score.metric if score.metric != "acc" else "accuracy",
            "metric_name": score.metric,
            "lower_is_better": not score.higher_is_better,
            "score_type": "continuous",
            "min_score": 0 if proportion else None,
            "max_score": 1 if proportion else None,
            "additional_details": to_texts(conditions),
        },
        "score_details": {
            "score": metric_score.value,
            "uncertainty": _uncertainty(metric_score),
            "details": to_texts(
                {
                    "clusters": score.clusters,
                    "effective_clusters": score.effective_clusters,
                    "interval": str(score.interval),
                    "standard_deviation_over_seeds": score.sd,
                    "seen": score.seen,
                    "notes": "; ".join(metric_score.notes),
                    **{f"baseline_{name}": value for name, value in metric_score.baselines.items()},
                }
            ),
        },
    }
    if proportion:
        result["metric_config"]["metric_unit"] = "proportion"
    return result


def _result_id(evaluation: str, name: str, metric: str) -> str:
    return f"{evaluation}/{name}/{metric}"


def _uncertainty(metric_score: ScoreEntry) -> dict[str, Any]:
    """Return what is known of it. The schema's standard deviation is one over examples, which records do not have."""
    score = metric_score.score
    uncertainty: dict[str, Any] = {"num_samples": score.n}
    if score.stderr is not None:
        clustered = f"clustered, {score.clusters} clusters" if score.clusters < score.n else "analytic"
        is_named = any(word in score.interval.method for word in ("bootstrap", "over"))
        method = str(score.interval) if is_named else clustered
        uncertainty["standard_error"] = {"value": score.stderr, "method": method}
    if score.low is not None and score.high is not None:
        bounds = {"lower": score.low, "upper": score.high}
        uncertainty["confidence_interval"] = {**bounds, "confidence_level": 0.95, "method": str(score.interval)}
    return uncertainty


# ---- answers --------------------------------------------------------------------------------------------------------


def _instances(run: RunRecord, stored: StoredRun, evaluation: str) -> Iterator[dict[str, Any]]:
    """Yield a line per example and metric, for metrics that are means over examples."""
    metrics: dict[str, list[str]] = {}
    for metric_score in score_entries(run):
        metrics.setdefault(metric_score.name, []).append(metric_score.metric)
    for task in run.tasks_with_rows():
        for answer in stored.answers(task):
            language = answer.row.get("language")  # the score of such a task is no mean over its rows
            name = f"{task.task} ({language})" if task.languages and language else task.task
            for metric in metrics.get(name, ()):
                value = answer.row["metrics"].get(metric)
                if isinstance(value, float | int):
                    ids = {
                        "evaluation_id": evaluation,
                        "model_id": _model_id(run),
                        "evaluation_name": name,
                        "evaluation_result_id": _result_id(evaluation, name, metric),
                    }
                    yield {"schema_version": VERSION, **ids, **_instance(task, answer, value)}


def _instance(task: TaskRecord, answer: StoredAnswer, value: float) -> dict[str, Any]:
    row = answer.row
    accuracy = row["metrics"].get("acc", value)
    samples = answer.samples or (answer,)
    replies = [sample.answer if (raw := sample.row.get("raw")) is None else raw for sample in samples]
    digest = hashlib.sha256("\n".join((answer.input, *answer.reference)).encode("utf-8", "replace"))
    return {
        "sample_id": row["id"],
        "sample_hash": digest.hexdigest(),
        "interaction_type": "single_turn",
        "input": {
            "raw": answer.input,
            "reference": list(answer.reference),
            "choices": list(answer.options) or None,
        },
        "output": {"raw": replies},
        "messages": None,
        "answer_attribution": [
            {
                "turn_idx": 0,
                "source": "output.raw",
                "extracted_value": answer.answer,
                "extraction_method": f"figeval extractor {task.extractor}" if task.extractor else task.route,
                "is_terminal": True,
            }
        ],
        "evaluation": {"score": value, "is_correct": accuracy == 1},
        "error": row.get("error") or (None if row["status"] == "ok" else row["status"]),
        "metadata": to_texts({**row["meta"], "cluster": row["cluster"], "group": row["group"]}),
    }
