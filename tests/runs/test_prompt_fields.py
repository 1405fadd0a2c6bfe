"""`prompt_fields`: prompts show other texts than models without prompts read, and answers mean the same for both."""

from __future__ import annotations

import json

import pytest
import yaml

from figeval import Continuation, DataError, Harness, SpanExample, TaskError
from figeval.testing.fakes import FakeGenerator, FakeLanguageModel, FakePairScorer
from tests.runs.conftest import write_task

PROMPT_FIELDS = """
prompt_fields: {query: row.q | upper, options: row.o | map("upper") | list}
prompts: {plain: {prompt_fields: false}}
"""
SPANS = """
name: where
type: spans
data: {test: "jsonl:where.jsonl"}
fields: {id: row.id, text: row.text | lower, given: row.given, known: row.known, gold: row.gold | lower}
prompt_fields: {text: row.text}
prompts: {lower: {prompt_fields: false}}
metrics: [squad_f1, exact_match]
baselines: [whole_text]
"""


def write_shown(folder, **changes):
    write_task(folder, "t", **changes)
    with (folder / "t.task.yaml").open("a") as file:
        file.write(PROMPT_FIELDS)


def requests_of(workshop, **settings):
    """The requests about the first example, one for each of its three options, of every variant."""
    workshop.backend = FakeLanguageModel()
    workshop.run(limit=1, fresh=True, **settings)
    requests = workshop.backend.asked
    return [requests[start : start + 3] for start in range(0, len(requests), 3)]


def test_prompts_show_them_and_other_models_do_not(workshop):
    write_shown(workshop.folder)
    workshop.backend = FakePairScorer()
    (task,) = workshop.run().tasks
    seen = {(request.left, request.right) for request in workshop.backend.asked}
    assert ("word0 here", "word0") in seen
    assert not any(text.isupper() for pair in seen for text in pair)
    assert "prompt_fields" not in task.settings
    requests, lower = requests_of(workshop, prompts=("all",))
    assert isinstance(requests[0], Continuation)
    assert "WORD0 HERE" in requests[0].context and requests[0].continuation.strip() == "WORD0"
    assert "word0 here" in lower[0].context and lower[0].continuation.strip() == "word0"


def test_solved_examples_and_probes_show_them_too(workshop):
    write_shown(workshop.folder)
    requests, lower = requests_of(workshop, num_fewshot=2, prompts=("plain",))
    assert "word" not in requests[0].context and "WORD" not in lower[0].context
    _, without, shuffled = requests_of(workshop, probes=True)
    assert "WORD" not in without[0].context
    assert "WORD0 HERE" not in shuffled[0].context and " HERE" in shuffled[0].context


def test_both_wordings_are_recorded_with_one_set_of_examples(workshop):
    write_shown(workshop.folder)
    workshop.backend = FakeLanguageModel()
    shown, plain = workshop.run(prompts=("plain",)).tasks
    assert shown.settings["prompt_fields"]["names"] == ["options", "query"]
    assert "prompt_fields" not in plain.settings
    assert shown.examples_sha256 == plain.examples_sha256
    assert shown.template == plain.template == "_default/choice.jinja"
    assert [row["id"] for row in workshop.rows("t")] == [row["id"] for row in workshop.rows("t@plain")]


def test_the_fingerprint_of_the_examples_is_that_of_the_task_without_them(workshop):
    write_task(workshop.folder, "t")
    (before,) = workshop.run().tasks
    write_shown(workshop.folder)
    workshop.backend = FakeLanguageModel()
    (after,) = workshop.run(fresh=True).tasks
    assert before.examples_sha256 == after.examples_sha256
    assert after.settings["prompt_fields"]["sha256"] not in ("", after.examples_sha256)


@pytest.mark.parametrize("orders", ["", "cyclic"])
def test_an_answer_in_words_is_read_against_what_was_shown(workshop, orders):
    write_shown(workshop.folder)
    workshop.backend = FakeGenerator(function=lambda question: "I take WORD" + question.split("WORD")[1].split()[0])
    (task,) = workshop.run(orders=orders).tasks
    assert task.error is None
    assert task.scores[0].value == pytest.approx(0.75)
    (again,) = workshop.rescore()
    assert again.changed == 0


def test_a_quotation_of_the_shown_text_is_verbatim_and_scored_on_the_field(workshop):
    row = {
        "id": "1",
        "text": "The Lake was calm. A Boat sank.",
        "given": "loss",
        "known": "a loss",
        "gold": "A Boat sank",
    }
    (workshop.folder / "where.task.yaml").write_text(SPANS)
    (workshop.folder / "where.jsonl").write_text(json.dumps(row) + "\n")

    def quoting(question):
        return json.dumps({"quote": "A Boat sank" if "A Boat" in question else "a boat sank"})

    workshop.backend = FakeGenerator(function=quoting)
    for task in workshop.run("where", prompts=("all",)).tasks:
        assert task.error is None
        values = {score.metric: score.value for score in task.scores}
        assert (values["exact_match"], values["verbatim"]) == (1, 1), task.task


JOINT = {
    "name": "t",
    "type": "joint",
    "data": {"test": "jsonl:rows.jsonl"},
    "fields": {
        "id": "row.id",
        "query": "row.text | lower",
        "candidates": "row.c",
        "relevant": 0,
        "parts": "row.low",
    },
    "prompt_fields": {"query": "row.text", "parts": "row.parts"},
}


def joint_examples(workshop, row):
    (workshop.folder / "t.task.yaml").write_text(yaml.safe_dump(JOINT), encoding="utf-8")
    (workshop.folder / "rows.jsonl").write_text(json.dumps(row), encoding="utf-8")
    harness = workshop.harness()
    return harness.examples(harness.catalogue.tasks.get("t"))


@pytest.mark.parametrize("parts", ["given", ["given"], [], 3, [None], [{"given": 3}]])
def test_parts_of_another_shape_are_refused(parts, workshop):
    low = [{"id": "1a", "given": "first", "known": "x", "gold": "sea"}]
    row = {"id": "1", "text": "By the Sea", "c": ["x", "y"], "low": low, "parts": parts}
    with pytest.raises(DataError, match=r"prompt field '(parts|given)'"):
        list(joint_examples(workshop, row))


def test_parts_of_a_joint_example_have_both_faces(workshop):
    low = [{"id": "1a", "given": "first", "known": "x", "gold": "sea"}]
    row = {"id": "1", "text": "By the Sea", "c": ["x", "y"], "low": low, "parts": [{**low[0], "given": "First"}]}
    (example,) = joint_examples(workshop, row)
    (part,) = example.parts
    shown = part.for_prompt()
    assert isinstance(shown, SpanExample)
    assert (part.text, part.given, shown.text, shown.given) == ("by the sea", "first", "By the Sea", "First")
    assert shown.gold == part.gold
    assert example.for_prompt().parts == (shown,)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"options": "[row.q]"}, "prompt field 'options': 1 texts where the field has 3"),
        ({"options": "row.q"}, "prompt field 'options': expected a list of texts"),
        ({"query": "3"}, "prompt field 'query': 3 is not a string"),
        ({"query": "row.nothing"}, "prompt field 'query': .*nothing"),
    ],
)
def test_another_shape_is_refused_with_row_and_field(workshop, fields, message):
    write_task(workshop.folder, "t")
    with (workshop.folder / "t.task.yaml").open("a") as file:
        file.write(f"prompt_fields: {json.dumps(fields)}\n")
    with pytest.raises(DataError, match=message):
        workshop.run()


@pytest.mark.parametrize("field", ["gold", "id", "kandidates"])
def test_only_texts_of_the_task_can_be_shown_otherwise(workshop, field):
    write_task(workshop.folder, "t")
    with (workshop.folder / "t.task.yaml").open("a") as file:
        file.write(f"prompt_fields: {{{field}: row.q}}\n")
    with pytest.raises(TaskError, match=r"prompt_fields: .* are not among the texts"):
        workshop.run()


@pytest.mark.parametrize("name", ["epic_mcq", "epic_retrieval_seen", "epic_alignment", "epic_joint", "epic_motif"])
def test_epic_shows_its_texts_as_written(name, real_data):
    harness = Harness()
    task = harness.catalogue.tasks.get(name)
    assert "lower" in task.prompts
    example = next(harness.examples(task))
    for text, shown in zip(example.texts, example.for_prompt().texts, strict=True):
        assert text == shown.lower()
    assert example.texts != example.for_prompt().texts
    assert next(harness.examples(task.with_prompt("lower"))).prompted is None
