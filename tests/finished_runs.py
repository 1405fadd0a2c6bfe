"""Runs for tests: real runs of a model without weights, and hand-made records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import figeval
from figeval import Example, Harness, Observer, RunConfig, RunRecord, TaskRecord
from figeval.records import seen
from figeval.records.run_folder import RunFolder, read_record
from figeval.records.schema import BaselineRecord, ModelRecord, ScoreRecord
from figeval.records.sweep import SeedsRecord, write
from figeval.runs.rescore import rescore
from figeval.runs.run import run as run_pipeline
from figeval.runs.seeds import scores_of


def row(identity: str = "1", **changes: Any) -> dict[str, Any]:
    """Return a complete row of a predictions file."""
    fields = {"status": "ok", "pred": 0, "gold": 0, "tied": 1, "truncated": False, "metrics": {"acc": 1.0}}
    return {"id": identity, **fields, "cluster": None, "group": None, "meta": {}, **changes}


def finished(folder: Path, *tasks: str, **settings: Any) -> Path:
    """Run `overlap`, or another model, on these tasks and return the folder of the run."""
    execute(RunConfig(**{"model": "overlap", "tasks": tasks, "output_path": folder, **settings}))
    return folder


def execute(config: RunConfig, harness: Harness | None = None, observer: Observer | None = None) -> RunRecord:
    """Run with these registries, such as those of `figeval.testing.harness`, and return the record."""
    record, _ = run_pipeline(config, harness or Harness(), observer or Observer())
    return record


def store(folder: Path, record: RunRecord, rows: Mapping[str, Iterable[Mapping[str, Any]]] | None = None) -> Path:
    """Store a hand-made record, and rows by task, as a run leaves them, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(record.model_dump_json(), encoding="utf-8")
    for name, task_rows in (rows or {}).items():
        file = folder / "predictions" / f"{name}.jsonl"
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(f"{json.dumps(fields)}\n" for fields in task_rows), encoding="utf-8")
    return folder


def seal(folder: Path, record: RunRecord, *, tasks: bool = True) -> None:
    """Store a record with the digests that figeval computes of it, and of the predictions of its tasks."""
    for task_record in record.tasks if tasks else ():
        RunFolder(folder).seal(task_record)
    RunFolder(folder).write(record)


def score_again(folder: Path, harness: Harness) -> None:
    """Compute the scores of a run from its rows with these registries, as `figeval rescore` does."""
    rescore(folder, harness)


def write_seen(model: Path, *examples: Example) -> None:
    """Note in a model's folder that the model was trained on these questions, as a training does."""
    seen.write(model, seen.Lineage.of_questions(examples, ()))


def over_seeds(folder: Path, *tasks: str, seeds: int = 3, **settings: Any) -> Path:
    """Run `random` with several seeds on these tasks and return their folder, as `figeval train --seeds` leaves it."""
    folders = {
        str(seed): finished(folder / f"seed-{seed}", *tasks, model="random", seed=seed, **settings)
        for seed in range(seeds)
    }
    runs = {int(seed): read_record(folder / "run.json") for seed, folder in folders.items()}
    fields = {
        "seeds": list(runs),
        "wanted": list(runs),
        "runs": {seed: folder.name for seed, folder in folders.items()},
    }
    write(SeedsRecord(task="mini", model="random", scores=scores_of(runs, folders), **fields), folder / "seeds.json")
    return folder


def compare_runs(a: Path, b: Path, metric: str = "acc", **options: Any) -> Any:
    """Compare two runs by `figeval.compare`, and return the only comparison."""
    (pair,) = figeval.compare(a, b, metric=metric, **options).result.pairs.values()
    return pair


def score(metric: str = "acc", value: float | None = 0.25, **changes: Any) -> ScoreRecord:
    fields = {"low": 0.1, "high": 0.5, "stderr": 0.1, "n": 40, "clusters": 20, "interval": "clustered t"}
    return ScoreRecord(metric=metric, value=value, **{**fields, **changes})


def model(name: str, **changes: Any) -> dict[str, Any]:
    """Return the changes of a record that make it one of this model, with an identity of its own."""
    return {"model": {"name": name, "backend": "encoder", **changes}, "identity": f"{crc32(name.encode()):08x}"}


def task(name: str = "proverbs", **changes: Any) -> TaskRecord:
    fields: dict[str, Any] = {
        "version": 1,
        "task_type": "choice",
        "route": "by_cosine",
        "status": "done",
        "n": 40,
        "available": 40,
        "examples_sha256": "0" * 64,
        "predictions": f"predictions/{name}.jsonl",
        "scores": [score()],
        "baselines": [
            BaselineRecord(baseline="chance", scores=[score(value=0.2)]),
            BaselineRecord(baseline="overlap", scores=[score(value=0.125), score("mrr", 0.3)]),
        ],
    }
    return TaskRecord(task=name, **{**fields, **changes})


def run(*tasks: TaskRecord, **changes: Any) -> RunRecord:
    fields: dict[str, Any] = {
        "identity": "0123abcd",
        "status": "complete",
        "started": "2026-01-31T23:59:59Z",
        "command": [],
        "config": {},
        "provenance": {},
        "model": ModelRecord(name="a-model", backend="encoder"),
    }
    return RunRecord(tasks=list(tasks), **{**fields, **changes})


def write_trained_model(
    folder: Path, trained: Iterable[Example] = (), chosen: Iterable[Example] = (), origin: str = "something"
) -> Path:
    """Write the folder of a model without weights, trained from another one and on these examples, and return it."""
    folder.mkdir()
    (folder / "figeval.json").write_text(json.dumps({"about": {"trained_from": origin}}), encoding="utf-8")
    seen.write(folder, seen.Lineage((seen.Ancestor(origin),)) | seen.Lineage.of_questions(trained, chosen))
    return folder
