"""Published numbers: of tasks and metrics that exist, each with its source."""

from __future__ import annotations

from collections import Counter

import pytest

from figeval import Harness, plugins
from figeval.records.reference import printed, published


def test_tasks_and_metrics_exist() -> None:
    harness = Harness()
    for reference in published():
        assert reference.metric in harness.catalogue.tasks.get(reference.task).metrics, reference
        assert 0 <= reference.value <= 1 or reference.metric.startswith("length"), f"{reference} is no fraction"
        assert reference.source.count(",") == 2, f"{reference.source}: paper, version, table"


def test_no_number_is_given_twice() -> None:
    times = Counter((reference.task, reference.metric, reference.model, reference.source) for reference in published())
    assert not [key for key, count in times.items() if count > 1]


def test_known_misprints_are_told() -> None:
    (bart,) = {
        reference.note
        for reference in published("epic_retrieval_all")
        if (reference.model, reference.metric) == ("BART", "acc")
    }
    assert "misprint" in bart
    random = [
        reference
        for reference in published("epic_retrieval_unseen")
        if (reference.model, reference.metric) == ("Random", "mrr")
    ]
    assert len(random) == 2
    assert all("misprint" in reference.note for reference in random)


def test_accuracies_of_whole_benchmarks_are_shares_of_their_examples() -> None:
    """Every printed accuracy of Table 4 is a multiple of 1/2500, but for the misprint."""
    doubtful = {
        reference.model
        for reference in published("epic_retrieval_all")
        if reference.metric == "acc" and abs(reference.value * 2500 - round(reference.value * 2500)) > 1e-6
    }
    assert doubtful == {"BART"}


def test_a_task_without_published_numbers_has_none() -> None:
    assert not list(published("mini_pairs"))
    assert {reference.task for reference in published("epic_mcq")} == {"epic_mcq"}


@pytest.mark.wing("exporters")
def test_every_number_of_a_printed_table_has_a_place_in_its_layout() -> None:
    from figeval.wings.exporters.layouts import load_layouts

    for entry in load_layouts(plugins.plugin_manager()):
        layout = entry.load()
        cells = [
            (group.task or group.part, measure.metric) for panel in layout.panels for group, measure in panel.columns
        ]
        rows = list(printed(layout.sources))
        assert rows, layout.name
        assert {(row.about, row.metric) for row in rows} <= set(cells), layout.name
        assert len(cells) == len(set(cells)), f"{layout.name} has a column twice"


@pytest.mark.wing("exporters")
def test_layouts_name_tasks_and_metrics_that_exist() -> None:
    """A metric is one of the task, one that is requested for it, or stands for the number of its examples."""
    from figeval.wings.exporters.layouts import load_layouts

    harness = Harness()
    requested = {"examples", "bertscore", "faithfulness"}
    for entry in load_layouts(harness.manager):
        for group, measure in (column for panel in entry.load().panels for column in panel.columns):
            if group.task:
                metrics = {*harness.catalogue.tasks.get(group.task).metrics, *requested}
                assert measure.metric in metrics, (entry.name, group.task, measure.metric)


def test_a_doubt_is_a_sentence() -> None:
    doubts = {number.doubt for number in printed() if number.doubt}
    assert len(doubts) > 5
    assert all(doubt[0].isupper() and doubt.endswith(".") for doubt in doubts)
