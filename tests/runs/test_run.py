"""A run from task files to run.json, killed, resumed, failing in parts."""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys

import pytest

from figeval import CapabilityError, DataError, ModelError, OutputStream, Part, RecordError, Reply, TaskError, hookimpl
from figeval.testing.fakes import FakeGenerator, FakeLanguageModel, FakePairScorer
from tests.runs.conftest import Heard, write_task


def test_a_whole_run(workshop):
    write_task(workshop.folder, "t")
    record = workshop.run()
    (task,) = record.tasks
    right = sum(1 for i in range(20) if i % 4)
    assert record.status == "complete"
    assert (task.task, task.route, task.status, task.n, task.counts) == ("t", "by_pair_score", "done", 20, {"ok": 20})
    assert [score.metric for score in task.scores] == ["acc"]  # acc_norm is for log-likelihoods
    assert task.scores[0].value == right / 20
    assert task.scores[0].clusters == 5
    assert task.baselines[0].baseline == "chance"
    chance = task.baselines[0].scores[0]
    assert chance.value == pytest.approx(1 / 3)
    assert (chance.low, chance.high, chance.interval.reason) == (None, None, "an exact expectation")
    assert json.loads((workshop.output / "run.json").read_text())["tasks"][0]["scores"][0]["metric"] == "acc"
    assert [row["metrics"] for row in workshop.rows()[:2]] == [{"acc": 0.0}, {"acc": 1.0}]
    assert "texts" not in workshop.rows()[0]


def test_a_run_killed_half_way_goes_on_and_ends_as_an_undisturbed_one(workshop):
    write_task(workshop.folder, "t", 200)
    with pytest.raises(KeyboardInterrupt):
        workshop.run(observer=Heard(stop_after=64))
    stored_count = len(workshop.rows())
    assert stored_count == 64
    workshop.backend = FakePairScorer()
    observer = Heard()
    resumed = workshop.run(observer=observer)
    assert observer.events[:2] == [
        ("say", f"continuing, 64 of 200 answers kept in {workshop.path / 'run'}"),
        ("start", "t", 200, 64),
    ]
    assert len(workshop.backend.asked) == 3 * (200 - 64)
    ids = [row["id"] for row in workshop.rows()]
    assert ids == [f"t{i}" for i in range(200)]
    resumed_file = workshop.predictions().read_bytes()
    workshop.path = workshop.path / "again"
    workshop.path.mkdir()
    uninterrupted = workshop.run()
    assert uninterrupted.tasks[0].scores == resumed.tasks[0].scores
    assert workshop.predictions().read_bytes() == resumed_file


def test_a_run_killed_within_a_call_keeps_the_rows_of_the_parts_that_were_answered(workshop):
    class Slow(FakeGenerator):
        kill = True

        def generate(self, requests):
            def parts():
                for begin in (15, 5, 0):
                    if begin == 0 and self.kill:
                        raise KeyboardInterrupt
                    rows = range(begin, min(begin + 10, len(requests)))
                    rows = [row for row in rows if row not in seen]
                    seen.update(rows)
                    self.note([requests[row] for row in rows])
                    yield Part(rows, ["A"] * len(rows))

            seen = set()
            return OutputStream(len(requests), parts())

    write_task(workshop.folder, "t")
    workshop.backend = Slow()
    with pytest.raises(KeyboardInterrupt):
        workshop.run()
    assert [row["id"] for row in workshop.rows()] == [f"t{i}" for i in (*range(15, 20), *range(5, 15))]
    workshop.backend.kill = False
    record = workshop.run()
    assert record.status == "complete"
    assert len(workshop.backend.asked) == 20, "none is asked twice"
    assert [row["id"] for row in workshop.rows()] == [f"t{i}" for i in range(20)]


def test_a_line_cut_short_is_dropped_and_computed_again(workshop):
    write_task(workshop.folder, "t", 10)
    with pytest.raises(KeyboardInterrupt):
        workshop.run(observer=Heard(stop_after=10))
    file = workshop.predictions()
    content = file.read_bytes()
    assert content.count(b"\n") == 10
    file.write_bytes(content[:-20])
    workshop.run()
    assert file.read_bytes() == content


def test_a_finished_task_is_not_computed_again(workshop):
    write_task(workshop.folder, "t")
    first = workshop.run()
    workshop.backend = FakePairScorer()
    again = workshop.run()
    assert workshop.backend.asked == []
    assert again.tasks[0].scores == first.tasks[0].scores


PAIRED = """
name: t
type: choice
data: {test: "jsonl:t.jsonl"}
fields: {id: row.id, query: row.id, options: "['one', 'two']", gold: row.gold}
group: row.pair
metrics: [acc]
baselines: [chance]
"""


def test_a_minimal_pair_that_a_limit_cuts_counts_in_no_strict_accuracy(workshop):
    """p0 is right, of p1 one member is wrong, and of p2 the one that is left would be right alone."""
    (workshop.folder / "t.task.yaml").write_text(PAIRED)
    rows = [{"id": f"{n}", "gold": int(n == 3), "pair": f"p{n // 2}"} for n in range(8)]
    (workshop.folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    workshop.backend = FakeGenerator(function=lambda prompt: "A")
    (limited,) = workshop.run(limit=5).tasks
    for scores, value in ((limited.scores, 0.5), (limited.baselines[0].scores, 0.25)):
        strict = next(score for score in scores if score.metric == "acc_strict")
        assert (strict.value, strict.n) == (value, 2)
        assert scores[0].n == 5  # accuracy is over all rows
    assert limited.warnings == ["--limit splits a minimal pair, which acc_strict leaves out"]
    assert [row["group"] for row in workshop.rows()] == ["p0", "p0", "p1", "p1", None]
    workshop.rescore()
    assert workshop.load().record.tasks[0].scores == limited.scores
    workshop.path = workshop.path / "whole"
    workshop.path.mkdir()
    (task,) = workshop.run(limit=6).tasks
    assert next(score.n for score in task.scores if score.metric == "acc_strict") == 3
    assert task.warnings == []


def test_a_breakdown_can_be_added_later_without_the_model(workshop):
    write_task(workshop.folder, "t")
    workshop.run()
    workshop.backend = FakePairScorer()
    (breakdown,) = workshop.run(by=("kind",)).tasks[0].breakdowns
    assert workshop.backend.asked == []
    assert sorted(group.value for group in breakdown.groups) == ["k0", "k1", "k2", "k3", "k4"]
    assert sum(group.scores[0].n for group in breakdown.groups) == 20


def run_with_failure(workshop, error):
    """Return the record of two tasks, `a` and `b`, of which the model raises an error on the first."""

    class Failing(FakePairScorer):
        def score_pairs(self, pairs):
            if any("wordbad" in pair.left for pair in pairs):
                raise error
            return super().score_pairs(pairs)

    workshop.backend = Failing()
    write_task(workshop.folder, "a", row3={"q": "wordbad"})
    write_task(workshop.folder, "b")
    return workshop.run("a", "b")


def test_a_failing_task_does_not_cost_the_others(workshop):
    record = run_with_failure(workshop, ZeroDivisionError("a bug in a model"))
    assert record.status == "incomplete"
    assert [(task.task, task.status) for task in record.tasks] == [("a", "failed"), ("b", "done")]
    assert "ZeroDivisionError: a bug in a model" in record.tasks[0].error


@pytest.mark.parametrize(
    "error", [SystemExit(0), SystemExit(), GeneratorExit(), asyncio.CancelledError(), BaseException("odd")]
)
def test_a_model_that_wants_to_leave_fails_its_task(workshop, error):
    record = run_with_failure(workshop, error)
    assert record.status == "incomplete"
    assert [(task.task, task.status) for task in record.tasks] == [("a", "failed"), ("b", "done")]
    assert record.tasks[0].error.startswith("Traceback")
    assert type(error).__name__ in record.tasks[0].error


def test_a_metric_that_leaves_fails_the_task_as_well(workshop):
    class Metrics:
        @hookimpl
        def register_metrics(self, register):
            register("leaving", lambda example, prediction: sys.exit(0))

    write_task(workshop.folder, "t")
    record = workshop.run(harness=workshop.harness(Metrics()), metrics=("leaving",))
    assert (record.status, record.tasks[0].status) == ("incomplete", "failed")
    assert "SystemExit: 0" in record.tasks[0].error


def test_a_metric_without_its_library_fails_only_its_task(workshop):
    class Metrics:
        @hookimpl
        def register_metrics(self, register):
            def rare(example, prediction):
                if "wordbad" in example.query:
                    raise ModuleNotFoundError("no spacy", name="spacy")
                return 1.0

            register("rare", rare, task_types=("choice",))

    write_task(workshop.folder, "a", row3={"q": "wordbad"})
    write_task(workshop.folder, "b")
    record = workshop.run("a", "b", harness=workshop.harness(Metrics()), metrics=("rare",))
    assert [(task.task, task.status) for task in record.tasks] == [("a", "failed"), ("b", "done")]
    (error,) = record.tasks[0].error.splitlines()
    assert "figeval[spacy]" in error
    assert "'rare'" in error


def test_a_model_without_its_library_ends_the_run(workshop):
    with pytest.raises(ModelError, match=r"figeval\[spacy\]"):
        run_with_failure(workshop, ModuleNotFoundError("no spacy", name="spacy"))


def test_a_description_that_leaves_costs_no_answers(workshop):
    write_task(workshop.folder, "t")
    workshop.backend.describe = lambda: sys.exit(0)
    record = workshop.run()
    assert (record.status, record.tasks[0].status) == ("complete", "done")
    assert record.model.description == {"warnings": ["describe() of model 'model' raised SystemExit: 0"]}


def test_a_hook_that_changes_what_it_is_given_changes_no_record(workshop):
    class Meddling:
        @hookimpl
        def run_started(self, run):
            run.tasks.clear()

        @hookimpl
        def task_finished(self, task, rows):
            task.scores.clear()

        @hookimpl
        def run_finished(self, run):
            run.status = "incomplete"

    write_task(workshop.folder, "t")
    record = workshop.run(harness=workshop.harness(Meddling()))
    assert record.status == "complete"
    assert record.tasks[0].scores


def test_half_a_surrogate_pair_costs_no_run(workshop):
    """What a model writes, says of itself and complains of may hold what no file does."""

    class Odd(FakeGenerator):
        def describe(self):
            return {"answered_as": ["odd \udc9b"]}

    replies = {"word1 here": Reply(text="A \ud800"), "word2 here": Reply(text="", finish="error", error="lost \udfff")}
    reply_to = lambda question: next((reply for key, reply in replies.items() if key in question), "A")  # noqa: E731
    workshop.backend = Odd(function=lambda question: reply_to(question) if replies else "A")
    write_task(workshop.folder, "t", 5)
    settings = {"routes": {"choice": "by_letter"}}
    (task,) = workshop.run(**settings).tasks
    assert (task.status, task.counts["error"]) == ("done", 1)
    replies.clear()
    record = workshop.run(**settings)
    assert (record.status, record.tasks[0].counts["ok"]) == ("complete", 5)
    assert workshop.load().record.model.description["answered_as"] == ["odd \ufffd"]
    assert workshop.rows()[1]["raw"] == "A \ufffd"


def test_an_interrupt_is_no_failure(workshop):
    workshop.backend = FakePairScorer(function=lambda left, right: (_ for _ in ()).throw(KeyboardInterrupt))
    write_task(workshop.folder, "t")
    with pytest.raises(KeyboardInterrupt):
        workshop.run()


def test_nan_scores_are_counted_and_are_not_the_first_option(workshop):
    workshop.backend = FakePairScorer(function=lambda left, right: math.nan if left.startswith("word1") else 1.0)
    write_task(workshop.folder, "t", 20)
    (task,) = workshop.run().tasks
    assert task.counts == {"nan": 11, "ok": 9, "ties": 9}
    assert task.scores[0].n == 9
    assert task.scores[0].value == pytest.approx(1 / 3)  # three options, all tied
    assert workshop.rows()[1]["scores"] == [None, None, None]


def test_limit_takes_the_first_and_says_so(workshop):
    write_task(workshop.folder, "t")
    record = workshop.run(limit=7)
    (task,) = record.tasks
    assert (task.n, task.available) == (7, 20)
    assert [row["id"] for row in workshop.rows()] == [f"t{i}" for i in range(7)]
    assert record.warnings == ["--limit 7: the first examples, not a random sample"]


def test_few_shot_examples_stand_before_the_question(workshop):
    workshop.backend = FakeLanguageModel()
    write_task(workshop.folder, "t")
    (task,) = workshop.run(num_fewshot=2, log_samples=True).tasks
    assert task.settings["num_fewshot"] == 2
    context = workshop.backend.asked[0].context
    assert context.count("word") >= 3
    assert [score.metric for score in task.scores] == ["acc", "acc_norm"]
    assert workshop.rows()[0]["texts"][0] == "word0 here"


def test_an_example_whose_answer_is_hidden_is_no_solved_example(workshop):
    workshop.backend = FakeLanguageModel()
    write_task(workshop.folder, "t", 6, **{f"row{i}": {"g": None} for i in (0, 2, 4)})
    (task,) = workshop.run(num_fewshot=2).tasks
    assert (task.status, task.hidden) == ("done", 3)
    shown = {answer for request in workshop.backend.asked for answer in re.findall(r"Answer: (\S+)", request.context)}
    assert shown == {"word1", "word3", "word5"}


def test_solved_examples_where_all_answers_are_hidden(workshop):
    workshop.backend = FakeLanguageModel()
    write_task(workshop.folder, "t", 6, **{f"row{i}": {"g": None} for i in range(6)})
    with pytest.raises(TaskError, match="all gold answers in the train split of t are hidden; leave out --num_fewshot"):
        workshop.run(num_fewshot=2)


def test_few_shot_examples_where_nobody_would_see_them(workshop):
    write_task(workshop.folder, "t")
    with pytest.raises(CapabilityError, match="by_pair_score, which shows no examples"):
        workshop.run(num_fewshot=2)


def test_no_weights_are_touched_before_all_data_is_known_to_be_good(workshop):
    write_task(workshop.folder, "a")
    write_task(workshop.folder, "b", row5={"g": 9})
    with pytest.raises(DataError, match=r"b: row 6 .* 9 is out of range"):
        workshop.run("a", "b")
    assert workshop.backend.asked == []


def test_a_folder_of_another_run(workshop):
    write_task(workshop.folder, "t")
    workshop.run()
    with pytest.raises(RecordError, match=r"another run \(limit was not set, is 5; seed was 0, is 1\); choose"):
        workshop.run(seed=1, limit=5)


def test_data_that_changed_under_a_run(workshop):
    write_task(workshop.folder, "t")
    workshop.run()
    write_task(workshop.folder, "t", row2={"q": "changed"})
    with pytest.raises(RecordError, match="examples of t changed since this run began"):
        workshop.run()


def test_weights_that_changed_under_a_run(workshop):
    write_task(workshop.folder, "t")
    workshop.backend.fingerprint = lambda: "one"
    workshop.run()
    workshop.backend.fingerprint = lambda: "two"
    with pytest.raises(RecordError, match="the weights of model have changed"):
        workshop.run()


def test_weights_that_cannot_be_used_end_the_run(workshop):
    class Broken(FakePairScorer):
        def score_pairs(self, pairs):
            raise ModelError("these weights are not for this architecture; download them again")

    workshop.backend = Broken()
    write_task(workshop.folder, "t")
    with pytest.raises(ModelError, match="download them again"):
        workshop.run()


def test_an_unknown_breakdown_names_near_ones(workshop):
    write_task(workshop.folder, "t")
    with pytest.raises(TaskError, match="--by knd: none of these tasks has it; did you mean 'kind'"):
        workshop.run(by=("knd",))


def test_models_that_learn_from_the_task_see_all_of_it_even_under_limit(workshop):
    class Learner(FakePairScorer):
        def fit(self, examples):
            self.learned = [example.id for example in examples]

    workshop.backend = Learner()
    write_task(workshop.folder, "t")
    workshop.run(limit=3)
    assert workshop.backend.learned == [f"t{i}" for i in range(20)]


def test_models_that_learn_from_the_task_know_its_language(workshop):
    class Learner(FakePairScorer):
        def fit(self, examples):
            self.languages = {example.language for example in examples}

    workshop.backend = Learner()
    write_task(workshop.folder, "t")
    file = workshop.folder / "t.task.yaml"
    file.write_text(file.read_text() + "language: de\n")
    workshop.run()
    assert workshop.backend.languages == {"de"}


def test_macro_means_stand_beside_and_never_pool(workshop):
    write_task(workshop.folder, "a", 10)
    write_task(workshop.folder, "b", 40)
    (workshop.folder / "s.suite.yaml").write_text("name: s\ntasks: [a, b]\n")
    record = workshop.run("s")
    values = [task.scores[0].value for task in record.tasks]
    (macro,) = record.macro
    assert (macro.suite, macro.metric, macro.tasks) == ("s", "acc", 2)
    assert macro.value == pytest.approx(sum(values) / 2)


def test_a_suite_may_declare_that_its_mean_means_nothing(workshop):
    write_task(workshop.folder, "a", 10)
    write_task(workshop.folder, "b", 40)
    (workshop.folder / "s.suite.yaml").write_text("name: s\ntasks: [a, b]\nmacro_mean: false\n")
    assert workshop.run("s").macro == []


def test_a_model_that_picked_the_wrong_options_is_warned_about(workshop):
    write_task(workshop.folder, "t")
    file = workshop.folder / "t.task.yaml"
    file.write_text(file.read_text() + "built_with: [model, other]\n")
    (task,) = workshop.run().tasks
    assert "help of model, so the score is biased downwards by construction" in task.warnings[0]


def test_observers_hear_of_a_run(workshop):
    heard = []

    class Ears:
        @hookimpl
        def run_started(self, run):
            heard.append(("started", run.status))

        @hookimpl
        def task_finished(self, task, rows):
            heard.append((task.task, len(list(rows))))

        @hookimpl
        def run_finished(self, run):
            heard.append(("finished", run.status))

    write_task(workshop.folder, "t")
    workshop.run(harness=workshop.harness(Ears()))
    assert heard == [("started", "running"), ("t", 20), ("finished", "complete")]
