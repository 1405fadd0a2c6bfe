"""A stored run computed again: nothing differs where nothing was changed, and what is not computed has a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from figeval import RecordError, Reply, recompute
from figeval.testing.fakes import FakeGenerator, FakeLanguageModel, FakePairScorer
from tests.runs.conftest import Workshop, write_task
from tests.runs.test_variants import letter_of_the_word, write_prompted

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "orders": {"orders": "2"},
    "prompts and probes": {"prompts": ("all",), "probes": True},
    "samples": {"log_samples": True},
    "a part": {"limit": 6},
    "drawn": {"sample": 6, "seed": 3},
    "columns": {"by": ("kind",)},
    "few-shot": {"num_fewshot": 2},
    "without baselines": {"baselines": False},
}


def writes(question: str) -> Reply | str:
    """Reply with a letter, and now and then with nothing that can be read."""
    return Reply(text="well") if "word5 " in question else letter_of_the_word(question)


@pytest.mark.parametrize("backend", [FakeGenerator(function=writes), FakePairScorer()], ids=["words", "scores"])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_an_untouched_run_is_computed_as_it_is_stored(
    settings: dict[str, Any], backend: Any, workshop: Workshop
) -> None:
    if isinstance(backend, FakePairScorer) and not settings.keys().isdisjoint({"orders", "num_fewshot", "prompts"}):
        pytest.skip("for models that are shown a prompt")
    write_prompted(workshop.folder)
    workshop.backend = backend
    workshop.run(**settings)
    folder = workshop.output
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    run = recompute(folder, workshop.harness())
    for task in run.tasks():
        assert json.loads(json.dumps(task.new_rows)) == task.rows
        assert task.n_recomputed == task.stored.n
        assert not task.gaps
        assert task.is_scored
    assert run.record.model_dump(mode="json") == run.stored.model_dump(mode="json")
    assert not run.gaps
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


def test_the_record_needs_no_look_at_the_tasks(workshop: Workshop) -> None:
    write_task(workshop.folder, "t")
    workshop.run()
    run = recompute(workshop.output / "run.json", workshop.harness())
    assert run.record.tasks[0].scores == run.stored.tasks[0].scores
    assert run.scored == {"t"}
    assert not list(run.tasks())


def test_without_data_the_scores_are_computed_and_the_rest_has_a_reason(workshop: Workshop) -> None:
    write_task(workshop.folder, "t")
    workshop.run()
    run = recompute(workshop.output, workshop.harness(), data=False)
    (task,) = run.tasks()
    assert [(gap.name, gap.is_damage) for gap in task.gaps] == [("data and baselines", False)]
    assert (task.is_scored, task.example_ids, task.new_rows) == (True, None, [])


def test_damage_is_told_from_what_is_only_missing(workshop: Workshop) -> None:
    write_task(workshop.folder, "t")
    workshop.run()
    write_task(workshop.folder, "t", row3={"g": 2})
    (task,) = recompute(workshop.output, workshop.harness()).tasks()
    assert [(gap.name, gap.is_damage) for gap in task.gaps] == [("data", True)]
    (workshop.folder / "t.jsonl").unlink()
    (workshop.folder / "t.task.yaml").unlink()
    (task,) = recompute(workshop.output, workshop.harness()).tasks()
    assert [(gap.name, gap.is_damage) for gap in task.gaps] == [("data and baselines", False)]
    assert "version 1 of t is not installed" in task.gaps[0].reason


def test_a_run_that_is_not_there(workshop: Workshop) -> None:
    with pytest.raises(RecordError, match="nothing"):
        recompute(workshop.path / "nothing", workshop.harness())


def test_a_metric_that_a_task_got_later_is_not_checked(workshop: Workshop) -> None:
    write_task(workshop.folder, "t")
    file = workshop.folder / "t.task.yaml"
    with_both = file.read_text("utf-8")
    file.write_text(with_both.replace("[acc, acc_norm]", "[acc]"), "utf-8")
    workshop.backend = FakeLanguageModel()
    workshop.run()
    file.write_text(with_both, "utf-8")
    run = recompute(workshop.output, workshop.harness())
    assert run.record.model_dump(mode="json") == run.stored.model_dump(mode="json")
    (task,) = recompute(workshop.output, workshop.harness()).tasks()
    ((name, reason),) = [(gap.name, gap.reason) for gap in task.gaps if not gap.is_damage]
    assert name == "scores" and "acc_norm" in reason
    assert json.loads(json.dumps(task.new_rows)) == task.rows


def test_a_metric_that_was_taken_out_of_the_scores_alone_is_missed(workshop: Workshop) -> None:
    write_task(workshop.folder, "t")
    workshop.backend = FakeLanguageModel()
    workshop.run()
    file = workshop.output / "run.json"
    record = json.loads(file.read_text("utf-8"))
    record["tasks"][0]["scores"] = record["tasks"][0]["scores"][:1]
    file.write_text(json.dumps(record), "utf-8")
    (task,) = recompute(workshop.output, workshop.harness()).tasks()
    assert [score.metric for score in task.record.scores] == ["acc", "acc_norm"]
