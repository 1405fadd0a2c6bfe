"""Contrasts of suites: how well a model tells the examples of several tasks apart, beside its score on each."""

from __future__ import annotations

import json
import zlib

import pytest

from figeval import RunConfig, TaskError, plugins
from figeval.metrics.discrimination import Judged, auc
from figeval.metrics.seeds import discrimination_over_seeds
from figeval.records.run_folder import RunFolder
from figeval.records.schema import CHOSEN_ON_TEST
from figeval.reporting.table import grids, notes
from figeval.runs.baselines import Baselines
from figeval.runs.contrasts import ContrastAnswer, contrasts_of, scores
from figeval.runs.seeds import scores_of
from figeval.runs.selection_bias import withhold_intervals
from figeval.runs.stored import load_exporters
from figeval.testing.fakes import FakeGenerator, FakeLanguageModel, FakePairScorer
from tests.runs.conftest import Heard

TASK = """
name: {name}
type: pairs
data: {{test: "jsonl:{name}.jsonl"}}
labels: {labels}
fields: {{id: row.id, left: row.left, right: row.right, label: row.label, meta: {{idiom: row.idiom}}}}
verbalizer: {{"yes": "Yes", "no": "No"}}
cluster: idiom
only_label: {label}
baselines: [chance, overlap]
prompts: {{loud: loud.jinja}}
{more}
"""
SUITE = """
name: s
tasks: [pos, neg]
macro_mean: false
contrasts:
  all: {tasks: [pos, neg]}
  within: {tasks: [pos, neg], within: idiom}
"""
LOUD_TEMPLATE = """
{% block context %}LOUD {{ left }} {{ right }}{% endblock %}
{% block word %}LOUD {{ left }} {{ right }}{% endblock %}
{% block cloze %}LOUD {{ left }} {{ gap }} {{ right }}{% endblock %}
"""


def write_suite(folder, suite=SUITE, extra="", labels='["yes", "no"]', n=24):
    """Two tasks with opposite right answers: positive pairs share more words, but for every fourth one."""
    for name, label in (("pos", "yes"), ("neg", "no")):
        rows = [
            {
                "id": f"{name}{i}",
                "left": f"one two three four {i}",
                "right": " ".join(
                    ["one", "two", "three", "four", "five"][: 4 if (label == "yes") == bool(i % 4) else 2]
                ),
                "label": label,
                "idiom": f"idiom {i % 6}" if i % 5 else None,
            }
            for i in range(n)
        ]
        text = TASK.format(name=name, label=f'"{label}"', labels=labels, more=extra)
        (folder / f"{name}.task.yaml").write_text(text, encoding="utf-8")
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "s.suite.yaml").write_text(suite, encoding="utf-8")
    (folder / "loud.jinja").write_text(LOUD_TEMPLATE, encoding="utf-8")


def values(record, name="s:all"):
    contrast = next(contrast for contrast in record.contrasts if contrast.name == name)
    return {score.metric: score.value for score in contrast.scores}


def test_a_liking_for_one_answer_moves_the_columns_and_not_the_area(workshop):
    write_suite(workshop.folder)
    eager, shy = (workshop.run("s", threshold=threshold, fresh=True) for threshold in (1, 10))
    columns = [[task.scores[0].value for task in record.tasks] for record in (eager, shy)]
    assert columns == [[1.0, 0.0], [0.0, 1.0]]
    assert values(eager)["auc"] == values(shy)["auc"] > 0.6
    assert values(eager)["balanced_acc"] == values(shy)["balanced_acc"] == 0.5


def test_the_record_counts_both_kinds_and_has_baselines(workshop):
    write_suite(workshop.folder)
    record = workshop.run("s")
    over_all, within = record.contrasts
    assert (over_all.label, over_all.positive, over_all.negative, over_all.tasks) == ("yes", 24, 24, ["pos", "neg"])
    assert (within.within, within.scores[0].n) == ("idiom", 6)
    assert (within.positive, within.negative) == (19, 19), "five of each have no idiom"
    trivial = {baseline.baseline: baseline.scores[0].value for baseline in over_all.baselines}
    assert set(trivial) == {"chance", "overlap"}
    assert trivial["chance"] == 0.5
    assert trivial["overlap"] > 0.6


def test_a_floor_is_among_the_baselines(workshop):
    write_suite(workshop.folder, extra="floor: no_query")
    record = workshop.run("s")
    assert [baseline.baseline for baseline in record.contrasts[0].baselines] == ["chance", "overlap", "shuffled_query"]
    assert [contrast.variant for contrast in record.contrasts] == [None, None]


def test_a_run_that_was_cut_short_has_the_same_contrasts_and_baselines(workshop):
    write_suite(workshop.folder, extra="floor: no_query")
    uninterrupted = workshop.run("s")
    (workshop.path / "run").rename(workshop.path / "whole")
    with pytest.raises(KeyboardInterrupt):
        workshop.run("s", observer=Heard(stop_after=60))
    assert workshop.run("s").contrasts == uninterrupted.contrasts
    assert workshop.run("s").contrasts == uninterrupted.contrasts, "the same command once more"


def test_a_finished_run_asks_no_baseline_again(workshop, monkeypatch):
    write_suite(workshop.folder)
    before = workshop.run("s").contrasts
    monkeypatch.setattr(Baselines, "ask", lambda *_: pytest.fail("asked again"))
    assert workshop.run("s").contrasts == before


def test_prompts_have_contrasts_of_their_own_and_a_spread(workshop):
    write_suite(workshop.folder)
    workshop.backend = FakeLanguageModel(
        function=lambda context, option: float(("LOUD" in context) == (option == " Yes"))
    )
    record = workshop.run("s", prompts=("all",))
    assert [contrast.name for contrast in record.contrasts] == ["s:all", "s:all@loud", "s:within", "s:within@loud"]
    spread = next(spread for spread in record.spreads if (spread.task, spread.metric) == ("s:all", "auc"))
    assert (spread.prompts, spread.range) == (2, 0.0)


def test_means_over_seeds_have_an_interval(workshop):
    """Three trainings, here three models. Intervals are those over what the rows of the seeds say."""
    write_suite(workshop.folder)
    runs, folders, judged = {}, {}, []
    for seed in range(3):
        workshop.backend = FakePairScorer(
            function=lambda left, right, seed=seed: zlib.crc32(f"{left}{seed}".encode()) % 99
        )
        runs[seed] = workshop.run("s")
        folders[str(seed)] = (workshop.path / "run").rename(workshop.path / f"seed-{seed}")
        rows = [row for task in ("pos", "neg") for row in RunFolder(folders[str(seed)]).rows(task)]
        judged.append([Judged(positive=r["gold"] == "yes", score=r["scores"][0], cluster=r["cluster"]) for r in rows])
    score_of = {(score.task, score.metric): score for score in scores_of(runs, folders)}
    area = score_of["s:all", "auc"]
    assert area.mean == pytest.approx(sum(values(run)["auc"] for run in runs.values()) / 3)
    expected = discrimination_over_seeds(auc, judged)
    assert (area.low, area.high, area.interval.method) == (expected.low, expected.high, expected.method)
    assert area.low is not None
    assert area.interval.method.startswith("over seeds and examples")
    assert score_of["s:within", "balanced_acc"].low is not None
    lines = (folders["0"] / "predictions/pos.jsonl").read_text("utf-8").splitlines()
    (folders["0"] / "predictions/pos.jsonl").write_text("\n".join(lines[1:]) + "\n", "utf-8")
    assert {score.interval.reason for score in scores_of(runs, folders) if score.task == "s:all"} == {
        "not the same examples answered"
    }


def test_answers_in_words_have_no_area_and_are_read_again(workshop):
    write_suite(workshop.folder)
    workshop.backend = FakeGenerator(function=lambda question: "Yes")
    record = workshop.run("s")
    area, balanced = record.contrasts[0].scores
    assert (area.value, area.interval.reason) == (None, "answers in words have no scores to rank by")
    assert balanced.value == 0.5
    workshop.rescore()
    from figeval.records.run_folder import read_run

    assert read_run(workshop.path / "run")[0].contrasts == record.contrasts


def test_a_split_takes_the_place_of_tasks_that_have_one(workshop):
    write_suite(workshop.folder, extra="splits: {small: few}")
    text = TASK.format(name="few", label='"yes"', labels='["yes", "no"]', more="").replace("few.jsonl", "pos.jsonl")
    (workshop.folder / "few.task.yaml").write_text(text)
    task_text = TASK.format(name="neg", label='"no"', labels='["yes", "no"]', more="")
    (workshop.folder / "neg.task.yaml").write_text(task_text)  # has no such split
    record = workshop.run("s", split="small")
    assert [contrast.tasks for contrast in record.contrasts] == [["few", "neg"]] * 2


def test_one_task_of_several_makes_no_contrast(workshop):
    write_suite(workshop.folder)
    assert workshop.run("pos").contrasts == []
    nested = "name: t\ntasks: [s]\n"
    (workshop.folder / "t.suite.yaml").write_text(nested)
    assert [contrast.name for contrast in workshop.run("t", fresh=True).contrasts] == ["s:all", "s:within"]


@pytest.mark.parametrize(
    ("suite", "words"),
    [
        (
            SUITE.replace("all: {tasks: [pos, neg]}", "all: {tasks: [pos, other]}").replace(
                "[pos, neg]", "[pos, neg, other]", 1
            ),
            "different first labels",
        ),
        (
            SUITE.replace("all: {tasks: [pos, neg]}", "all: {tasks: [pos, other]}"),
            "'other' is not a task of this suite; list",
        ),
        (SUITE.replace("all: {tasks: [pos, neg]}", "all: {tasks: [pos, ned]}"), "did you mean 'neg'"),
        (SUITE.replace("within: idiom}", "within: idoim}"), "no example has 'idoim' in meta; did you mean 'idiom'"),
        (SUITE.replace("all:", "A B:"), "cannot name a contrast"),
        (
            SUITE.replace("all: {tasks: [pos, neg]}", "all: {tasks: []}"),
            r"'all' lists no tasks; write `all: \{tasks: \[FIRST",
        ),
        (SUITE.replace("all: {tasks: [pos, neg]}", "all: [pos, neg]"), r"'all' is not a mapping; write `all: \{tasks"),
        (SUITE.partition("contrasts:")[0] + "contrasts: [all]", "write a name for each contrast"),
        (SUITE.replace("within: idiom}", "whithin: idiom}"), "whithin"),
    ],
)
def test_what_cannot_be_contrasted_is_one_line(suite, words, workshop):
    write_suite(workshop.folder, suite)
    text = TASK.format(name="other", label='"no"', labels='["no", "yes"]', more="").replace("other.jsonl", "neg.jsonl")
    (workshop.folder / "other.task.yaml").write_text(text)
    with pytest.raises(TaskError, match=words) as raised:
        workshop.run("s")
    assert "\n" not in str(raised.value)


def reasons(record, name="s:all"):
    contrast = next(contrast for contrast in record.contrasts if contrast.name == name)
    return [score.interval.reason for score in contrast.scores if score.value is None]


def test_a_task_that_failed_is_why_there_is_no_value(workshop):
    def function(context, option):
        if "one two three four 0" in context and context.count("three") == 2:  # as in one of the two tasks
            raise RuntimeError("no more memory")
        return 0.0

    write_suite(workshop.folder)
    workshop.backend = FakeLanguageModel(function=function)
    record = workshop.run("s")
    assert [task.status for task in record.tasks].count("failed") == 1
    (failed,) = (task.task for task in record.tasks if task.status == "failed")
    assert reasons(record) == reasons(record, "s:within") == [f"{failed} failed"] * 2
    workshop.backend = FakeLanguageModel(function=lambda context, option: 0.0)
    assert reasons(workshop.run("s")) == []


def test_examples_without_an_answer_are_counted_and_told(workshop):
    write_suite(workshop.folder)
    workshop.backend = FakeGenerator(function=lambda question: "Yes" if " 3" not in question else "hm")
    record = workshop.run("s")
    over_all, within = record.contrasts
    assert over_all.unanswered == 48 - over_all.positive - over_all.negative > 0
    assert within.unanswered == 38 - within.positive - within.negative > 0
    lines = [line for line in notes(record) if "unanswered" in line]
    assert lines == [
        f"s:all: {over_all.unanswered} of 48 unanswered, left out",
        f"s:within: {within.unanswered} of 38 unanswered, left out",
    ]


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (lambda question: "hm", "no example was answered"),
        (lambda question: "Yes" if " 3" in question else "hm", None),
    ],
)
def test_why_there_is_no_value_where_answers_are_missing(workshop, says, reason):
    write_suite(workshop.folder)
    workshop.backend = FakeGenerator(function=says)
    record = workshop.run("s")
    assert reasons(record)[1:] == ([reason] if reason else [])


def contrast_of(workshop, within=None):
    config = RunConfig(tasks=("s",), model="model")
    (contrast,) = (contrast for contrast in contrasts_of(config, workshop.harness()) if contrast.within == within)
    return contrast


def test_reasons_tell_kinds_from_strata(workshop):
    write_suite(workshop.folder)
    shares = {"score": 1.0, "right": 1.0}
    ours, negative = (
        ContrastAnswer(positive=True, stratum="a", **shares),
        ContrastAnswer(positive=False, stratum="b", **shares),
    )
    for answers, within, reason in (
        ([ours], None, "every answered example has the right answer yes"),
        ([negative], None, "no answered example has the right answer yes"),
        ([ours, negative], "idiom", "no idiom has answered examples of both kinds"),
        ([ours], "idiom", "every answered example has the right answer yes"),
        ([], "idiom", "no example was answered"),
    ):
        contrast_scores = scores(answers, contrast_of(workshop, within))
        assert [score.interval.reason for score in contrast_scores] == [reason] * 2


def test_seen_examples_count_once_for_each_score_they_stand_behind(workshop):
    """A score within idioms has seen examples behind it only in idioms with both kinds, and counts these examples."""
    write_suite(workshop.folder)
    answers = [
        ContrastAnswer(positive=kind, score=float(kind), right=1.0, stratum=stratum, seen=seen)
        for kind, stratum, seen in (
            (True, "a", "trained"),
            (False, "a", None),
            (True, "b", "trained"),  # alone in its idiom
            (True, "c", None),
            (False, "c", None),
        )
    ]
    answers.append(ContrastAnswer(positive=True, right=1.0, stratum="c", seen="chosen"))  # without a score
    area, balanced = scores(answers, contrast_of(workshop))
    assert area.interval.reason == "trained on 2 of 5 examples"
    assert balanced.interval.reason == "trained on 2 and chosen on 1 of 6 examples"
    area, balanced = scores(answers, contrast_of(workshop, "idiom"))
    assert (area.interval.reason, area.n, area.seen) == ("trained on 1 of 4 examples", 2, "trained")
    assert balanced.interval.reason == "trained on 1 and chosen on 1 of 5 examples"


def test_a_maximum_over_checkpoints_has_no_interval_in_contrasts_either(workshop):
    write_suite(workshop.folder)
    record = workshop.run("s")
    assert record.contrasts[0].scores[0].low is not None
    record.model.description = {"about": {"task": "pos", "selected_on": "test", "evaluations": 25}}
    withhold_intervals(record, workshop.harness())
    for score in record.contrasts[0].scores:
        assert (score.low, score.interval.reason, score.seen) == (None, CHOSEN_ON_TEST, "chosen")


def test_a_baseline_that_fails_is_told_and_costs_nothing_else(workshop, monkeypatch):
    write_suite(workshop.folder)
    record = workshop.run("s")
    contrasts, record.contrasts = record.contrasts, []
    RunFolder(workshop.path / "run").write(record)  # as an earlier session leaves it
    scoring = Baselines._scoring

    def failing(self, name, plan, examples, unseen):
        if name == "overlap" and plan.name == "neg":
            raise ZeroDivisionError("no words")
        return scoring(self, name, plan, examples, unseen)

    monkeypatch.setattr(Baselines, "_scoring", failing)
    again = workshop.run("s")
    assert [baseline.baseline for baseline in again.contrasts[0].baselines] == ["chance"]
    assert again.contrasts[0].scores == contrasts[0].scores
    lines = [line for line in again.warnings if "overlap" in line]
    assert lines == ["neg, for the contrasts: the baseline overlap has no scores: ZeroDivisionError: no words"]


@pytest.mark.wing("exporters")
def test_floors_of_two_models_stand_in_lines_of_their_own(workshop):
    """Beside another model the floor of a model is no column: both would have the numbers of the last one."""
    from figeval.wings.exporters.score_table import baseline_names, score_lines

    write_suite(workshop.folder, extra="floor: no_query")
    workshop.backend = FakePairScorer(function=lambda left, right: len(set(left) & set(right)) + len(right) / 100)
    first = workshop.run("s")
    workshop.backend = FakeLanguageModel(function=lambda context, option: float(len(context) % 3) * (option == " Yes"))
    other = workshop.run("s", fresh=True)
    assert "no_query" in baseline_names(score_lines([first]))
    together = score_lines([first, other])
    assert "no_query" not in baseline_names(together)
    floors = {line.task: line for line in together if line.metric == "auc" and "@" in line.task}
    assert set(floors) == {"s:all@no_query", "s:within@no_query"}
    for name, line in floors.items():
        assert line.baselines == {}
        for index, run in enumerate((first, other)):
            (contrast,) = (each for each in run.contrasts if name.startswith(each.name + "@"))
            (floor,) = (each for each in contrast.baselines if each.baseline == "no_query")
            assert line.scores[index] == floor.scores[0]


@pytest.mark.wing("exporters")
def test_exports_say_what_the_numbers_of_contrasts_are(workshop):
    write_suite(workshop.folder)
    record = workshop.run("s")
    exporters = load_exporters(plugins.load(modules=["figeval.wings.exporters"]))
    markdown, latex = (exporters.get(name)([record]) for name in ("markdown", "latex"))
    assert "| s:within | auc | 6 × idiom |" in markdown
    assert "auc: how often an example whose right answer is yes has a higher score" in markdown
    assert r"s:within & auc & 6 $\times$ idiom &" in latex
    assert "is yes has a higher score" in latex[latex.index("parbox") :]
    shown = [grid for grid in grids(record) if grid.title == "discrimination: yes against the rest"]
    assert [row[4:7] for row in shown[0].rows[::2]] == [
        ("24", "24", "16 (9.1 eff.)"),
        ("19", "19", "6 × idiom"),
    ]
