"""Task types of plugins say themselves what people can judge or answer."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import figeval

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

    def judged_example(self, example):
        return {"both": (example.left, example.right), "verdict": example.label}


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


@pytest.fixture(autouse=True)
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Callable[..., None]) -> None:
    """Three types of a plugin, with a task each."""
    (tmp_path / "judged_types_plugin.py").write_text(PLUGIN, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "judged_types_plugin", raising=False)
    install("judged_types_plugin")
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


def sheet_of(folder: Path, **arguments: object) -> list[dict[str, str]]:
    """Export items and return the rows of their only sheet, in the order of their examples, references last."""
    items = figeval.export_items(output=folder, checks=0, include_path=folder.parent, **arguments)  # type: ignore[arg-type]
    with (folder / "sheet_1.csv").open(encoding="utf-8-sig", newline="") as sheet:
        rows = {row["item"]: row for row in csv.DictReader(sheet)}
    numbers = sorted(items.key.items, key=lambda item: (items.key.items[item].example, items.key.items[item].author))
    return [rows[number] for number in numbers]


def test_texts_are_those_of_routes_that_the_type_names(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    figeval.run(["retold", "unjudged"], "echo", include_path=tmp_path, output_path=folder, baselines=False)
    rows = sheet_of(tmp_path / "items", runs=folder, criteria="fluency=1-5", references=True)
    assert figeval.AnnotationItems.load(tmp_path / "items").key.task == "retold", "the only task whose type lets judge"
    assert [row["plot"] for row in rows[:2]] == ["Story 0."] * 2
    assert [row["text"] for row in rows[:2]] == ["fox", "As it was told."]


def test_people_answer_the_questions_that_a_type_asks(tmp_path: Path) -> None:
    rows = sheet_of(tmp_path / "items", task="meanings")
    key = figeval.AnnotationItems.load(tmp_path / "items").key
    assert (rows[1]["question"], rows[1]["A"], rows[1]["B"]) == ("Story 1. / Moral 1.", "same", "other")
    assert {key.items[item].example: label for item, label in key.gold.items()} == {
        "s0": "A",
        "s1": "B",
        "s2": "A",
        "s3": "B",
    }
    assert [criterion.labels for criterion in key.criteria] == [("A", "B")]


def test_people_judge_the_examples_that_a_type_shows(tmp_path: Path) -> None:
    rows = sheet_of(tmp_path / "items", task="meanings", criteria="verdict right=yes/no")
    assert (rows[1]["both"], rows[1]["verdict"]) == ("Story 1.; Moral 1.", "other")
    texts = sheet_of(tmp_path / "texts", task="retold", criteria="fluency=1-5")
    assert (texts[1]["plot"], texts[1]["text"]) == ("Story 1.", "As it was told.")
