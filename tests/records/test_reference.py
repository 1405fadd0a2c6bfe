"""Published numbers: of tasks and metrics that exist, each with its source."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from figeval import Harness

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "results" / "reference").glob("*.json"))
PRINTED = [
    SimpleNamespace(**{"task": "", "part": "", "note": "", "doubt": "", **number})
    for file in FILES
    for number in json.loads(file.read_text("utf-8"))
]
PUBLISHED = [number for number in PRINTED if number.task]
LAYOUTS: list[dict[str, Any]] = [
    layout
    for file in sorted((ROOT / "tasks").rglob("*.layouts.yaml"))
    for layout in yaml.safe_load(file.read_text("utf-8"))["layouts"]
]


def cells_of(layout: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the task, or the part of the benchmark, and the metric of each column of a table."""
    groups = [group for panel in layout["panels"] for group in panel["groups"]]
    return [
        (group.get("task") or group["part"], measure["metric"]) for group in groups for measure in group["measures"]
    ]


def test_tasks_and_metrics_exist() -> None:
    harness = Harness()
    for reference in PUBLISHED:
        assert reference.metric in harness.catalogue.tasks.get(reference.task).metrics, reference
        assert 0 <= reference.value <= 1 or reference.metric.startswith("length"), f"{reference} is no fraction"
        assert reference.source.count(",") == 2, f"{reference.source}: paper, version, table"


def test_no_number_is_given_twice() -> None:
    times = Counter((reference.task, reference.metric, reference.model, reference.source) for reference in PUBLISHED)
    assert not [key for key, count in times.items() if count > 1]


def test_known_misprints_are_told() -> None:
    (bart,) = {
        reference.note
        for reference in PUBLISHED
        if (reference.task, reference.model, reference.metric) == ("epic_retrieval_all", "BART", "acc")
    }
    assert "misprint" in bart
    random = [
        reference
        for reference in PUBLISHED
        if (reference.task, reference.model, reference.metric) == ("epic_retrieval_unseen", "Random", "mrr")
    ]
    assert len(random) == 2
    assert all("misprint" in reference.note for reference in random)


def test_accuracies_of_whole_benchmarks_are_shares_of_their_examples() -> None:
    """Every printed accuracy of Table 4 is a multiple of 1/2500, but for the misprint."""
    doubtful = {
        reference.model
        for reference in PUBLISHED
        if (reference.task, reference.metric) == ("epic_retrieval_all", "acc")
        and abs(reference.value * 2500 - round(reference.value * 2500)) > 1e-6
    }
    assert doubtful == {"BART"}


def test_every_number_of_a_printed_table_has_a_place_in_its_layout() -> None:
    for layout in LAYOUTS:
        cells = cells_of(layout)
        rows = [number for number in PRINTED if number.source in layout["sources"]]
        assert rows, layout["name"]
        assert {(row.task or row.part, row.metric) for row in rows} <= set(cells), layout["name"]
        assert len(cells) == len(set(cells)), f"{layout['name']} has a column twice"


def test_layouts_name_tasks_and_metrics_that_exist() -> None:
    """A metric is one of the task, one that is requested for it, or stands for the number of its examples."""
    tasks = Harness().catalogue.tasks
    requested = {"examples", "bertscore", "faithfulness"}
    for layout in LAYOUTS:
        groups = [group for panel in layout["panels"] for group in panel["groups"] if group.get("task")]
        for group in groups:
            metrics = {measure["metric"] for measure in group["measures"]}
            assert metrics <= {*tasks.get(group["task"]).metrics, *requested}, (layout["name"], group["task"])


def test_a_doubt_is_a_sentence() -> None:
    doubts = {number.doubt for number in PRINTED if number.doubt}
    assert len(doubts) > 5
    assert all(doubt[0].isupper() and doubt.endswith(".") for doubt in doubts)
