"""What tables, comparisons and exports say of how the tasks of a run were asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from figeval import RecordError
from figeval.records import conditions
from figeval.records.run_folder import read_record
from figeval.records.schema import ModelRecord
from tests.finished_runs import run, task

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "records" / "conditions.json").read_text("utf-8"))
CONCEPTS = {"augment": {"add": "concepts", "from": "train", "k": 3, "retriever": "minilm"}}


@pytest.mark.parametrize("case", GOLDEN["notes"], ids=lambda case: case["why"][:48])
def test_notes(case: dict[str, Any]) -> None:
    assert list(conditions.notes(run(task(settings=case["settings"])))) == case["notes"]


@pytest.mark.parametrize("case", GOLDEN["labels"], ids=lambda case: case["why"][:48])
def test_labels(case: dict[str, Any]) -> None:
    model = ModelRecord(name="minilm", backend="encoder")
    runs = [run(task(settings=settings), model=model) for settings in case["runs"]]
    assert conditions.labels(runs) == case["labels"]


@pytest.mark.parametrize("case", GOLDEN["flags"], ids=lambda case: case["why"][:48])
def test_labels_name_the_flags_in_which_runs_of_one_model_differ(case: dict[str, Any]) -> None:
    runs = [
        run(
            task(settings=flags.get("settings", {})),
            model=ModelRecord(name=flags.get("model", "tiny"), backend="causal", options=flags.get("options", {})),
            config=flags.get("config", {}),
        )
        for flags in case["runs"]
    ]
    assert conditions.labels(runs) == case["labels"]


def test_a_condition_of_some_tasks_names_them() -> None:
    record = run(task("a", settings=CONCEPTS), task("b"), task("c", settings=CONCEPTS))
    assert list(conditions.notes(record)) == [
        "augmented: concepts of the 3 nearest training examples (minilm) (a, c)",
    ]


def test_a_probe_does_not_speak_for_the_run() -> None:
    probe = task("a@no_query", kind="probe", of="a", variant="no_query", settings={"num_fewshot": 3})
    assert not list(conditions.notes(run(task("a"), probe)))


@pytest.mark.parametrize(
    "settings",
    [{"augment": "concepts"}, {"augment": {"k": [3]}}, {"fewshot_sampler": 3}, {"system_instruction": ["x"]}],
    ids=lambda settings: next(iter(settings)),
)
def test_a_damaged_record_is_refused_when_it_is_read(settings: dict[str, Any], tmp_path: Path) -> None:
    stored = run(task()).model_dump(mode="json")
    stored["tasks"][0]["settings"] = settings
    file = tmp_path / "run.json"
    file.write_text(json.dumps(stored), encoding="utf-8")
    with pytest.raises(RecordError, match=next(iter(settings))) as refused:
        read_record(file)
    assert "\n" not in str(refused.value)
