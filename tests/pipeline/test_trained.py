"""A checkpoint that was chosen on test: every report says so, and no interval is left around its scores there."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from figeval import plugins
from figeval.config import RunConfig
from figeval.pipeline import Harness
from figeval.pipeline import run as run_pipeline
from figeval.pipeline.stored import with_breakdown
from figeval.pipeline.trained import own_up
from figeval.pipeline.training.complete import complete
from figeval.records.schema import CHOSEN_ON_TEST, ModelRecord, RunRecord
from figeval.report import table
from figeval.report.exporters import load_exporters
from tests import runs, trainings
from tests.plugins.tiny import Workshop
from tests.runs import Deaf
from tests.training.linear import Heard

SAYS = "chosen on the test split of mini_retrieval: its score there is a maximum over 25 evaluations"


@pytest.fixture(scope="module")
def harness() -> Harness:
    return Harness(plugins.host())


def of_model(*names: str, **about: Any) -> RunRecord:
    """A run of a model of which figeval.json says this, with made-up scores on tasks of these names."""
    told = {"about": {"task": "mini_retrieval", "selected_on": "test", "evaluations": 25, **about}}
    model = ModelRecord(name="proverbs", backend="encoder", description=told)
    return runs.run(*(runs.task(name) for name in names), model=model)


def test_the_task_and_the_run_say_it_and_the_interval_is_gone(harness: Harness) -> None:
    record = of_model("mini_retrieval", "mini_pairs")
    own_up(record, harness)
    chosen, other = record.tasks
    (score,) = chosen.scores
    assert (score.value, score.low, score.high, score.stderr) == (0.25, None, None, None)
    assert score.interval == CHOSEN_ON_TEST
    assert chosen.warnings == [SAYS]
    assert chosen.baselines[0].scores[0].low == 0.1  # a baseline was not chosen
    assert (other.scores[0].low, other.warnings) == (0.1, [])
    assert record.warnings == [f"proverbs was {SAYS}"]


def test_twice_is_once(harness: Harness) -> None:
    record = of_model("mini_retrieval")
    own_up(record, harness)
    once = record.model_copy(deep=True)
    own_up(record, harness)
    assert record == once


@pytest.mark.parametrize("about", [{"selected_on": "dev"}, {"selected_on": "none"}, {"selected_on": None}])
def test_a_model_that_was_not_is_left_alone(harness: Harness, about: dict[str, Any]) -> None:
    record = of_model("mini_retrieval", **about)
    before = record.model_copy(deep=True)
    own_up(record, harness)
    assert record == before
    nothing = runs.run(runs.task("mini_retrieval"))
    own_up(nothing, harness)
    assert not nothing.warnings


def test_prompts_and_tasks_about_the_same_examples_are_concerned_too(harness: Harness) -> None:
    record = of_model("mini_retrieval@short", "epic_motif", "epic_retrieval_seen", task="epic_retrieval_seen")
    record.tasks[0].of = "mini_retrieval"
    own_up(record, harness)
    assert [task.scores[0].interval == CHOSEN_ON_TEST for task in record.tasks] == [False, True, True]
    prompt = of_model("mini_retrieval@short", "a_task_that_is_not_installed")
    prompt.tasks[0].of = "mini_retrieval"
    own_up(prompt, harness)
    assert [task.scores[0].interval == CHOSEN_ON_TEST for task in prompt.tasks] == [True, False]


def test_every_report_marks_the_score(harness: Harness) -> None:
    record = of_model("mini_retrieval", "mini_pairs")
    own_up(record, harness)
    formats = load_exporters(harness.host)
    markdown, latex, csv = (formats.get(name)([record]) for name in ("markdown", "latex", "csv"))
    assert "| 0.250† |" in markdown and "| 0.250 [0.100, 0.500] |" in markdown
    assert "† the model was chosen on this test split" in markdown and SAYS in markdown
    assert r"0.250$^\dagger$" in latex and r"$^\dagger$: the model was chosen" in latex and SAYS in latex
    assert CHOSEN_ON_TEST in csv
    console = Console(width=200, record=True, file=StringIO())
    table.show(record, console)
    shown = console.export_text()
    assert "0.2500†" in shown and f"mini_retrieval: {SAYS}" in shown and "† the model was chosen by this score" in shown
    plain = formats.get("markdown")([runs.run(runs.task())])
    assert "†" not in plain


def test_from_the_training_to_the_run_and_its_breakdown(tmp_path: Path) -> None:
    model = Workshop(tmp_path)("bert", "Model")
    asked = trainings.config(model, tmp_path / "tasks", tmp_path / "out", select_on="test", evaluate_every=0.1)
    record = complete(asked, Heard())
    assert record is not None
    says = "chosen on the test split of tiny_retrieval: its score there is a maximum over 2 evaluations"
    assert record.warnings == [f"{record.model.name} was {says}"]
    assert {score.interval for score in record.tasks[0].scores} == {CHOSEN_ON_TEST}
    harness = Harness(include=(tmp_path / "tasks",))
    config = RunConfig(
        tasks=("tiny_again",), model=str(tmp_path / "out"), output_path=tmp_path / "again", by=("proverb",)
    )
    second, folder = run_pipeline(config, harness, Deaf())
    assert second.tasks[0].warnings == [says]
    for found in (second, with_breakdown(folder, "proverb", harness.metrics)):
        groups = found.tasks[0].breakdowns[0].groups
        assert {score.interval for group in groups for score in group.scores} == {CHOSEN_ON_TEST}
