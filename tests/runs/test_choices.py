"""Which tasks a run really does: alternatives that stand in a task's place, suites of which a part is left out,
metrics that were asked for, and those that depend on all rows.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from figeval import CapabilityError, TaskError, UnknownName, collective, hookimpl
from figeval.testing.fakes import FakeEncoder, FakeLanguageModel, FakePairScorer
from tests.runs.conftest import write_task

PAIRS = """
name: labelled
type: pairs
labels: [yes_, no_]
data: {test: "jsonl:t.jsonl"}
fields: {id: row.id, left: row.q, right: row.q, label: "'yes_'"}
"""
SUITE = "name: both\ntasks: [t, labelled]\n"


class Loud:
    """Scores pairs only on demand: a model that labels pairs and nothing else."""

    deterministic_by_name = True

    def label_pairs(self, requests):
        return [{"yes_": 0.5, "no_": 0.5} for _ in requests]


@pytest.fixture
def suite(workshop):
    write_task(workshop.folder, "t")
    (workshop.folder / "labelled.task.yaml").write_text(PAIRS)
    (workshop.folder / "both.suite.yaml").write_text(SUITE)
    workshop.backend = Loud()
    return workshop


def test_what_a_model_cannot_answer_is_left_out_of_a_suite_and_said(suite):
    record = suite.run("both")
    assert [task.task for task in record.tasks] == ["labelled"]
    (omission,) = record.left_out
    assert (omission.tasks, omission.reason) == (["t"], "the model cannot answer them")


def test_a_task_asked_for_by_name_is_refused(suite):
    with pytest.raises(CapabilityError, match="cannot answer t: this model offers label_pairs"):
        suite.run("both", "t")


def test_the_counterpart_of_a_task_asked_for_by_name_is_refused(suite):
    (suite.folder / "labelled.task.yaml").write_text(f"{PAIRS}protocols: {{published: t}}\n")
    (suite.folder / "other.task.yaml").write_text(PAIRS.replace("labelled", "other"))
    with pytest.raises(CapabilityError, match="cannot answer t"):
        suite.run("labelled", "other", protocol="published")


def test_a_suite_of_which_nothing_is_left_is_refused(suite):
    (suite.folder / "both.suite.yaml").write_text("name: both\ntasks: [t]\n")
    with pytest.raises(CapabilityError, match="cannot answer t"):
        suite.run("both")


def test_a_threshold_does_not_part_three_labels(suite):
    """A model that only scores pairs has no route to three labels: out of a suite they are left, by name refused."""
    three = PAIRS.replace("labelled", "three").replace("[yes_, no_]", "[yes_, no_, maybe_]")
    (suite.folder / "three.task.yaml").write_text(three)
    (suite.folder / "both.suite.yaml").write_text("name: both\ntasks: [labelled, three]\n")
    suite.backend = FakePairScorer(lambda left, right: 0.7)
    record = suite.run("both")
    assert [task.task for task in record.tasks] == ["labelled"]
    with pytest.raises(CapabilityError, match="cannot answer three"):
        suite.run("three")


# ---- --protocol and --split ------------------------------------------------------------------------------------------


@pytest.fixture
def doubled(workshop):
    """Task `t` has another protocol and another split; `u` has neither."""
    for name in ("t", "t_published", "t_authors", "u"):
        write_task(workshop.folder, name)
    with (workshop.folder / "t.task.yaml").open("a") as file:
        file.write("protocols: {published: t_published}\nsplits: {authors: t_authors}\n")
    return workshop


def test_another_task_stands_in_the_place_of_those_that_have_it(doubled):
    record = doubled.run("t", "u", protocol="published")
    assert [task.task for task in record.tasks] == ["t_published", "u"]


def test_another_split(doubled):
    assert [task.task for task in doubled.run("u", "t", split="authors").tasks] == ["u", "t_authors"]


def test_the_split_test_is_the_task_itself(doubled):
    assert [task.task for task in doubled.run("u", "t", split="test").tasks] == ["u", "t"]


@pytest.mark.parametrize("target", ["labelled", "other", "both"])
def test_a_setting_may_name_the_task_in_whose_place_another_stands(target, suite):
    (suite.folder / "labelled.task.yaml").write_text(f"{PAIRS}splits: {{authors: other}}\n")
    (suite.folder / "other.task.yaml").write_text(PAIRS.replace("labelled", "other"))
    suite.backend = FakePairScorer(lambda left, right: 0.7)
    record = suite.run("both", split="authors", settings={f"{target}.threshold": 0.3}, routes={"pairs": "by_threshold"})
    assert [task.settings.get("threshold") for task in record.tasks if task.task == "other"] == [0.3]


@pytest.mark.parametrize(
    ("tasks", "flags", "complaint"),
    [
        (("t",), {"protocol": "publshed"}, "--protocol publshed: none of these tasks has it.*they have published"),
        (("u",), {"split": "authors"}, "--split authors: none of these tasks has it; they have no others"),
    ],
)
def test_what_none_of_the_tasks_has_is_refused(doubled, tasks, flags, complaint):
    with pytest.raises(TaskError, match=complaint):
        doubled.run(*tasks, **flags)


# ---- a task's own route ----------------------------------------------------------------------------------------------


class Both(FakePairScorer, FakeEncoder):
    """Embeds, and scores pairs."""

    def __init__(self):
        FakePairScorer.__init__(self)
        self.longest = 10_000

    def embed(self, texts):
        return [(1.0, float(len(text.text))) for text in texts]


def test_a_task_may_prefer_a_route(workshop):
    write_task(workshop.folder, "t")
    workshop.backend = Both()
    assert workshop.run().tasks[0].route == "by_pair_score"
    with (workshop.folder / "t.task.yaml").open("a") as file:
        file.write("route: by_cosine\n")
    workshop.path = workshop.path / "second"
    assert workshop.run().tasks[0].route == "by_cosine"
    workshop.path = workshop.path / "third"
    assert workshop.run(routes={"choice": "by_pair_score"}).tasks[0].route == "by_pair_score"


def test_vectors_that_were_trained_with_the_dot_product_are_compared_by_it(workshop):
    write_task(workshop.folder, "t")
    workshop.backend = FakeEncoder(function=lambda text: (float(len(text)), 0.0))
    assert workshop.run().tasks[0].counts["ties"] == 20  # all point the same way
    workshop.path = workshop.path / "second"
    workshop.backend.similarity = "dot"
    record = workshop.run()
    assert record.tasks[0].route == "by_dot"
    assert record.model.capabilities == ["dot", "embed"]
    assert "ties" not in record.tasks[0].counts or record.tasks[0].counts["ties"] < 20


# ---- metrics ---------------------------------------------------------------------------------------------------------


def ranks(rows, names, settings):
    """How many earlier rows gave the same answer; of every second row only."""
    assert names == ["echoes"]
    seen: list = []
    row_ranks = []
    for index, row in enumerate(rows):
        row_ranks.append((float(seen.count(row["pred"])), 1.0) if index % 2 == 0 else None)
        seen.append(row["pred"])
    return {"echoes": row_ranks}


class Echoes:
    @hookimpl
    def register_metrics(self, register):
        register("echoes", collective(ranks), True, ("choice",))
        register("for_pairs", lambda example, prediction: 1.0, True, ("pairs",))


def test_a_metric_that_depends_on_all_rows_is_stored_with_each_and_summed_up(workshop):
    write_task(workshop.folder, "t", n=8)
    record = workshop.run(metrics=("echoes",), harness=workshop.harness(Echoes()))
    (score,) = [score for score in record.tasks[0].scores if score.metric == "echoes"]
    rows = workshop.rows()
    values = [row["metrics"].get("echoes") for row in rows]
    assert [value is None for value in values] == [False, True] * 4
    assert score.n == 4
    assert score.value == sum(value for value in values if value is not None) / 4
    again = workshop.run(metrics=("echoes",), harness=workshop.harness(Echoes()))
    assert again.tasks[0].scores == record.tasks[0].scores
    assert workshop.rows() == rows


def test_baselines_have_the_metrics_that_were_asked_for_and_mean_something_on_their_route(workshop):
    """Chance goes another route than the model, on which log-likelihoods per character mean nothing."""
    write_task(workshop.folder, "t", n=8)
    file = workshop.folder / "t.task.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("[acc, acc_norm]", "[acc]"), encoding="utf-8")
    workshop.backend = FakeLanguageModel()
    (task,) = workshop.run(metrics=("echoes", "acc_norm"), harness=workshop.harness(Echoes())).tasks
    assert [score.metric for score in task.scores] == ["acc", "echoes", "acc_norm"]
    (chance,) = task.baselines
    values = {score.metric: score.value for score in chance.scores}
    # All options tie and the first is stored, so every other row has 0, 2, 4 and 6 equal ones before it.
    assert values == {"acc": pytest.approx(1 / 3), "echoes": 3.0}


def test_such_a_metric_says_that_a_limit_makes_it_another(workshop):
    write_task(workshop.folder, "t", n=8)
    record = workshop.run(metrics=("echoes",), limit=3, harness=workshop.harness(Echoes()))
    assert record.tasks[0].warnings == [
        "echoes depends on the number of examples, so scores with --limit 3 are not comparable with those on all 8"
    ]


def test_a_metric_that_was_asked_for_must_be_for_some_task(workshop):
    write_task(workshop.folder, "t")
    with pytest.raises(TaskError, match="--metrics for_pairs: it applies to pairs, not to these tasks"):
        workshop.run(metrics=("for_pairs",), harness=workshop.harness(Echoes()))
    with pytest.raises(UnknownName, match="echos"):
        workshop.run(metrics=("echos",), harness=workshop.harness(Echoes()))


class Picky:
    """A metric that cannot read what `chance` answers: every option is equally good."""

    def __init__(self, works: bool = False) -> None:
        self.works = works

    @hookimpl
    def register_metrics(self, register):
        def margin(example, prediction):
            first, second = sorted(prediction.scores, reverse=True)[:2]
            if first == second and not self.works:
                raise ZeroDivisionError("no margin")
            return first - second

        register("margin", margin, True, ("choice",))


def test_a_metric_that_fails_on_a_baseline_names_it_and_keeps_the_scores_of_the_task(workshop):
    write_task(workshop.folder, "t")
    file = workshop.folder / "t.task.yaml"
    text = file.read_text(encoding="utf-8").replace("[acc, acc_norm]", "[acc, margin]")
    file.write_text(text.replace("[chance]", "[chance, random]"), encoding="utf-8")

    def run(**picky):
        return workshop.run(harness=workshop.harness(Picky(**picky)))

    record = run()
    (task,) = record.tasks
    assert (record.status, task.status, task.error) == ("complete", "done", None)
    assert [(score.metric, score.n) for score in task.scores] == [("acc", 20), ("margin", 20)]
    assert [baseline.baseline for baseline in task.baselines] == ["random"]
    (warning,) = task.warnings
    assert warning == "the baseline chance has no scores: ZeroDivisionError: no margin (metric 'margin', example 't0')"
    assert run().tasks[0].warnings == [warning]  # tried again, and said again
    mended = run(works=True).tasks[0]
    assert ([baseline.baseline for baseline in mended.baselines], mended.warnings) == (["chance", "random"], [])


def run_with_metrics(workshop, *metrics):
    """Run the task with `acc` and metrics that the plugin "Moody" brings."""

    class Moody:
        @hookimpl
        def register_metrics(self, register):
            for name, target in metrics:
                register(name, target, True, ("choice",))

    names = tuple(name for name, _ in metrics)
    return workshop.run(metrics=names, harness=workshop.harness(Moody()))


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (lambda rows, names, settings: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda rows, names, settings: {name: [(1.0, 1.0)] for name in names}, "ValueError: zip"),
        (lambda rows, names, settings: {"elsewhere": [(1.0, 1.0)] * 8}, "KeyError: 'elsewhere'"),
        (lambda rows, names, settings: None, "AttributeError: 'NoneType' object"),
    ],
)
def test_a_collective_metric_that_fails_is_named(family, message, workshop):
    write_task(workshop.folder, "t", n=8)
    metric = collective(family)
    (task,) = run_with_metrics(workshop, ("nearest", metric), ("furthest", metric)).tasks
    assert task.status == "failed"
    last = task.error.rstrip().splitlines()[-1]
    assert last.startswith(message)
    assert last.endswith("(metrics 'nearest', 'furthest', all 8 examples together)")


def test_metrics_that_change_the_working_folder_and_print(workshop, capsys, monkeypatch):
    monkeypatch.chdir(workshop.folder)
    write_task(workshop.folder, "t", n=8)

    def wandering(example, prediction):
        os.chdir("/")
        print("on the road")
        return 1.0

    def strolling(rows, names, settings):
        os.chdir("/")
        return {name: [(1.0, 1.0) for _ in rows] for name in names}

    record = run_with_metrics(workshop, ("wandering", wandering), ("strolling", collective(strolling)))
    assert record.status == "complete"
    assert {score.metric: score.value for score in record.tasks[0].scores}["wandering"] == 1.0
    assert Path.cwd() == workshop.folder
    out, err = capsys.readouterr()
    assert "on the road" not in out
    assert [line for line in err.splitlines() if "changed the working folder" in line] == [
        "figeval: warning: plugin 'Moody': metric 'wandering' changed the working folder; it was changed back",
        "figeval: warning: plugin 'Moody': metric 'strolling' changed the working folder; it was changed back",
    ]
