"""Stored answers read again: nothing changes with the same extractor, everything follows from another one."""

from __future__ import annotations

import json

import pytest

from figeval import ChoiceExample, Prediction, RecordError, Reply, ReplyReader, by_reply, hookimpl
from figeval.testing.fakes import FakeGenerator
from tests.finished_runs import write_trained_model
from tests.runs.conftest import write_task
from tests.runs.test_variants import letter_of_the_word, write_prompted

PAIRS = """
name: p
type: pairs
labels: [follows, "does not"]
verbalizer: {follows: "Yes", "does not": ["No", "Maybe"]}
data: {test: "jsonl:p.jsonl"}
fields: {id: row.id, left: row.l, right: row.r, label: row.y}
metrics: [acc, macro_f1]
baselines: [chance]
"""


def write_pairs(folder):
    rows = [{"id": f"p{i}", "l": f"left {i}", "r": "right", "y": ["follows", "does not"][i % 2]} for i in range(12)]
    (folder / "p.task.yaml").write_text(PAIRS)
    (folder / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def content(workshop):
    return {file.name: file.read_bytes() for file in (workshop.output / "predictions").iterdir()}


def moody(question):
    """Now and then silent, cut off, or not there at all."""
    kinds = {"word3": Reply(text=""), "word5": Reply(text="Let me see", finish="length")}
    kinds["word7"] = Reply(text="", finish="error", error="timeout")
    return next((reply for word, reply in kinds.items() if f"{word} " in question), letter_of_the_word(question))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"orders": "2"},
        {"prompts": ("all",), "probes": True},
        {"log_samples": True},
        {"limit": 6},
        {"by": ("kind",)},
    ],
    ids=["plain", "orders", "variants", "samples", "limit", "breakdown"],
)
def test_the_same_extractor_changes_nothing(settings, workshop):
    write_prompted(workshop.folder)
    workshop.backend = FakeGenerator(function=moody)
    before = workshop.run(**settings)
    stored = content(workshop)
    changes = workshop.rescore()
    assert content(workshop) == stored
    after = json.loads((workshop.output / "run.json").read_text())
    assert after == json.loads(before.model_dump_json())
    assert [(task.task, task.changed, task.before == task.after) for task in changes] == [
        (task.task, 0, True) for task in before.tasks
    ]


def test_pairs_are_read_with_the_words_of_the_run(workshop):
    write_pairs(workshop.folder)
    workshop.backend = FakeGenerator(function=lambda question: "Maybe" if "left 1" in question else "Yes")
    workshop.run("p")
    stored = content(workshop)
    file = workshop.folder / "p.task.yaml"
    file.write_text(file.read_text().replace('"Maybe"', '"Perhaps"'))
    (task,) = workshop.rescore()
    assert (task.changed, task.after) == (0, {"ok": 12})
    assert content(workshop) == stored


class Letters:
    """The route `by_initial`, whose reader takes the reply for a letter and, in its second version, gamma for C."""

    def __init__(self, version):
        self.version = version

    def read(self, example, _context, reply):
        letter = "C" if reply.text == "gamma" and self.version == "2" else reply.text
        if letter not in ("A", "B", "C"):
            return Prediction(example_id=example.id, value=None, status="unparseable", raw=reply.text)
        return Prediction(example_id=example.id, value="ABC".index(letter), raw=reply.text)

    @hookimpl
    def register_routes(self, register):
        register("choice", by_reply("by_initial", "letter", ReplyReader(self.read, self.version)))


def test_another_extractor_writes_predictions_scores_and_its_version(workshop):
    write_task(workshop.folder, "t")
    workshop.backend = FakeGenerator(
        function=lambda question: "gamma" if "word2" in question else letter_of_the_word(question)
    )
    before = workshop.run(harness=workshop.harness(Letters("1")), routes={"choice": "by_initial"})
    assert before.tasks[0].counts == {"ok": 19, "unparseable": 1}
    (task,) = workshop.rescore(workshop.harness(Letters("2")))
    assert (task.before, task.after, task.changed) == ({"ok": 19, "unparseable": 1}, {"ok": 20}, 1)
    assert (task.acc_before, task.acc_after) == (before.tasks[0].scores[0].value, 15 / 20 - 1 / 20)
    (after,) = workshop.load().record.tasks
    assert (after.extractor, after.counts) == ("2", {"ok": 20})
    assert workshop.rows()[2]["pred"] == 2
    assert not list(workshop.output.rglob("*.part"))


def test_a_run_without_words_has_nothing_to_read(workshop):
    write_task(workshop.folder, "t")
    workshop.run()
    with pytest.raises(RecordError, match="has no answers in words; only the routes by_letter, by_label_word"):
        workshop.rescore()


def test_examples_that_changed_are_not_scored(workshop):
    write_task(workshop.folder, "t")
    workshop.backend = FakeGenerator()
    workshop.run()
    write_task(workshop.folder, "t", row3={"o": ["x", "y", "z"]})
    with pytest.raises(RecordError, match="examples of t changed since this run was made; run it again"):
        workshop.rescore()


def test_a_prompt_that_is_gone(workshop):
    write_prompted(workshop.folder)
    workshop.backend = FakeGenerator()
    workshop.run(prompts=("all",))
    write_task(workshop.folder, "t")
    with pytest.raises(RecordError, match="no prompt 'loud' any more, so the replies of t@loud cannot be read again"):
        workshop.rescore()


def test_marks_of_seen_examples_stay(workshop, tmp_path):
    write_prompted(workshop.folder)
    query = ChoiceExample(id="", query="Word3 here!", options=("a", "b"), gold=0)
    folder = write_trained_model(tmp_path / "model", [query])
    workshop.backend = FakeGenerator(function=letter_of_the_word)
    workshop.backend.source = lambda: folder
    (before,) = workshop.run().tasks
    assert (before.overlap.trained, before.scores[0].seen) == (1, "trained")
    stored = content(workshop)
    workshop.rescore()
    assert content(workshop) == stored
    (after,) = json.loads((workshop.output / "run.json").read_text())["tasks"]
    assert after == json.loads(before.model_dump_json())
