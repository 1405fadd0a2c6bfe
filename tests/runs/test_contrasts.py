"""Contrasts of suites: how well a model tells the examples of several tasks apart, beside its score on each."""

from __future__ import annotations

import json
import re
import zlib

import pytest

import figeval
from figeval import PairExample, TaskError
from figeval.testing.fakes import FakeGenerator, FakeLanguageModel, FakePairScorer
from tests.finished_runs import write_trained_model
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
            {"id": f"{name}{i}", **texts(name, i), "label": label, "idiom": f"idiom {i % 6}" if i % 5 else None}
            for i in range(n)
        ]
        text = TASK.format(name=name, label=f'"{label}"', labels=labels, more=extra)
        (folder / f"{name}.task.yaml").write_text(text, encoding="utf-8")
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "s.suite.yaml").write_text(suite, encoding="utf-8")
    (folder / "loud.jinja").write_text(LOUD_TEMPLATE, encoding="utf-8")


def texts(name, number):
    words = 4 if (name == "pos") == bool(number % 4) else 2
    return {"left": f"one two three four {number}", "right": " ".join(["one", "two", "three", "four"][:words])}


def is_positive(question):
    """Whether a question is one of the task `pos`, and its number."""
    number = int(re.search(r"one two three four (\d+)", question)[1])
    return (question.count("one two three four") == 2) == bool(number % 4), number


def replace_overlap(folder, baseline):
    """Give both tasks another baseline."""
    for name in ("pos", "neg"):
        file = folder / f"{name}.task.yaml"
        file.write_text(file.read_text("utf-8").replace("overlap]", f"{baseline}]"), "utf-8")


def values(record, name="s:all"):
    contrast = next(contrast for contrast in record.contrasts if contrast.name == name)
    return {score.metric: score.value for score in contrast.scores}


def test_a_liking_for_one_answer_moves_the_columns_and_not_the_area(workshop):
    write_suite(workshop.folder)
    eager, shy = (workshop.run("s", settings={"threshold": threshold}, fresh=True) for threshold in (1, 10))
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
    workshop.output.rename(workshop.path / "whole")
    with pytest.raises(KeyboardInterrupt):
        workshop.run("s", observer=Heard(stop_after=60))
    assert workshop.run("s").contrasts == uninterrupted.contrasts
    assert workshop.run("s").contrasts == uninterrupted.contrasts, "the same command once more"


def test_a_finished_run_asks_no_baseline_again(workshop):
    write_suite(workshop.folder)
    replace_overlap(workshop.folder, "counting")
    counting = FakePairScorer()
    before = workshop.run("s", harness=workshop.harness(counting=counting)).contrasts
    assert [baseline.baseline for baseline in before[0].baselines] == ["chance", "counting"]
    request_count = len(counting.asked)
    assert workshop.run("s", harness=workshop.harness(counting=counting)).contrasts == before
    assert len(counting.asked) == request_count


def test_prompts_have_contrasts_of_their_own_and_a_spread(workshop):
    write_suite(workshop.folder)
    workshop.backend = FakeLanguageModel(
        function=lambda context, option: float(("LOUD" in context) == (option == " Yes"))
    )
    record = workshop.run("s", prompts=("all",))
    assert [contrast.name for contrast in record.contrasts] == ["s:all", "s:all@loud", "s:within", "s:within@loud"]
    spread = next(spread for spread in record.spreads if (spread.task, spread.metric) == ("s:all", "auc"))
    assert (spread.prompts, spread.range) == (2, 0.0)


def score_seeds(workshop, *without):
    """Score three seeds of a system, the first one without answers to these examples; return the lines of the means."""
    rows = []
    for seed in range(3):
        for task, number in ((task, number) for task in ("pos", "neg") for number in range(24)):
            share = zlib.crc32(f"{task}{number}{seed}".encode()) % 99 / 99
            if seed or f"{task}{number}" not in without:
                rows.append({"task": task, "id": f"{task}{number}", "seed": seed, "scores": [share, 1 - share]})
    run = figeval.score("s", rows, name="x", include_path=workshop.folder, output_path=workshop.output, fresh=True)
    lines = json.loads((run.path / "seeds.json").read_text("utf-8"))["scores"]
    return {(line["task"], line["metric"]): line for line in lines}


def test_means_over_seeds_have_an_interval(workshop):
    write_suite(workshop.folder)
    line_of = score_seeds(workshop)
    area = line_of["s:all", "auc"]
    runs = [figeval.load(workshop.output / f"seed-{seed}").record for seed in range(3)]
    assert area["mean"] == pytest.approx(sum(values(run)["auc"] for run in runs) / 3)
    assert area["low"] < area["mean"] < area["high"]
    assert area["interval"].startswith("over seeds and examples")
    assert line_of["s:within", "balanced_acc"]["low"] is not None
    line_of = score_seeds(workshop, "pos3")
    assert [line_of["s:all", metric]["low"] for metric in ("auc", "balanced_acc")] == [None, None]
    assert "not the same examples answered" in line_of["s:all", "auc"]["interval"]


def test_answers_in_words_have_no_area_and_are_read_again(workshop):
    write_suite(workshop.folder)
    workshop.backend = FakeGenerator(function=lambda question: "Yes")
    record = workshop.run("s")
    area, balanced = record.contrasts[0].scores
    assert (area.value, area.interval.reason) == (None, "answers in words have no scores to rank by")
    assert balanced.value == 0.5
    workshop.rescore()
    assert workshop.load().record.contrasts == record.contrasts


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
    lines = [line for line in workshop.load().notes() if "unanswered" in line]
    assert lines == [
        f"s:all: {over_all.unanswered} of 48 unanswered, left out",
        f"s:within: {within.unanswered} of 38 unanswered, left out",
    ]


ONLY_YES = "every answered example has the right answer yes"
ONLY_NO = "no answered example has the right answer yes"


@pytest.mark.parametrize(
    ("is_answered", "reason", "reason_within"),
    [
        (lambda positive, number: False, "no example was answered", "no example was answered"),
        (lambda positive, number: number % 10 == 3, None, None),
        (lambda positive, number: positive, ONLY_YES, ONLY_YES),
        (lambda positive, number: not positive, ONLY_NO, ONLY_NO),
        (lambda positive, number: positive == bool(number % 2), None, "no idiom has answered examples of both kinds"),
    ],
)
def test_why_there_is_no_value_where_answers_are_missing(workshop, is_answered, reason, reason_within):
    write_suite(workshop.folder)
    workshop.backend = FakeGenerator(
        function=lambda question: "Yes" if is_answered(*is_positive(question)) else "hm",
    )
    record = workshop.run("s")
    _, balanced = record.contrasts[0].scores
    _, within = record.contrasts[1].scores
    assert [score.interval.reason if score.value is None else None for score in (balanced, within)] == [
        reason,
        reason_within,
    ]


def test_seen_examples_count_once_for_each_score_they_stand_behind(workshop):
    """A score within idioms has seen examples behind it only in idioms with both kinds, and counts these examples."""
    write_suite(workshop.folder)
    trained, chosen = (PairExample(id="", label="yes", **texts("pos", number)) for number in (1, 5))  # 5: no idiom
    folder = write_trained_model(workshop.path / "model", [trained], [chosen])
    workshop.backend.source = lambda: folder
    over_all, within = workshop.run("s").contrasts
    for score in over_all.scores:
        assert score.interval.reason == "trained on 1 and chosen on 1 of 48 examples"
    for score in within.scores:
        assert (score.interval.reason, score.n, score.seen) == ("trained on 1 of 38 examples", 6, "trained")


def test_a_maximum_over_checkpoints_has_no_interval_in_contrasts_either(workshop):
    write_suite(workshop.folder)
    assert workshop.run("s").contrasts[0].scores[0].low is not None
    about = {"task": "pos", "selected_on": "test", "evaluations": 25}
    workshop.backend.describe = lambda: {"about": about}
    for score in workshop.run("s", fresh=True).contrasts[0].scores:
        assert (score.low, score.seen) == (None, "chosen")
        assert score.interval.reason == "chosen on test"


def test_a_baseline_that_fails_is_told_and_costs_nothing_else(workshop):
    def fragile(left, right):
        if is_broken and not is_positive(f"{left} {right}")[0]:
            raise ZeroDivisionError("no words")
        return float(len(right))

    write_suite(workshop.folder)
    replace_overlap(workshop.folder, "fragile")
    is_broken = False
    record = workshop.run("s", harness=workshop.harness(fragile=FakePairScorer(function=fragile)))
    workshop.edit_record(lambda content: content.pop("contrasts"))  # as an earlier session leaves it
    is_broken = True
    again = workshop.run("s", harness=workshop.harness(fragile=FakePairScorer(function=fragile)))
    assert [baseline.baseline for baseline in again.contrasts[0].baselines] == ["chance"]
    assert again.contrasts[0].scores == record.contrasts[0].scores
    lines = [(task.task, line) for task in again.tasks for line in task.warnings if "fragile" in line]
    assert lines == [("neg", "for the contrasts, the baseline fragile has no scores: ZeroDivisionError: no words")]


@pytest.mark.wing("exporters")
def test_floors_of_two_models_stand_in_lines_of_their_own(workshop):
    """Beside another model the floor of a model is no column: both would have the numbers of the last one."""
    write_suite(workshop.folder, extra="floor: no_query")
    runs = []
    for name, model in (
        ("first", FakePairScorer(function=lambda left, right: len(set(left) & set(right)) + len(right) / 100)),
        ("other", FakeLanguageModel(function=lambda text, option: float(len(text) % 3) * (option == " Yes"))),
    ):
        workshop.backend = model
        workshop.run("s")
        runs.append(figeval.load(workshop.output.rename(workshop.path / name)))
    assert "no_query" in figeval.export(runs[0], to="markdown").splitlines()[0]
    header, *lines = figeval.export(runs, to="markdown").splitlines()
    assert "no_query" not in header
    cells = [[cell.strip() for cell in line.split("|")] for line in lines if "@no_query | auc" in line]
    assert [row[1] for row in cells] == ["s:all@no_query", "s:within@no_query"]
    for row, *contrasts in zip(cells, *(run.record.contrasts for run in runs), strict=True):
        for contrast in contrasts:
            (floor,) = (each for each in contrast.baselines if each.baseline == "no_query")
            assert any(cell.startswith(f"{floor.scores[0].value:.3f}") for cell in row)


@pytest.mark.wing("exporters")
def test_exports_say_what_the_numbers_of_contrasts_are(workshop):
    write_suite(workshop.folder)
    workshop.run("s")
    run = workshop.load()
    markdown, latex = run.to_markdown(), run.to_latex()
    assert "| s:within | auc | 6 × idiom |" in markdown
    assert "auc: how often an example whose right answer is yes has a higher score" in markdown
    assert r"s:within & auc & 6 $\times$ idiom &" in latex
    assert "is yes has a higher score" in latex[latex.index("parbox") :]
    (grid,) = [grid for grid in run.grids if grid.title == "discrimination: yes against the rest"]
    assert [row[4:7] for row in grid.rows[::2]] == [
        ("24", "24", "16 (9.1 eff.)"),
        ("19", "19", "6 × idiom"),
    ]
