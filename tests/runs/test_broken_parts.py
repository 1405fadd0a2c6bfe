"""Plugins, readers and tasks with a mistake: it costs their own task, is told in one line, and loses nothing."""

from __future__ import annotations

import json
import shutil

import pytest

import figeval
from figeval import (
    ChoiceExample,
    DataError,
    PluginError,
    Prediction,
    RecordError,
    ReplyReader,
    Route,
    TextPair,
    hookimpl,
)
from figeval.testing.fakes import FakeGenerator, FakePairScorer
from tests.runs.conftest import write_task
from tests.runs.test_rescore import write_pairs
from tests.runs.test_variants import letter_of_the_word, write_prompted


class Brings:
    """A plugin with routes or metrics."""

    def __init__(self, routes=(), metrics=None):
        self.routes, self.metrics = routes, metrics or {}

    @hookimpl
    def register_routes(self, register):
        for route in self.routes:
            register("choice", route)

    @hookimpl
    def register_metrics(self, register):
        for name, function in self.metrics.items():
            register(name, function, True, ("choice",))


def harness(workshop, **brought):
    return workshop.harness(Brings(**brought))


def by_first(example, _context):
    """Score as `by_pair_score` does, under a name of its own."""
    scores = yield [TextPair(example.query, option) for option in example.options]
    return figeval.decide(example.id, [-score for score in scores])


def route(start, **declared):
    return Route(**{"name": "by_own", "start": start, "needs": frozenset({"score_pairs"}), **declared})


# ---- routes ----------------------------------------------------------------------------------------------------------


def test_installing_a_plugin_with_a_route_changes_no_score(workshop):
    write_task(workshop.folder, "t")
    record = workshop.run(harness=harness(workshop, routes=[route(by_first)]))
    assert record.tasks[0].route == "by_pair_score"


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"name": "by own"}, "'by own' is not a valid route name"),
        ({"name": 5}, "5 is not a valid route name"),
        ({"needs": ["score_pairs"]}, "`needs` is a list; give a frozenset"),
        ({"needs": None}, "`needs` is None"),
        ({"settings": [1]}, "`settings` is a list"),
        ({"legend": None}, "`legend` is None; give a format string"),
        ({"labels": "x"}, "`labels` is a str; give a number"),
        ({"question": 5}, "`question` is an int"),
        ({"blocks": 7}, "`blocks` is an int"),
        ({"reader": 5}, "`reader` is an int; give a figeval.ReplyReader"),
        ({"start": None}, "`start` is None; give a function"),
        ({"requests": (5,)}, "5 of `requests` has no attribute `capability`"),
    ],
)
def test_a_route_that_is_declared_wrongly_is_left_out(workshop, declared, message):
    write_task(workshop.folder, "t")
    broken = harness(workshop, routes=[route(**{"start": by_first, **declared})])
    assert workshop.run(harness=broken).tasks[0].status == "done"
    (problem,) = broken.manager.plugins["Brings"].problems
    assert message in problem
    assert "\n" not in problem


def not_asking(example, _context):
    """The first example is answered without the model."""
    if example.id == "t0":
        return figeval.decide(example.id, [1.0, 0.0, 0.0])
    scores = yield [TextPair(example.query, option) for option in example.options]
    return figeval.decide(example.id, scores)


def returning_nothing(example, _context):
    yield [TextPair(example.query, example.options[0])]


def one_request(example, _context):
    yield TextPair(example.query, example.options[0])


def test_a_route_need_not_ask_about_every_example(workshop):
    write_task(workshop.folder, "t", 4)
    record = workshop.run(harness=harness(workshop, routes=[route(not_asking)]), routes={"choice": "by_own"})
    assert (record.tasks[0].status, record.tasks[0].counts) == ("done", {"ok": 4})


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (returning_nothing, "a route returned None; return a figeval.Prediction"),
        (one_request, "a route yielded a TextPair; yield a list of requests"),
    ],
)
def test_a_route_with_a_mistake_fails_its_task(workshop, start, message):
    write_task(workshop.folder, "t", 4)
    record = workshop.run(harness=harness(workshop, routes=[route(start)]), routes={"choice": "by_own"})
    assert (record.tasks[0].status, record.tasks[0].error) == ("failed", message)


def test_a_route_that_is_no_generator_is_refused(workshop):
    write_task(workshop.folder, "t", 4)
    plain = route(lambda example, _context: figeval.decide(example.id, [1.0, 0.0, 0.0]))
    with pytest.raises(PluginError, match="route 'by_own' returned a Prediction; write it as a generator"):
        workshop.run(harness=harness(workshop, routes=[plain]), routes={"choice": "by_own"})


def predict_truncated(example, _context):
    yield [TextPair(example.query, example.options[0])]
    return Prediction(example_id=example.id, value=0, truncated=True)


def test_a_route_may_say_that_it_has_cut_an_input(workshop):
    write_task(workshop.folder, "t", 4)
    record = workshop.run(harness=harness(workshop, routes=[route(predict_truncated)]), routes={"choice": "by_own"})
    assert record.tasks[0].counts["truncated_inputs"] == 4


# ---- metrics and rows ------------------------------------------------------------------------------------------------


def test_a_metric_may_be_true_or_false(workshop):
    write_task(workshop.folder, "t", 4)
    right = {"right": lambda example, prediction: prediction.value == example.gold}
    record = workshop.run(metrics=("right",), harness=harness(workshop, metrics=right))
    scores = {score.metric: score.value for score in record.tasks[0].scores}
    assert scores["right"] == scores["acc"] == 0.75
    assert [row["metrics"]["right"] for row in workshop.rows()] == [0.0, 1.0, 1.0, 1.0]


def test_a_row_that_could_not_be_read_back_fails_its_task_and_no_other(workshop, monkeypatch):
    write_task(workshop.folder, "t", 4)
    write_pairs(workshop.folder)
    workshop.backend = FakeGenerator(function=lambda _question: "Yes")
    monkeypatch.setattr(
        choice_type(workshop), "row", lambda _self, example, _prediction: {"id": "always", "gold": example.gold}
    )
    record = workshop.run("t", "p")
    assert [task.status for task in record.tasks] == ["failed", "done"]
    assert "row() of a task type returns 'id', which every row already has" in str(record.tasks[0].error)


def choice_type(workshop):
    return type(workshop.harness().task_types.get("choice"))


# ---- readers ---------------------------------------------------------------------------------------------------------


def with_reader(monkeypatch, workshop, reader):
    """The harness whose route `by_letter` reads replies with another reader."""
    harness = workshop.harness()
    for route in harness.routes.of("choice"):
        if route.name == "by_letter":
            monkeypatch.setattr(type(route), "__setattr__", object.__setattr__)
            object.__setattr__(route, "reader", reader)
    return harness


def test_a_reader_that_does_not_exist_is_told_before_the_model_is_asked(workshop, monkeypatch):
    write_prompted(workshop.folder)
    workshop.backend = FakeGenerator(function=letter_of_the_word)
    broken = with_reader(monkeypatch, workshop, ReplyReader("figeval.answers.extract:nowhere", "1"))
    with pytest.raises(PluginError, match="has no 'nowhere'"):
        workshop.run(harness=broken)
    assert workshop.backend.asked == []


def test_a_rescore_that_breaks_off_leaves_rows_and_scores_that_belong_together(workshop, monkeypatch):
    """The second task's reader raises: the first is read anew with its scores, the second stays as it was."""
    for name in ("t", "u"):
        write_task(workshop.folder, name, 6)
    workshop.backend = FakeGenerator(function=letter_of_the_word)
    workshop.run("t", "u")
    stored = workshop.rows("u")

    def half(example, context, reply):
        if example.id.startswith("u"):
            raise ZeroDivisionError("no answer")
        return Prediction(example_id=example.id, value=example.gold)

    with pytest.raises(ZeroDivisionError):
        workshop.rescore(with_reader(monkeypatch, workshop, ReplyReader(half, "other")))
    first, second = json.loads((workshop.output / "run.json").read_text())["tasks"]
    assert (first["extractor"], first["scores"][0]["value"]) == ("other", 1.0)
    assert first["predictions_sha256"] is not None
    assert second["extractor"] != "other"
    assert workshop.rows("u") == stored


def test_rescore_keeps_the_metrics_that_were_asked_for(workshop):
    write_prompted(workshop.folder)
    workshop.backend = FakeGenerator(function=letter_of_the_word)
    before = workshop.run(metrics=("parse_rate",))
    assert "parse_rate" in [score.metric for score in before.tasks[0].scores]
    workshop.rescore()
    after = json.loads((workshop.output / "run.json").read_text())
    assert after == json.loads(before.model_dump_json())


# ---- replies that did not become rows ------------------------------------------------------------------------------


def failing_on(name, message="no answer"):
    """A metric that raises on one example."""

    def strict(example, prediction):
        if example.id == name:
            raise ZeroDivisionError(message)
        return float(prediction.value == example.gold)

    return strict


def reading(value_of):
    """A route that asks about the options by letters, and whose reader takes `value_of(example, reply)`."""

    def read(example, _context, reply):
        return Prediction(example_id=example.id, value=value_of(example, reply))

    return figeval.by_reply("by_own", "letter", ReplyReader(read, "1"))


def test_a_metric_that_fails_on_an_example_loses_no_reply(workshop):
    """The others of the window have rows; mended, the run goes on without asking the model anything again."""
    write_prompted(workshop.folder)
    workshop.backend = model = FakeGenerator(function=letter_of_the_word)
    broken = harness(workshop, metrics={"strict": failing_on("t3")})
    task = workshop.run(metrics=("strict",), harness=broken).tasks[0]
    assert task.status == "failed"
    assert task.error.splitlines()[-1] == "ZeroDivisionError: no answer (metric 'strict', example 't3')"
    assert [row["id"] for row in workshop.rows()] == [f"t{i}" for i in range(20) if i != 3]
    (reply,) = [json.loads(line) for line in (workshop.output / "replies/t.jsonl").read_text().splitlines()]
    counted = {"answer_tokens", "reasoning_tokens"}
    assert reply.keys() - counted == {
        "request",
        "text",
        "finish",
        "reasoning",
        "truncated",
    }  # and no text of the benchmark
    model.function = None  # which must not be called
    mended = harness(workshop, metrics={"strict": failing_on("nowhere")})
    task = workshop.run(metrics=("strict",), harness=mended).tasks[0]
    assert (task.status, task.counts, len(workshop.rows())) == ("done", {"ok": 20}, 20)
    assert not (workshop.output / "replies").exists()


def test_a_reader_that_fails_costs_no_reply_of_any_order(workshop):
    write_prompted(workshop.folder)
    workshop.backend = model = FakeGenerator(function=letter_of_the_word)

    def first_letters(example, reply):
        if example.id in ("t2", "t5"):
            raise LookupError(f"cannot read {reply.text!r}")
        return "ABC".index(reply.text)

    task = workshop.run(harness=harness(workshop, routes=[reading(first_letters)]), routes={"choice": "by_own"}).tasks[
        0
    ]
    assert task.status == "failed"
    assert "LookupError: cannot read" in task.error
    assert len(workshop.rows()) == 18
    model.function = None
    mended = harness(workshop, routes=[reading(lambda _example, reply: "ABC".index(reply.text))])
    task = workshop.run(harness=mended, routes={"choice": "by_own"}).tasks[0]
    assert (task.status, len(workshop.rows())) == ("done", 20)


@pytest.mark.parametrize("stop", [SystemExit(3), ZeroDivisionError("no answer")], ids=["exit", "error"])
def test_a_run_with_kept_replies_has_the_rows_of_an_undisturbed_one(workshop, stop):
    """Inputs that were cut included, also where a library of the metric calls sys.exit()."""

    class Short(FakeGenerator):
        def generate(self, requests):
            return figeval.Outputs(super().generate(requests), frozenset(range(0, len(requests), 2)))

    def strict(example, prediction):
        if broken and example.id == "t4":
            raise stop
        return float(prediction.value == example.gold)

    write_prompted(workshop.folder)
    rows = []
    for broken in (False, True):
        workshop.backend = Short(function=letter_of_the_word)
        if broken:
            shutil.rmtree(workshop.output)
            record = workshop.run(metrics=("strict",), harness=harness(workshop, metrics={"strict": strict}))
            assert record.tasks[0].status == "failed"
            assert len(workshop.rows()) == 19
            broken = False
        workshop.run(metrics=("strict",), harness=harness(workshop, metrics={"strict": strict}))
        rows.append((workshop.output / "predictions/t.jsonl").read_bytes())
    assert rows[0] == rows[1]


def test_what_failed_twice_is_kept_once(workshop):
    write_prompted(workshop.folder)
    workshop.backend = FakeGenerator(function=letter_of_the_word)
    broken = {"metrics": ("strict",), "harness": harness(workshop, metrics={"strict": failing_on("t3")})}
    for _ in range(3):
        workshop.run(**broken)
    assert len((workshop.output / "replies/t.jsonl").read_text().splitlines()) == 1


def test_kept_replies_without_the_record_of_their_run_are_refused(workshop):
    """They may be those of another model."""
    write_prompted(workshop.folder)
    workshop.backend = FakeGenerator(function=letter_of_the_word)
    broken = harness(workshop, metrics={"strict": failing_on("t3")})
    workshop.run(metrics=("strict",), harness=broken)
    shutil.rmtree(workshop.output / "predictions")
    (workshop.output / "run.json").unlink()
    with pytest.raises(RecordError):
        workshop.run(metrics=("strict",), harness=broken)


def test_rescore_refuses_a_value_that_cannot_be_an_answer(workshop, monkeypatch):
    write_prompted(workshop.folder)
    workshop.backend = FakeGenerator(function=letter_of_the_word)
    workshop.run()
    stored = workshop.rows()
    impossible = ReplyReader(lambda example, _context, _reply: Prediction(example_id=example.id, value=99), "2")
    with pytest.raises(PluginError, match="by_letter predicted an invalid value for example 't0': 99 is not an"):
        workshop.rescore(with_reader(monkeypatch, workshop, impossible))
    assert workshop.rows() == stored


def test_kept_replies_that_somebody_damaged_are_asked_for_again(workshop):
    write_prompted(workshop.folder)
    workshop.backend = model = FakeGenerator(function=letter_of_the_word)
    workshop.run(metrics=("strict",), harness=harness(workshop, metrics={"strict": failing_on("t3")}))
    file = workshop.output / "replies/t.jsonl"
    file.write_text('{"request": 5}\n[]\nnonsense\n' + file.read_text().replace("text", "texts"))
    before = len(model.asked)
    mended = harness(workshop, metrics={"strict": failing_on("nowhere")})
    assert workshop.run(metrics=("strict",), harness=mended).tasks[0].status == "done"
    assert len(model.asked) == before + 1


@pytest.mark.parametrize("value", [99, -1, "abc", True, 1.0])
def test_a_value_that_cannot_be_an_answer_fails_the_task(value, workshop):
    """It is not scored as a wrong answer."""
    write_prompted(workshop.folder)
    workshop.backend = FakeGenerator(function=letter_of_the_word)
    broken = harness(workshop, routes=[reading(lambda example, _reply: value if example.id == "t4" else 0)])
    task = workshop.run(harness=broken, routes={"choice": "by_own"}).tasks[0]
    assert task.error == (
        f"by_own predicted an invalid value for example 't4': {value!r} is not an index of its 3 options; "
        "correct the route, its reader or the model"
    )
    assert len(workshop.rows()) == 19


# ---- tasks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ({"id": "1"}, "example 1 is a dict; yield a ChoiceExample"),
        (ChoiceExample(id="1", query="q", options=("a", "b"), gold=7), "gold: 7 is not an index of its 2 options"),
        (ChoiceExample(id="1", query="q", options=("a", "b"), gold=True), "gold: True is not an index of its 2"),
        (ChoiceExample(id="1", query=5, options=("a", "b"), gold=0), "query: 5 is not a string"),
        (ChoiceExample(id="1", query="q", options="ab", gold=0), "options: 'ab' is not a tuple of strings"),
        (ChoiceExample(id="1", query="q", options=("a", "b"), gold=0, meta=None), "meta: None is not valid"),
        (ChoiceExample(id="1", query="q", options=("a", "b"), gold=0, meta={"a": 1}), "give a mapping of strings"),
        (ChoiceExample(id="1", query="q", options=("a", "b"), gold=0, cluster=5), "cluster: 5 is not valid"),
        (ChoiceExample(id=1, query="q", options=("a", "b"), gold=0), "example 1, id 1: this is not a valid id"),
    ],
)
def test_examples_made_in_python_are_checked(example, message, tmp_path):
    @figeval.task(name="made", type="choice", metrics=("acc",))
    def wrong():  # type: ignore[no-untyped-def]
        yield example

    with pytest.raises(DataError) as caught:
        figeval.run(wrong, FakePairScorer(), output_path=tmp_path / "run")
    assert message in str(caught.value)


def test_a_function_that_gives_no_examples_is_named(tmp_path):
    @figeval.task(name="made", type="choice", metrics=("acc",))
    def nothing():  # type: ignore[no-untyped-def]
        return None

    with pytest.raises(DataError, match="made: its function returned None; yield a ChoiceExample each time"):
        figeval.run(nothing, FakePairScorer(), output_path=tmp_path / "run")


def test_a_model_is_fitted_anew_on_rows_of_another_folder(tmp_path):
    """Two folders with files of one name: what `majority` has learned of the first says nothing of the second."""
    for folder, gold in (("one", 0), ("two", 2)):
        (tmp_path / folder).mkdir()
        write_task(tmp_path / folder, "t", 6, **{f"row{i}": {"g": gold} for i in range(6)})
        file = tmp_path / folder / "t.task.yaml"
        file.write_text(file.read_text(encoding="utf-8").replace("name: t", f"name: t_{folder}"), encoding="utf-8")
    names = [f"t_{folder}" for folder in ("one", "two")]
    done = figeval.run(names, "majority", include_path=[tmp_path / "one", tmp_path / "two"], output_path=tmp_path / "r")
    alone = figeval.run("t_two", "majority", include_path=tmp_path / "two", output_path=tmp_path / "alone")
    assert done.record.tasks[1].scores == alone.record.tasks[0].scores
