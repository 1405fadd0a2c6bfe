"""Task types of plugins say themselves what people can judge or answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from figeval import Harness, RunConfig, plugins
from figeval.io.observer import Observer
from figeval.runs.run import run
from figeval.wings.annotation.written_texts import draw_questions, read_texts

PLUGIN = '''
from figeval import TaskType, hookimpl
from figeval.task_types.generation import Generation
from figeval.task_types.pairs import Pairs


class Retold(Generation):
    """Retell a story."""

    name = "retold"

    def judged_inputs(self, example):
        return {"plot": example.inputs["story"]}

    def answer_text(self, example):
        return "As it was told."


class Unjudged(Generation):
    """Retell a story that nobody judges."""

    name = "unjudged"
    written_routes = ()


class Doubles(Pairs):
    """Say whether two texts mean the same, which people answer, too."""

    name = "doubles"

    def human_question(self, example):
        options = ("same", "other")
        return f"{example.left} / {example.right}", options, options.index(example.label)


@hookimpl
def register_task_types(register):
    for task_type in (Retold, Unjudged, Doubles):
        register(task_type)
'''
WRITING = """
name: {name}
type: {name}
data: {{test: "jsonl:rows.jsonl"}}
fields: {{id: row.id, inputs: {{story: row.story, words: row.words}}, references: [row.moral]}}
baselines: []
"""
PAIRS = """
name: meanings
type: doubles
labels: [same, other]
data: {test: "jsonl:rows.jsonl"}
fields: {id: row.id, left: row.story, right: row.moral, label: row.label}
baselines: []
"""


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    """Three types of a plugin, with a task each."""
    (tmp_path / "judged_types_plugin.py").write_text(PLUGIN, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    rows = [
        {
            "id": f"s{n}",
            "story": f"Story {n}.",
            "moral": f"Moral {n}.",
            "words": ["fox"],
            "label": ("same", "other")[n % 2],
        }
        for n in range(4)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    for name in ("retold", "unjudged"):
        (tmp_path / f"{name}.task.yaml").write_text(WRITING.format(name=name), "utf-8")
    (tmp_path / "meanings.task.yaml").write_text(PAIRS, "utf-8")
    return Harness(
        plugins.load(modules=("judged_types_plugin", "figeval.builtin.plugins.baselines")), include=(tmp_path,)
    )


def test_texts_are_those_of_routes_that_the_type_names(harness: Harness, tmp_path: Path) -> None:
    config = RunConfig(model="echo", tasks=("retold", "unjudged"), output_path=tmp_path / "run")
    run(config, harness, Observer())
    written = read_texts([tmp_path / "run"], None, 4, 0, harness, references=True)
    assert written.task == "retold", "the only task whose type lets people judge its texts"
    assert [text.inputs for text in written.texts[:2]] == [{"plot": "Story 0."}] * 2
    assert [text.text for text in written.texts[:2]] == ["fox", "As it was told."]


def test_people_answer_the_questions_that_a_type_asks(harness: Harness) -> None:
    written, gold, criterion = draw_questions(harness.catalogue.tasks.get("meanings"), 4, 0, harness)
    assert written.texts[1].inputs == {"question": "Story 1. / Moral 1.", "A": "same", "B": "other"}
    assert gold == {"s0": "A", "s1": "B", "s2": "A", "s3": "B"}
    assert criterion.labels == ("A", "B")
