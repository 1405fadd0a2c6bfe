"""Examples of a task as items that people judge, and items that stand together."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import figeval
from figeval import OptionError
from tests.cli.conftest import Cli
from tests.finished_runs import finished


def sheet_of(folder: Path, sheet: str = "sheet_1.csv") -> list[dict[str, str]]:
    with (folder / sheet).open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.DictReader(stream))


def export(folder: Path, task: Any, **options: Any) -> figeval.AnnotationItems:
    return figeval.export_items(task=task, output=folder, **{"checks": 0, "criteria": "fits=yes/no", **options})


@pytest.mark.parametrize(
    ("task", "columns"),
    [
        ("mini_alignment", ["text 1", "span of text 1", "text 2", "span of text 2"]),
        ("mini_pairs", ["text 1", "text 2", "label"]),
        ("mini_proverbs", ["query", "answer"]),
        ("mini_retrieval", ["query", "answer"]),
        ("mini_joint", ["query", "answer", "parts"]),
        ("mini_motif", ["text", "answer"]),
        ("mini_narrative", ["proverb", "keywords", "text"]),
    ],
)
def test_examples_of_every_type_are_shown_with_their_answers(task: str, columns: list[str], tmp_path: Path) -> None:
    items = export(tmp_path / "items", task, n=3)
    rows = sheet_of(tmp_path / "items")
    assert list(rows[0]) == ["item", *columns, "fits", "comment"]
    assert len(rows) == len(items.key.items) == 3
    assert all(row[name] for row in rows for name in columns)
    assert (items.key.authors, items.key.gold) == (("reference",), {})


def test_a_span_that_is_judged_is_in_its_text(tmp_path: Path) -> None:
    export(tmp_path / "items", "mini_alignment", n=20)
    for row in sheet_of(tmp_path / "items"):
        assert row["span of text 1"] in row["text 1"]
        assert row["span of text 2"] in row["text 2"] or row["span of text 2"] == "(none)"


def test_hidden_answers_are_not_judged(tmp_path: Path) -> None:
    labels = ("same", None, "other")
    examples = [figeval.PairExample(id=f"p{n}", left="A.", right="B.", label=label) for n, label in enumerate(labels)]
    task = figeval.task(name="partly_hidden", type="pairs", labels=["same", "other"])(lambda: iter(examples))
    assert {item.example for item in export(tmp_path / "items", task).key.items.values()} == {"p0", "p2"}
    hidden = figeval.task(name="hidden", type="pairs", labels=["same", "other"])(lambda: iter(examples[1:2]))
    with pytest.raises(OptionError, match="answers of hidden are hidden"):
        export(tmp_path / "hidden", hidden)


def test_people_answer_questions_unless_criteria_are_given(cli: Cli, tmp_path: Path) -> None:
    assert cli("annotate", "export", "--task", "mini_proverbs", "--output", "questions").code == 0
    assert figeval.AnnotationItems.load("questions").key.gold
    assert (
        "declares no criteria; give --criteria"
        in cli("annotate", "export", "--task", "mini_pairs", "-o", "x").complaint
    )
    done = cli("annotate", "export", "--task", "mini_pairs", "--criteria", "label right=yes/no", "-o", "pairs")
    assert done.code == 0, done.err
    instructions = Path("pairs/instructions.txt").read_text("utf-8")
    assert instructions.startswith("Read each item as a whole, then judge it on one criterion: label right.")
    requests = [row for row in sheet_of(Path("pairs")) if row["text 1"].startswith("This item checks your attention.")]
    assert len(requests) == 2


class Reader:
    """A judge that remembers what it has read."""

    deterministic_by_name = True

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def generate(self, requests: Sequence[figeval.Prompt]) -> list[str]:
        self.prompts += [request.messages[-1].content for request in requests]
        return ["yes"] * len(requests)


def test_a_judge_is_asked_about_the_item_as_a_whole(tmp_path: Path) -> None:
    export(tmp_path / "items", "mini_pairs", n=2)
    reader = Reader()
    figeval.judge_items(tmp_path / "items", reader, name="reader")
    assert len(reader.prompts) == 2
    assert all('Rate all parts together by the criterion "fits".' in prompt for prompt in reader.prompts)


# ---- together --------------------------------------------------------------------------------------------------------


def blocks_of(folder: Path, sheet: str, key: figeval.AnnotationItems, attribute: str) -> list[str]:
    """The blocks of a sheet in their order, each named once for each stretch of rows."""
    values = [getattr(key.key.items[row["item"]], attribute) for row in sheet_of(folder, sheet)]
    return [value for value, _ in groupby(values)]


@pytest.mark.slow
def test_texts_of_an_example_stand_together_in_another_order_for_everybody(cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "mini_narrative", model="echo", limit=12)
    options: Any = {"references": True, "criteria": "fits=yes/no", "annotators": 2, "together": "example", "checks": 0}
    items = figeval.export_items("run", output="items", **options)
    orders = [blocks_of(Path("items"), sheet, items, "example") for sheet in items.key.sheets]
    assert [len(order) for order in orders] == [12, 12], "nothing stands between the two texts of an example"
    assert orders[0] != orders[1]
    first = {
        next(rows)["item"]
        for _, rows in groupby(sheet_of(Path("items")), lambda row: items.key.items[row["item"]].example)
    }
    assert {items.key.items[item].author for item in first} == {"echo", "reference"}, "neither always comes first"


def test_clusters_are_drawn_as_a_whole(tmp_path: Path) -> None:
    examples = [
        figeval.PairExample(
            id=f"p{n}", left="A.", right="B.", label="same", cluster=f"c{n // 3}", meta={"half": str(n % 2)}
        )
        for n in range(30)
    ]
    task = figeval.task(name="clustered", type="pairs", labels=["same", "other"])(lambda: iter(examples))
    items = export(tmp_path / "items", task, n=7, together="cluster")
    clusters = [item.cluster for item in items.key.items.values()]
    assert len(clusters) == 9
    assert {clusters.count(cluster) for cluster in clusters} == {3}
    halves = export(tmp_path / "halves", task, n=1, together="half")
    assert len(halves.key.items) == 15
    with pytest.raises(OptionError, match="has no 'halv'; did you mean 'half'"):
        export(tmp_path / "none", task, together="halv")


@settings(max_examples=15)
@given(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=12), st.integers(0, 3))
def test_any_order_keeps_blocks_whole(blocks: list[str | None], seed: int) -> None:
    examples = [
        figeval.PairExample(id=f"p{n}", left="A.", right="B.", label="same", meta={"block": block or f"alone {n}"})
        for n, block in enumerate(blocks or ["a"])
    ]
    task = figeval.task(name="blocks", type="pairs", labels=["same", "other"])(lambda: iter(examples))
    with TemporaryDirectory() as folder:
        items = export(Path(folder, "items"), task, n=99, together="block", seed=seed)
        block_of = {example.id: example.meta["block"] for example in examples}
        order = [block_of[items.key.items[row["item"]].example] for row in sheet_of(Path(folder, "items"))]
    assert len([block for block, _ in groupby(order)]) == len(set(order))
    assert sorted(order) == sorted(block_of.values())
