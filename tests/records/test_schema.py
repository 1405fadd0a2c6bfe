"""The published JSON Schemas are those of the code, and what figeval writes keeps to them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest

import figeval
from tests.cli.conftest import Cli
from tests.finished_runs import finished

SCHEMAS = Path(__file__).resolve().parents[2] / "results" / "schema"


def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((SCHEMAS / name).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == jsonschema.Draft202012Validator.META_SCHEMA["$id"]
    return jsonschema.Draft202012Validator(schema)


def test_the_published_files_are_up_to_date(cli: Cli) -> None:
    for kind in ("run", "predictions"):
        committed = json.loads((SCHEMAS / f"{kind}.schema.json").read_text(encoding="utf-8"))
        schema = json.loads(cli("schema", kind).out)
        assert json.dumps(schema, indent=2) == json.dumps(committed, indent=2), "run `make schema`"


def test_a_run_keeps_to_them(mini_run: Path) -> None:
    record = json.loads((mini_run / "run.json").read_text(encoding="utf-8"))
    validator("run.schema.json").validate(record)
    row_schema = validator("predictions.schema.json")
    files = list((mini_run / "predictions").iterdir())
    assert len(files) == len(record["tasks"]) == 4
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            row_schema.validate(json.loads(line))


def test_a_run_has_what_was_promised(mini_run: Path) -> None:
    record = json.loads((mini_run / "run.json").read_text(encoding="utf-8"))
    for task in record["tasks"]:
        assert task["task"].startswith("mini_")
        assert task["route"].startswith("by_")
        assert {baseline["baseline"] for baseline in task["baselines"]} >= {"chance"}
        for score in task["scores"]:
            assert {"metric", "value", "low", "high", "stderr", "n"} <= set(score)
    assert record["provenance"]["packages"]["figeval"]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"tasks": [{"task": "t"}]}, "tasks"),
        ({"status": "half"}, "status"),
        ({"unknown": 1}, ""),
        ({"schema_version": 1}, "schema_version"),
    ],
)
def test_the_schema_refuses_what_is_no_record(change: dict, path: str, mini_run: Path) -> None:
    record = json.loads((mini_run / "run.json").read_text(encoding="utf-8"))
    with pytest.raises(jsonschema.ValidationError) as caught:
        validator("run.schema.json").validate({**record, **change})
    assert caught.value.json_path.startswith(f"$.{path}".rstrip("."))


def test_a_record_of_the_first_edition_is_read_as_one_of_this(mini_run: Path, tmp_path: Path) -> None:
    """Until schema 1.4 the task type of a task was called its protocol; nothing else was renamed."""
    folder = tmp_path / "old"
    shutil.copytree(mini_run, folder)
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    called = {"task_type": "protocol"}
    old = [{called.get(key, key): value for key, value in task.items()} for task in record["tasks"]]
    (folder / "run.json").write_text(json.dumps({**record, "schema_version": "1.4", "tasks": old}), encoding="utf-8")
    new, read = figeval.load(mini_run).record, figeval.load(folder).record
    assert [task.task_type for task in read.tasks] == [task["protocol"] for task in old]
    assert "choice" in {task.task_type for task in read.tasks}
    assert read.tasks == new.tasks
    again = json.loads(read.model_dump_json())["tasks"]
    assert all(task["task_type"] for task in again) and not any("protocol" in task for task in again)


def test_texts_are_stored_only_when_asked_for(mini_run: Path, tmp_path: Path) -> None:
    def rows(folder: Path) -> list[dict]:
        lines = (folder / "predictions/mini_fables.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    assert all(row["texts"] and row["all_scores"] for row in rows(mini_run))
    without = rows(finished(tmp_path / "run", "mini_fables"))
    assert not any({"texts", "all_scores"} & set(row) for row in without)
    fable = rows(mini_run)[0]["texts"][0]
    assert fable not in (tmp_path / "run/predictions/mini_fables.jsonl").read_text(encoding="utf-8")


def named_as_a_run(file: Path, tmp_path: Path) -> Path:
    """Return a copy of the file in a folder of its own, called as in a folder of a run."""
    folder = tmp_path / file.stem
    folder.mkdir(exist_ok=True)
    shutil.copy(file, folder / "run.json")
    return folder


def test_runs_of_earlier_versions_are_still_read(tmp_path: Path) -> None:
    stored = Path(__file__).parents[1] / "golden" / "records"  # written by earlier versions, with fewer tasks
    files = [*sorted((SCHEMAS.parent / "measured").rglob("run.json")), *sorted(stored.glob("run-*.json"))]
    versions = {json.loads(file.read_text(encoding="utf-8"))["schema_version"] for file in files}
    assert "1.0" in versions
    for file in files:
        written = json.loads(file.read_text(encoding="utf-8"))["tasks"]
        for task, before in zip(figeval.load(named_as_a_run(file, tmp_path)).record.tasks, written, strict=True):
            assert (task.kind, task.of) == (before.get("kind", "task"), before.get("of"))
            assert task.task_type == before.get("task_type", before.get("protocol"))
