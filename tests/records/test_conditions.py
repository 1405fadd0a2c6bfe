"""What tables, comparisons and exports say of how the tasks of a run were asked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import RecordError, Run, RunRecord
from tests.finished_runs import run, store, task

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "records" / "conditions.json").read_text("utf-8"))
MINILM = {"name": "minilm", "backend": "encoder"}
CONCEPTS = {"augment": {"add": "concepts", "from": "train", "k": 3, "retriever": "minilm"}}


def notes(record: RunRecord) -> list[str]:
    """Return the lines below the table of a run."""
    return Run(record, Path("nowhere")).notes()


def labels(records: list[RunRecord], folder: Path) -> list[str]:
    """Return what the columns of runs are called in a table, without the identities of those that are called alike."""
    folders = [store(folder / str(number), record) for number, record in enumerate(records)]
    table = figeval.export(folders, to="markdown")
    assert table is not None
    head = table.splitlines()[0].strip("| ").split(" | ")[-len(records) :]
    return [re.sub(r" \([0-9a-f]{8}\)$", "", cell) for cell in head]


@pytest.mark.parametrize("case", GOLDEN["notes"], ids=lambda case: case["why"][:48])
def test_notes(case: dict[str, Any]) -> None:
    assert notes(run(task(settings=case["settings"]))) == case["notes"]


@pytest.mark.parametrize("case", GOLDEN["labels"], ids=lambda case: case["why"][:48])
def test_labels(case: dict[str, Any], tmp_path: Path) -> None:
    runs = [run(task(settings=settings), model=MINILM) for settings in case["runs"]]
    assert labels(runs, tmp_path) == case["labels"]


@pytest.mark.parametrize("case", GOLDEN["flags"], ids=lambda case: case["why"][:48])
def test_labels_name_the_flags_in_which_runs_of_one_model_differ(case: dict[str, Any], tmp_path: Path) -> None:
    runs = [
        run(
            task(settings=flags.get("settings", {})),
            model={"name": flags.get("model", "tiny"), "backend": "causal", "options": flags.get("options", {})},
            config=flags.get("config", {}),
        )
        for flags in case["runs"]
    ]
    assert labels(runs, tmp_path) == case["labels"]


def test_a_condition_of_some_tasks_names_them() -> None:
    record = run(task("a", settings=CONCEPTS), task("b"), task("c", settings=CONCEPTS))
    assert notes(record) == [
        "augmented: concepts of the 3 nearest training examples (minilm) (a, c)",
    ]


def test_a_probe_does_not_speak_for_the_run() -> None:
    probe = task("a@no_query", kind="probe", of="a", variant="no_query", settings={"num_fewshot": 3})
    assert not notes(run(task("a"), probe))


@pytest.mark.parametrize(
    "settings",
    [{"augment": "concepts"}, {"augment": {"k": [3]}}, {"fewshot_sampler": 3}, {"system_instruction": ["x"]}],
    ids=lambda settings: next(iter(settings)),
)
def test_a_damaged_record_is_refused_when_it_is_read(settings: dict[str, Any], tmp_path: Path) -> None:
    file = store(tmp_path, run(task(settings={}))) / "run.json"
    file.write_text(file.read_text("utf-8").replace('"settings":{}', f'"settings":{json.dumps(settings)}'), "utf-8")
    with pytest.raises(RecordError, match=next(iter(settings))) as refused:
        figeval.load(tmp_path)
    assert "\n" not in str(refused.value)
