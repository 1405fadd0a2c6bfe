"""Spans from a task file to the record: statuses, scores, reading again, other prompts, probes, mistakes."""

from __future__ import annotations

import json

import pytest

from figeval import CapabilityError, DataError, Reply, TaskError
from figeval.testing.fakes import FakeGenerator

TASK = """
name: where
type: spans
data: {test: "jsonl:where.jsonl", train: "jsonl:shown.jsonl"}
fields: {id: row.id, text: row.text, given: row.given, known: row.known, gold: row.gold, weight: row.weight}
metrics: [span_precision, span_recall, span_f1, squad_f1, exact_match]
baselines: [random, last_sentence, whole_text, oracle]
"""
TEXT = "the lake {} was calm. a boat sank near it, and nobody saw."


def rows(n, start=0):
    return [
        {
            "id": f"w{i}",
            "text": TEXT.format(i),
            "given": f"part {i}",
            "known": "a part",
            "gold": "a boat sank",
            "weight": 1,
        }
        for i in range(start, start + n)
    ]


def write(folder, task=TASK, content=None):
    (folder / "where.task.yaml").write_text(task)
    for name, lines in (("where", content or rows(12)), ("shown", rows(5, 50))):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def moody(question):
    """Right, nearly, elsewhere, silent, cut off, refused, or not there at all."""
    part = next(word for word in question.split("part ")[-1].split())
    replies = {
        "0": '{"quote": "A boat sank"}',
        "1": '{"quote": "a miller counted his sacks"}',
        "2": "I would rather not say.",
        "3": Reply(text='{"quote": "a boa', finish="length"),
        "4": Reply(text=""),
        "5": Reply(text="", finish="refusal"),
        "6": Reply(text="", finish="error", error="timeout"),
        "7": '{"quote": "near it"}',
    }
    return replies.get(part, 'Here: ```json\n{"quote": "a boat sank"}\n```')


def run_where(workshop, backend, **settings):
    workshop.backend = backend
    return workshop.run("where", **settings)


def scores(task):
    return {score.metric: score for score in task.scores}


def test_answers_in_words_have_their_status_and_silence_is_told(workshop):
    write(workshop.folder)
    (task,) = run_where(workshop, FakeGenerator(function=moody)).tasks
    assert task.route == "by_json"
    assert task.counts == {"ok": 6, "absent": 1, "unparseable": 1, "truncated": 1, "empty": 1, "refusal": 1, "error": 1}
    values = scores(task)
    assert (values["squad_f1"].n, values["squad_f1"].value) == (6, pytest.approx(5 / 6))
    assert (values["squad_f1_of_all"].n, values["squad_f1_of_all"].value) == (11, pytest.approx(5 / 11))
    assert values["parse_rate"].value == pytest.approx(6 / 11)
    assert (values["verbatim"].n, values["verbatim"].value) == (7, pytest.approx(5 / 7))
    first, second, *_ = workshop.rows("where")
    assert (first["pred"], first["gold"], first["status"]) == ([21, 32], [21, 32], "ok")
    assert (second["pred"], second["status"], second["scores"][0] < 0.7) == (None, "absent", True)
    assert "text" not in json.dumps({key: value for key, value in first.items() if key != "raw"})


def test_the_four_floors_are_printed(workshop):
    write(workshop.folder)
    (task,) = run_where(workshop, FakeGenerator(function=moody)).tasks
    means = {baseline.baseline: {s.metric: s.value for s in baseline.scores} for baseline in task.baselines}
    assert list(means) == ["random", "last_sentence", "whole_text", "oracle"]
    assert means["oracle"]["span_f1"] == 1
    assert means["whole_text"]["span_recall"] == 1
    assert means["last_sentence"]["span_precision"] == pytest.approx(3 / 8)


def test_the_same_extractor_changes_nothing(workshop):
    write(workshop.folder)
    run_where(workshop, FakeGenerator(function=moody))
    before = workshop.rows("where")
    (again,) = workshop.rescore()
    assert (again.changed, again.acc_before, again.before["ok"]) == (0, None, 6)
    assert workshop.rows("where") == before


def test_solved_examples_are_shown_with_their_quotation(workshop):
    write(workshop.folder)
    backend = FakeGenerator(function=lambda _: "{}")
    run_where(workshop, backend, num_fewshot=2)
    turns = backend.asked[0].messages
    assert [turn.role for turn in turns] == ["user", "assistant"] * 2 + ["user"]
    assert turns[1].content == ' {"quote": "a boat sank"}'


def test_a_span_that_is_hidden_is_no_solved_example(workshop):
    write(workshop.folder)
    (workshop.folder / "shown.jsonl").write_text(
        "".join(json.dumps({**row, "gold": row["gold"] if i else None}) + "\n" for i, row in enumerate(rows(2, 50)))
    )
    backend = FakeGenerator(function=lambda _: "{}")
    run_where(workshop, backend, num_fewshot=1)
    assert {TEXT.format(51) in request.messages[0].content for request in backend.asked} == {True}


def test_probes_take_the_given_part_away(workshop):
    write(workshop.folder)
    record = run_where(workshop, FakeGenerator(function=lambda _: '{"quote": "a boat sank"}'), probes=True)
    assert [task.task for task in record.tasks] == ["where", "where@no_query", "where@shuffled_query"]
    assert all(task.status == "done" for task in record.tasks)


def test_orders_are_for_options(workshop):
    write(workshop.folder)
    with pytest.raises(CapabilityError, match="by_json, which shows no list of options"):
        run_where(workshop, FakeGenerator(), orders="cyclic")


def test_a_metric_of_another_task_type(workshop):
    write(workshop.folder, TASK.replace("exact_match]", "acc]"))
    with pytest.raises(TaskError, match="metric 'acc' is for"):
        run_where(workshop, FakeGenerator())


@pytest.mark.parametrize(
    ("gold", "says"),
    [
        ("a ship sank", "row 12 .*field 'gold': 'a ship sank' does not occur in the text"),
        ([5, 400], r"\[5, 400\] is not a span \[start, end\] of a text of 58 characters"),
        (" ", r"is blank; write \[\] if no span is right"),
    ],
)
def test_a_span_that_is_not_in_its_text(gold, says, workshop):
    write(workshop.folder, content=[*rows(11), rows(1, 11)[0] | {"gold": gold}])
    with pytest.raises(DataError, match=says):
        run_where(workshop, FakeGenerator())


def test_a_text_without_tokens_gets_no_answer(workshop):
    write(workshop.folder, content=[*rows(11), rows(1, 11)[0] | {"text": " ", "gold": None}])
    (task,) = run_where(workshop, FakeGenerator(function=lambda _: '{"quote": "a boat sank"}')).tasks
    assert task.counts == {"ok": 11, "absent": 1}
    assert scores(task)["squad_f1"].n == 11


def test_absence_is_scored_and_hidden_gold_is_counted(workshop):
    told_rows = [
        {**row, "gold": gold} for row, gold in zip(rows(10), [[], "", None, *["a boat sank"] * 7], strict=True)
    ]
    write(workshop.folder, content=told_rows)
    replies = {"0": '{"quote": ""}', "1": '{"quote": "a boat sank"}', "3": '{"quote": null}'}
    backend = FakeGenerator(
        function=lambda prompt: replies.get(prompt.split("part ")[-1].split()[0], '{"quote": "a boat sank"}')
    )
    (task,) = run_where(workshop, backend).tasks
    values = scores(task)
    assert (task.n, task.hidden, task.counts) == (10, 1, {"ok": 10})
    assert (values["squad_f1"].n, values["squad_f1"].value) == (9, pytest.approx(7 / 9)), "0 and 4 to 9 are right"
    assert (values["span_f1"].n, values["span_f1"].value) == (9, pytest.approx(7 / 9))
    first, second, third, fourth, *_ = workshop.rows("where")
    assert [row["gold"] for row in (first, second, third)] == [[], [], None]
    assert [row["pred"] for row in (first, second, fourth)] == [[], [21, 32], []]
    oracle = next(baseline for baseline in task.baselines if baseline.baseline == "oracle")
    assert {score.metric: score.value for score in oracle.scores}["squad_f1"] == 1
    (again,) = workshop.rescore()
    assert again.changed == 0


def test_only_hidden_golds_among_the_asked_examples_are_counted(workshop):
    write(workshop.folder, content=[{**row, "gold": None if i > 2 else row["gold"]} for i, row in enumerate(rows(6))])
    (task,) = run_where(workshop, FakeGenerator(function=moody), limit=4).tasks
    assert (task.n, task.hidden) == (4, 1)
