"""Examples that a model was trained on or chosen on: every report says so, and no score there has an interval."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import Harness, RecordError, RunRecord
from figeval.testing.fakes import FakeLanguageModel, FakePairScorer
from tests import trainings
from tests.finished_runs import compare_runs, finished, write_trained_model
from tests.plugins.tiny import Workshop

pytestmark = pytest.mark.filterwarnings("ignore:the checkpoint is chosen on only")
CHOSEN_ON_TEST = "chosen on test"
MAXIMUM = "its score there is a maximum over 25 evaluations"
WARNING = f"chosen on the test split of mini_retrieval: {MAXIMUM}"
TASK = """
name: {name}
type: ranking
data: {{train: "jsonl:{name}.jsonl", test: "mini:retrieval"}}
fields: {{id: row.id, query: row.narrative, candidates: row.candidates, relevant: row.relevant}}
metrics: [acc, mrr]
"""


def write_other(folder: Path, name: str = "elsewhere", line: str = "") -> Path:
    """Write a task whose test examples are those of `mini_retrieval`, and whose training examples are others."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.task.yaml").write_text(TASK.format(name=name) + line, encoding="utf-8")
    rows = [
        {"id": f"e{n}", "narrative": f"He saw {n} sails.", "candidates": ["one", "two"], "relevant": n % 2}
        for n in range(16)
    ]
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def run_chosen(folder: Path, *tasks: str, model: Any = None, prompts: Any = (), **about: Any) -> figeval.Run:
    """Run a model that says of itself that it was chosen on the test split of `mini_retrieval`."""
    about = {"task": "mini_retrieval", "selected_on": "test", "evaluations": 25, **about}
    model = model or FakePairScorer()
    model.describe = lambda: {"about": about}
    return figeval.run(tasks, model, name="proverbs", prompts=prompts, output_path=folder / "run")


def test_the_task_and_the_run_say_it_and_the_interval_is_gone(tmp_path: Path) -> None:
    record = run_chosen(tmp_path, "mini_retrieval", "mini_pairs").record
    chosen, other = record.tasks
    for score in chosen.scores:
        assert score.value is not None
        assert (score.low, score.high, score.stderr, score.interval.reason) == (None, None, None, CHOSEN_ON_TEST)
    assert chosen.warnings == [WARNING]
    overlap = next(baseline for baseline in chosen.baselines if baseline.baseline == "overlap")
    assert overlap.scores[0].low is not None  # a baseline was not chosen
    assert (other.scores[0].low is None, other.warnings) == (False, [])
    assert record.warnings == [f"proverbs was {WARNING}"]
    again = run_chosen(tmp_path, "mini_retrieval", "mini_pairs").record
    assert [task.warnings for task in (*again.tasks, again)] == [[WARNING], [], [f"proverbs was {WARNING}"]]


@pytest.mark.parametrize(
    "about", [{"selected_on": "dev"}, {"selected_on": "none"}, {"selected_on": None}, {"task": "gone"}]
)
def test_a_model_that_was_not_is_left_alone(tmp_path: Path, about: dict[str, Any]) -> None:
    record = run_chosen(tmp_path, "mini_retrieval", **about).record
    assert not record.tasks[0].warnings
    assert all(score.low is not None and score.seen is None for score in record.tasks[0].scores)


def test_prompts_and_tasks_about_the_same_examples_are_concerned_too(tmp_path: Path) -> None:
    tasks = ("mini_retrieval", "mini_situations", "mini_pairs")
    record = run_chosen(tmp_path, *tasks, model=FakeLanguageModel(), prompts=("short",), task="mini_situations").record
    assert {task.task: task.scores[0].interval.reason == CHOSEN_ON_TEST for task in record.tasks} == {
        "mini_retrieval": True,
        "mini_retrieval@short": True,
        "mini_situations": True,
        "mini_pairs": False,
        "mini_pairs@short": False,
    }


@pytest.mark.wing("exporters")
def test_every_report_marks_the_score(tmp_path: Path) -> None:
    run = run_chosen(tmp_path, "mini_retrieval", "mini_pairs")
    (score, *_), (other, *_) = (task.scores for task in run.record.tasks)
    markdown, latex, csv, shown = run.to_markdown(), run.to_latex(), run.export("csv"), str(run)
    assert f"| {score.value:.3f}† |" in markdown and f"| {other.value:.3f} [" in markdown
    assert "† the model was chosen on some of these examples" in markdown and WARNING in markdown
    assert rf"{score.value:.3f}$^{{\P}}$" in latex and r"$^{\P}$: the model was chosen on some" in latex
    assert WARNING.replace("_", r"\_") in latex
    assert CHOSEN_ON_TEST in csv
    assert f"{score.value:.4f}†" in shown and f"mini_retrieval: {WARNING}" in shown
    assert "† the model was chosen on some of these" in shown


# ---- from a training to its reports ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `base`, and `part`, which was trained on some of the 60 narratives of `mini`."""
    folder = tmp_path_factory.mktemp("models")
    shutil.copytree(Workshop(folder / "made")("bert", "Model"), folder / "base")
    train_model(folder, "part", limit=20)
    return folder


def train_model(folder: Path, name: str, model: str = "base", **changes: Any) -> Path:
    """Train a model for two steps on `mini:retrieval`, and return its folder."""
    write_other(folder / "tasks")
    config = trainings.config(folder / model, folder / "tasks", folder / name, **{"evaluate": (), **changes})
    options = config.model_dump(by_alias=True, exclude_unset=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", figeval.FigevalWarning)  # of a dev set so small that any model is right
        figeval.train(options.pop("task"), options.pop("model"), options.pop("output"), **options)
    return folder / name


def run_of_model(model: Path | str, folder: Path, *tasks: str, **settings: Any) -> RunRecord:
    """Run a model on tasks."""
    return figeval.load(finished(folder, *tasks, model=str(model), **settings)).record


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
        rows = figeval.load(models / "run").rows("mini_retrieval")
        seen = any(row.get("seen") for row in rows if row["meta"]["proverb"] == group.value)
        assert (group.scores[0].seen is not None) == seen
        assert group.scores[0].seen is None or group.scores[0].low is None


@pytest.mark.slow
def test_a_probe_of_an_example_that_was_seen_is_marked_too(models: Path) -> None:
    """The model knows its answer, whatever the probe takes from the question."""
    record = run_of_model(models / "part", models / "probes", "mini_retrieval", probes=True)
    task, without, shuffled = record.tasks
    assert (without.overlap.trained, without.overlap.chosen) == (task.overlap.trained, task.overlap.chosen) == (18, 2)
    rows = figeval.load(models / "probes").rows
    seen = {row["id"] for row in rows(task.task) if row.get("seen")}
    assert seen == {row["id"] for row in rows(without.task) if row.get("seen")}
    assert seen < {row["id"] for row in rows(shuffled.task) if row.get("seen")}
    assert {score.low for score in (*without.scores, *shuffled.scores)} == {None}


def test_the_score_on_the_rest_is_that_of_a_run_on_the_rest(models: Path) -> None:
    """Also by metrics that depend on the other examples."""
    run = figeval.load(finished(models / "motif", "mini_motif", model=str(models / "part"), baselines=False))
    (task,) = run.record.tasks
    unseen = {row["id"] for row in run.rows("mini_motif") if not row.get("seen")}
    harness = Harness()
    spec = harness.catalogue.tasks.get("mini_motif")
    make_rest = figeval.task(name="rest", type=spec.type, metrics=spec.metrics, cluster=spec.cluster, baselines=())
    rest = make_rest(lambda: (example for example in harness.examples(spec) if example.id in unseen))
    alone = figeval.run(rest, str(models / "part"), output_path=models / "rest").record.tasks[0]
    assert task.overlap.scores == alone.scores
    assert 0 < task.overlap.rest == len(unseen) < 60


@pytest.mark.wing("exporters")
def test_every_report_has_the_mark_and_the_rest(models: Path) -> None:
    record = run_of_model(models / "part", models / "run", "mini_retrieval", "mini_pairs", by=("proverb",))
    (score, *_), (rest, *_) = record.tasks[0].scores, record.tasks[0].overlap.scores
    run = figeval.load(models / "run")
    shown = str(run)
    assert (
        f"{score.value:.4f}‡" in shown
        and "remaining examples" in shown
        and f"{rest.low:.3f} to {rest.high:.3f}" in shown
    )
    assert (
        "mini_retrieval: 20 of 60 examples were seen: trained on 18" in shown and "‡ the model was trained on" in shown
    )
    markdown, latex, csv, json_ = (run.export(name) for name in ("markdown", "latex", "csv", "json"))
    for text, mark in ((markdown, "‡"), (latex, r"$^{\S}$")):
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
    record = run_of_model(child, models / "of-child", "mini_retrieval")
    line = record.model.lineage
    assert [Path(ancestor.model).name for ancestor in line.ancestors] == ["child", "parent", "base"]
    assert not line.unknown
    assert record.tasks[0].overlap.trained >= 18


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
    (models / "old" / "seen.txt").unlink()
    before = run_of_model(models / "old", models / "of-old", "mini_retrieval")
    assert any("the training examples of" in text for text in before.warnings)
    assert (before.tasks[0].overlap, before.tasks[0].scores[0].seen) == (None, None)
    train_model(models, "old", limit=20)
    assert (models / "old" / "seen.txt").read_bytes() == (models / "part" / "seen.txt").read_bytes()
    after = run_of_model(
        models / "old", models / "of-old", "mini_retrieval"
    )  # the same run goes on, nothing is asked again
    assert (after.tasks[0].overlap.trained, after.tasks[0].scores[0].seen) == (18, "trained")
    assert len(after.tasks[0].overlap.baselines) == len(after.tasks[0].baselines)


@pytest.mark.slow
def test_what_was_read_without_labels_was_trained_on(models: Path) -> None:
    reader = train_model(models, "reader", limit=20, head="mlm", head_args={})
    again = train_model(models, "again", "reader", task="elsewhere")
    (task,) = run_of_model(again, models / "of-again", "mini_retrieval").tasks
    assert (task.overlap.trained, task.overlap.chosen) == (18, 2)
    assert (reader / "seen.txt").read_bytes() != (models / "part" / "seen.txt").read_bytes()


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
def test_seeds_have_no_interval_of_what_was_seen_but_one_of_the_rest(models: Path, cli: Callable[..., Any]) -> None:
    tasks = trainings.write_tasks(models / "tasks")
    flags = {"task": "tiny_retrieval", "model": models / "base", "output": models / "seeds", "include_path": tasks}
    flags |= {"limit": 20, "evaluate": "mini_retrieval", "seeds": "0,1", "head_args": "pooling=mean", "batch_size": 8}
    flags |= {"max_steps": 2, "lr": 0.01, "device": "cpu"}
    outcome = cli("train", *(text for name, value in flags.items() for text in (f"--{name}", str(value))))
    assert outcome.code == 0, outcome.err
    seen, unseen = json.loads((models / "seeds" / "seeds.json").read_text(encoding="utf-8"))["scores"][:2]
    assert (seen["seen"], seen["low"], seen["unseen_only"]) == ("trained", None, False)
    assert (unseen["seen"], unseen["n"], unseen["unseen_only"]) == (None, 40, True)
    mean = figeval.load(models / "seeds").record.tasks[0]
    assert (mean.scores[0].seen, mean.scores[0].low) == ("trained", None)
    assert (mean.overlap.scores[0].value, mean.overlap.scores[0].low) == (unseen["mean"], unseen["low"])


@pytest.mark.slow
def test_from_the_training_to_the_run_and_its_breakdown(models: Path) -> None:
    """Chosen on test: every task about these examples says so, and so does every model that is trained from it."""
    trained_elsewhere = train_model(models, "apart", task="elsewhere", select_on="test", evaluate_every=0.1)
    says = "chosen on the test split of elsewhere: its score there is a maximum over 2 evaluations"
    record = run_of_model(trained_elsewhere, models / "of-apart", "mini_joint", by=("proverb",))
    assert record.warnings == [f"{trained_elsewhere} was {says}"]
    assert {score.seen for score in record.tasks[0].scores} == {"chosen"}
    assert {score.low for score in record.tasks[0].scores} == {None}
    for run_record in (record, figeval.load(models / "of-apart").by("proverb").record):
        groups = run_record.tasks[0].breakdowns[0].groups
        assert {score.low for group in groups for score in group.scores} == {None}
    child = train_model(models, "child-of-apart", "apart", task="elsewhere")
    record = run_of_model(child, models / "of-child-of-apart", "mini_joint")
    assert f"{trained_elsewhere} was {says}" in record.warnings
    assert {score.low for score in record.tasks[0].scores} == {None}


@pytest.mark.slow
def test_a_model_that_descends_from_one_that_picked_the_wrong_options_is_at_a_disadvantage(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By ancestry, whatever a folder is called."""

    def helpers(built_with: str, model: Any, **options: Any) -> list[str]:
        folder = write_other(tmp_path / "tasks", "built", f"built_with: [{built_with}]\n")
        run = figeval.run("built", model, include_path=folder, fresh=True, output_path=tmp_path / "run", **options)
        return [
            text.partition("help of ")[2].split(",")[0] for text in run.record.tasks[0].warnings if "help of" in text
        ]

    assert helpers("glove, tfidf", "tfidf") == ["tfidf"]
    assert helpers("random", "pipeline", model_args={"ranker": str(models / "part"), "spans": "random"}) == ["random"]
    renamed = shutil.copytree(models / "part", models / "tfidf")
    assert helpers("tfidf", str(renamed)) == []
    monkeypatch.chdir(models)  # where a folder is called like a registered model
    assert helpers("tfidf", "tfidf") == ["tfidf"]
    from_hub = FakePairScorer()
    folder = write_trained_model(tmp_path / "from hub", origin="org/picker")
    from_hub.source = lambda: folder  # type: ignore[attr-defined]
    assert helpers("picker", from_hub) == ["picker"]
