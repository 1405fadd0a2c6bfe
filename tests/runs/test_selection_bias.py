"""Examples that a model was trained on or chosen on: every report says so, and no score there has an interval."""

from __future__ import annotations

import json
import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from figeval import Harness, RecordError, RunConfig, RunRecord
from figeval.io.observer import Observer
from figeval.models.model import open_model
from figeval.records.run_folder import RunFolder
from figeval.records.schema import CHOSEN_ON_TEST, ModelRecord
from figeval.records.seen import FILE, Ancestor, Lineage, lineage_of
from figeval.records.sweep import run_or_mean
from figeval.reporting import table
from figeval.runs.lineage import line_of
from figeval.runs.run import run as run_pipeline
from figeval.runs.score import Aggregator, MetricSet
from figeval.runs.selection_bias import helper_of, withhold_intervals
from figeval.runs.stored import load_exporters, with_breakdown
from tests import finished_runs, trainings
from tests.finished_runs import compare_runs
from tests.plugins.tiny import Workshop
from tests.wings.training.linear import Heard

WARNING = "chosen on the test split of mini_retrieval: its score there is a maximum over 25 evaluations"


@pytest.fixture(scope="module")
def harness() -> Harness:
    return Harness()


def of_model(*names: str, **about: Any) -> RunRecord:
    """A run of a model of which figeval.json says this, with made-up scores on tasks of these names."""
    record = {"about": {"task": "mini_retrieval", "selected_on": "test", "evaluations": 25, **about}}
    model = ModelRecord(name="proverbs", backend="encoder", description=record)
    return finished_runs.run(*(finished_runs.task(name) for name in names), model=model)


def test_the_task_and_the_run_say_it_and_the_interval_is_gone(harness: Harness) -> None:
    record = of_model("mini_retrieval", "mini_pairs")
    withhold_intervals(record, harness)
    chosen, other = record.tasks
    (score,) = chosen.scores
    assert (score.value, score.low, score.high, score.stderr) == (0.25, None, None, None)
    assert score.interval.reason == CHOSEN_ON_TEST
    assert chosen.warnings == [WARNING]
    assert chosen.baselines[0].scores[0].low == 0.1  # a baseline was not chosen
    assert (other.scores[0].low, other.warnings) == (0.1, [])
    assert record.warnings == [f"proverbs was {WARNING}"]


def test_twice_is_once(harness: Harness) -> None:
    record = of_model("mini_retrieval")
    withhold_intervals(record, harness)
    once = record.model_copy(deep=True)
    withhold_intervals(record, harness)
    assert record == once


@pytest.mark.parametrize("about", [{"selected_on": "dev"}, {"selected_on": "none"}, {"selected_on": None}])
def test_a_model_that_was_not_is_left_alone(harness: Harness, about: dict[str, Any]) -> None:
    record = of_model("mini_retrieval", **about)
    before = record.model_copy(deep=True)
    withhold_intervals(record, harness)
    assert record == before
    nothing = finished_runs.run(finished_runs.task("mini_retrieval"))
    withhold_intervals(nothing, harness)
    assert not nothing.warnings


def test_prompts_and_tasks_about_the_same_examples_are_concerned_too(harness: Harness) -> None:
    record = of_model("mini_retrieval@short", "epic_motif", "epic_retrieval_seen", task="epic_retrieval_seen")
    record.tasks[0].of = "mini_retrieval"
    withhold_intervals(record, harness)
    assert [task.scores[0].interval.reason == CHOSEN_ON_TEST for task in record.tasks] == [False, True, True]
    prompt = of_model("mini_retrieval@short", "a_task_that_is_not_installed")
    prompt.tasks[0].of = "mini_retrieval"
    withhold_intervals(prompt, harness)
    assert [task.scores[0].interval.reason == CHOSEN_ON_TEST for task in prompt.tasks] == [True, False]


@pytest.mark.wing("exporters")
def test_every_report_marks_the_score(harness: Harness) -> None:
    record = of_model("mini_retrieval", "mini_pairs")
    withhold_intervals(record, harness)
    formats = load_exporters(harness.manager)
    markdown, latex, csv = (formats.get(name)([record]) for name in ("markdown", "latex", "csv"))
    assert "| 0.250† |" in markdown and "| 0.250 [0.100, 0.500] |" in markdown
    assert "† the model was chosen on some of these examples" in markdown and WARNING in markdown
    assert r"0.250$^\dagger$" in latex and r"$^\dagger$: the model was chosen on some" in latex
    assert WARNING.replace("_", r"\_") in latex
    assert CHOSEN_ON_TEST in csv
    console = Console(width=200, record=True, file=StringIO())
    table.show(record, console)
    shown = console.export_text()
    assert (
        "0.2500†" in shown
        and f"mini_retrieval: {WARNING}" in shown
        and "† the model was chosen on some of these" in shown
    )
    plain = formats.get("markdown")([finished_runs.run(finished_runs.task())])
    assert "†" not in plain


# ---- from a training to its reports ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `base`, and `part`, which was trained on some of the 60 narratives of `mini`."""
    folder = tmp_path_factory.mktemp("models")
    shutil.copytree(Workshop(folder / "made")("bert", "Model"), folder / "base")
    train_model(folder, "part", limit=20)
    return folder


OTHER_TASK = """
name: elsewhere
type: ranking
data: {train: "jsonl:elsewhere.jsonl", test: "mini:retrieval"}
fields: {id: row.id, query: row.narrative, candidates: row.candidates, relevant: row.relevant}
metrics: [acc, mrr]
"""


def write_other(folder: Path) -> None:
    """A task whose test examples are those of `mini_retrieval`, and whose training examples are others."""
    folder.mkdir(exist_ok=True)
    (folder / "elsewhere.task.yaml").write_text(OTHER_TASK, encoding="utf-8")
    rows = [
        {"id": f"e{n}", "narrative": f"He saw {n} sails.", "candidates": ["one", "two"], "relevant": n % 2}
        for n in range(16)
    ]
    (folder / "elsewhere.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def train_model(folder: Path, name: str, model: str = "base", **changes: Any) -> Path:
    """The folder of a model that took two steps on `mini:retrieval`."""
    from figeval.wings.training.pipeline import complete_training

    write_other(folder / "tasks")
    options = {"limit": None, "evaluate": (), **changes}
    complete_training(trainings.config(folder / model, folder / "tasks", folder / name, **options), Heard())
    return folder / name


def run_of_model(model: Path | str, folder: Path, *tasks: str, **settings: Any) -> RunRecord:
    """A run of a model on tasks."""
    config = RunConfig(tasks=tasks, model=str(model), output_path=folder, **settings)
    return run_pipeline(config, Harness(), Observer())[0]


@pytest.mark.slow
def test_training_examples_are_counted_marked_and_left_out_of_a_score_of_their_own(models: Path) -> None:
    record = run_of_model(models / "part", models / "run", "mini_retrieval", "mini_pairs", by=("proverb",))
    task, other = record.tasks
    assert (task.overlap.trained, task.overlap.chosen, task.overlap.rest) == (18, 2, 40)
    assert task.warnings == ["20 of 60 examples were seen: trained on 18, chosen on 2"]
    for score, rest in zip(task.scores, task.overlap.scores, strict=True):
        assert (score.seen, score.low, score.high, score.stderr) == ("trained", None, None, None)
        assert score.interval.reason == "trained on 18 and chosen on 2 of 60 examples"
        assert (rest.metric, rest.seen, rest.n) == (score.metric, None, 40)
        assert rest.low is not None
    assert [baseline.scores[0].n for baseline in task.overlap.baselines] == [40] * len(task.baselines)
    assert (other.overlap.trained, other.overlap.rest, other.scores[0].seen) == (0, 60, None)
    assert record.model.lineage.ancestors[1].model == str(models / "base")
    for group in task.breakdowns[0].groups:
        rows = RunFolder(models / "run").rows("mini_retrieval")
        seen = any(row.get("seen") for row in rows if row["meta"]["proverb"] == group.value)
        assert (group.scores[0].seen is not None) == seen
        assert group.scores[0].seen is None or group.scores[0].low is None


def test_a_probe_of_an_example_that_was_seen_is_marked_too(models: Path) -> None:
    """The model knows its answer, whatever the probe takes from the question."""
    record = run_of_model(models / "part", models / "probes", "mini_retrieval", probes=True)
    task, without, shuffled = record.tasks
    assert (without.overlap.trained, without.overlap.chosen) == (task.overlap.trained, task.overlap.chosen) == (18, 2)
    rows = RunFolder(models / "probes").rows
    seen = {row["id"] for row in rows(task.task) if row.get("seen")}
    assert seen == {row["id"] for row in rows(without.task) if row.get("seen")}
    assert seen < {row["id"] for row in rows(shuffled.task) if row.get("seen")}
    assert {score.low for score in (*without.scores, *shuffled.scores)} == {None}


def test_the_score_on_the_rest_is_that_of_a_run_on_the_rest(models: Path) -> None:
    """Also by metrics that depend on the other examples."""
    record = run_of_model(models / "part", models / "motif", "mini_motif")
    (task,) = record.tasks
    rows = [row for row in RunFolder(models / "motif").rows("mini_motif") if not row.get("seen")]
    harness = Harness()
    metrics = MetricSet([harness.metrics.get(score.metric, task.task_type) for score in task.scores], ())
    card = Aggregator(metrics, strict=False)
    for row in metrics.related(rows, task.settings):
        card.add(row)
    assert task.overlap.scores == card.scores(0)
    assert 0 < task.overlap.rest == len(rows) < 60


@pytest.mark.wing("exporters")
def test_every_report_has_the_mark_and_the_rest(models: Path) -> None:
    record = run_of_model(models / "part", models / "run", "mini_retrieval", "mini_pairs", by=("proverb",))
    (score, *_), (rest, *_) = record.tasks[0].scores, record.tasks[0].overlap.scores
    console = Console(width=200, record=True, file=StringIO())
    table.show(record, console)
    shown = console.export_text()
    assert (
        f"{score.value:.4f}‡" in shown
        and "remaining examples" in shown
        and f"{rest.low:.3f} to {rest.high:.3f}" in shown
    )
    assert (
        "mini_retrieval: 20 of 60 examples were seen: trained on 18" in shown and "‡ the model was trained on" in shown
    )
    formats = load_exporters(Harness().manager)
    markdown, latex, csv, json_ = (formats.get(name)([record]) for name in ("markdown", "latex", "csv", "json"))
    for text, mark in ((markdown, "‡"), (latex, r"$^\ddagger$")):
        assert f"{score.value:.3f}{mark}" in text and f"{rest.value:.3f}" in text and "(remaining)" in text
        assert "trained on some of these examples" in text
    lines = [row for row in json.loads(json_) if row["task"] == "mini_retrieval" and row["metric"] == score.metric]
    line_of = {(row["kind"], row["model"]): row for row in lines}
    assert line_of["model", record.model.name]["seen"] == "trained"
    assert line_of["model", record.model.name]["low"] is None
    assert line_of["model (remaining)", record.model.name]["low"] == rest.low
    assert line_of["baseline (remaining)", "chance"]["n"] == 40
    assert "model (remaining)" in csv and "none: trained on 18" in csv


def test_a_model_inherits_what_its_ancestors_have_seen_even_if_they_are_gone(models: Path) -> None:
    shutil.copytree(models / "part", models / "parent")
    child = train_model(models, "child", "parent", task="tiny_again", limit=10)
    shutil.rmtree(models / "parent")
    line = lineage_of("child", child)
    assert [Path(ancestor.model).name for ancestor in line.ancestors] == ["child", "parent", "base"]
    assert not line.unknown
    (task,) = run_of_model(child, models / "of-child", "mini_retrieval").tasks
    assert task.overlap.trained >= 18


def test_a_pipeline_has_seen_what_its_parts_have(models: Path) -> None:
    options = {"ranker": str(models / "part"), "spans": "random"}
    record = run_of_model("pipeline", models / "pipe", "mini_retrieval", model_args=options)
    assert record.tasks[0].overlap.trained == 18
    assert [Path(ancestor.model).name for ancestor in record.model.lineage.ancestors] == ["part", "base", "random"]


def test_the_same_texts_in_another_task_are_the_same_examples(models: Path) -> None:
    record = run_of_model(models / "part", models / "others", "mini_proverbs", "mini_fables")
    assert [(task.overlap.trained, task.overlap.chosen) for task in record.tasks] == [(18, 2), (0, 0)]


def test_what_an_older_figeval_trained_is_unknown_until_its_command_is_given_again(models: Path) -> None:
    shutil.copytree(models / "part", models / "old")
    (models / "old" / FILE).unlink()
    before = run_of_model(models / "old", models / "of-old", "mini_retrieval")
    assert any("the training examples of" in text for text in before.warnings)
    assert (before.tasks[0].overlap, before.tasks[0].scores[0].seen) == (None, None)
    train_model(models, "old", limit=20)
    assert (models / "old" / FILE).read_bytes() == (models / "part" / FILE).read_bytes()
    after = run_of_model(
        models / "old", models / "of-old", "mini_retrieval"
    )  # the same run goes on, nothing is asked again
    assert (after.tasks[0].overlap.trained, after.tasks[0].scores[0].seen) == (18, "trained")
    assert len(after.tasks[0].overlap.baselines) == len(after.tasks[0].baselines)


def test_what_was_read_without_labels_was_trained_on(models: Path) -> None:
    reader = train_model(models, "reader", limit=20, head="mlm", head_args={})
    again = train_model(models, "again", "reader", task="elsewhere")
    (task,) = run_of_model(again, models / "of-again", "mini_retrieval").tasks
    assert (task.overlap.trained, task.overlap.chosen) == (18, 2)
    assert lineage_of("reader", reader).trained != lineage_of("part", models / "part").trained


@pytest.mark.slow
@pytest.mark.wing("comparison")
def test_a_comparison_is_over_what_neither_model_has_seen(models: Path) -> None:

    run_of_model(models / "part", models / "a", "mini_retrieval")
    run_of_model("overlap", models / "b", "mini_retrieval")
    (comparison,) = compare_runs(models / "a", models / "b", "mrr").tasks
    assert (comparison.seen, comparison.comparison.n) == (20, 40)
    all_seen = train_model(models, "whole")
    run_of_model(all_seen, models / "c", "mini_retrieval")
    with pytest.raises(RecordError, match="mini_retrieval: a model was trained or chosen on these examples"):
        compare_runs(models / "c", models / "b", "mrr")


@pytest.mark.slow
@pytest.mark.wing("training")
def test_seeds_have_no_interval_of_what_was_seen_but_one_of_the_rest(models: Path) -> None:
    from figeval.wings.training.sweep import Sweep

    config = trainings.config(
        models / "base", models / "tasks", models / "seeds", limit=20, evaluate=("mini_retrieval",)
    )
    record = Sweep(config, Heard(), str).train_seeds((0, 1))
    seen, unseen = record.scores[:2]
    assert (seen.seen, seen.low, seen.unseen_only) == ("trained", None, False)
    assert (unseen.seen, unseen.n, unseen.unseen_only) == (None, 40, True)
    mean = run_or_mean(models / "seeds").tasks[0]
    assert (mean.scores[0].seen, mean.scores[0].low) == ("trained", None)
    assert (mean.overlap.scores[0].value, mean.overlap.scores[0].low) == (unseen.mean, unseen.low)


@pytest.mark.slow
def test_from_the_training_to_the_run_and_its_breakdown(models: Path) -> None:
    """Chosen on test: every task about these examples says so, and so does every model that is trained from it."""
    trained_elsewhere = train_model(models, "apart", task="elsewhere", select_on="test", evaluate_every=0.1)
    says = "chosen on the test split of elsewhere: its score there is a maximum over 2 evaluations"
    record = run_of_model(trained_elsewhere, models / "of-apart", "mini_joint", by=("proverb",))
    assert record.warnings == [f"{trained_elsewhere} was {says}"]
    assert {score.seen for score in record.tasks[0].scores} == {"chosen"}
    assert {score.low for score in record.tasks[0].scores} == {None}
    for run_record in (record, with_breakdown(models / "of-apart", "proverb", Harness().metrics)):
        groups = run_record.tasks[0].breakdowns[0].groups
        assert {score.low for group in groups for score in group.scores} == {None}
    child = train_model(models, "child-of-apart", "apart", task="elsewhere")
    record = run_of_model(child, models / "of-child-of-apart", "mini_joint")
    assert f"{trained_elsewhere} was {says}" in record.warnings
    assert {score.low for score in record.tasks[0].scores} == {None}


def test_a_model_that_descends_from_one_that_picked_the_wrong_options_is_at_a_disadvantage(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By ancestry, whatever a folder is called."""
    harness = Harness()
    tfidf = open_model(harness.backends, "tfidf", {})
    assert helper_of(["glove", "tfidf"], line_of(tfidf), harness) == "tfidf"
    pipe = open_model(harness.backends, "pipeline", {"ranker": str(models / "part"), "spans": "random"})
    assert helper_of(["random"], line_of(pipe), harness) == "random"
    renamed = shutil.copytree(models / "part", models / "tfidf")
    assert helper_of(["tfidf"], line_of(open_model(harness.backends, str(renamed), {})), harness) is None
    monkeypatch.chdir(models)  # where a folder is called like a registered model
    assert helper_of(["tfidf"], line_of(tfidf), harness) == "tfidf"
    from_hub = Lineage((Ancestor("models/x", {"trained_from": "org/picker"}), Ancestor("org/picker")))
    assert helper_of(["picker"], from_hub, harness) == "picker"
