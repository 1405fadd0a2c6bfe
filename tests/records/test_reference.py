"""Published numbers: of tasks and metrics that exist, each with its source."""

from __future__ import annotations

from collections import Counter

import pytest

from figeval import plugins
from figeval.records.reference import printed, published
from figeval.runs import Harness


def test_tasks_and_metrics_exist() -> None:
    harness = Harness(plugins.plugin_manager())
    for one in published():
        assert one.metric in harness.catalogue.tasks.get(one.task).metrics, one
        assert 0 <= one.value <= 1 or one.metric.startswith("length"), f"{one} is no fraction"
        assert one.source.count(",") == 2, f"{one.source}: paper, version, table"


def test_no_number_is_given_twice() -> None:
    times = Counter((one.task, one.metric, one.model, one.source) for one in published())
    assert not [key for key, count in times.items() if count > 1]


def test_known_misprints_are_told() -> None:
    (bart,) = {one.note for one in published("epic_retrieval_all") if (one.model, one.metric) == ("BART", "acc")}
    assert "misprint" in bart
    random = [one for one in published("epic_retrieval_unseen") if (one.model, one.metric) == ("Random", "mrr")]
    assert len(random) == 2
    assert all("misprint" in one.note for one in random)


def test_accuracies_of_whole_benchmarks_are_shares_of_their_examples() -> None:
    """Every printed accuracy of Table 4 is a multiple of 1/2500, but for the misprint."""
    doubtful = {
        one.model
        for one in published("epic_retrieval_all")
        if one.metric == "acc" and abs(one.value * 2500 - round(one.value * 2500)) > 1e-6
    }
    assert doubtful == {"BART"}


def test_a_task_without_published_numbers_has_none() -> None:
    assert not list(published("mini_pairs"))
    assert {one.task for one in published("epic_mcq")} == {"epic_mcq"}


@pytest.mark.wing("exporters")
def test_every_number_of_a_printed_table_has_a_place_in_its_layout() -> None:
    from figeval.wings.exporters.layouts import load_layouts

    for entry in load_layouts(plugins.plugin_manager()):
        layout = entry.load()
        places = [
            (group.task or group.part, measure.metric) for panel in layout.panels for group, measure in panel.columns
        ]
        rows = list(printed(layout.sources))
        assert rows, layout.name
        assert {(one.about, one.metric) for one in rows} <= set(places), layout.name
        assert len(places) == len(set(places)), f"{layout.name} has a column twice"


@pytest.mark.wing("exporters")
def test_layouts_name_tasks_and_metrics_that_exist() -> None:
    """A metric is one of the task, one that is requested for it, or stands for the number of its examples."""
    from figeval.wings.exporters.layouts import load_layouts

    harness = Harness(plugins.plugin_manager())
    requested = {"examples", "bertscore", "faithfulness"}
    for entry in load_layouts(harness.manager):
        for group, measure in (column for panel in entry.load().panels for column in panel.columns):
            if group.task:
                known = {*harness.catalogue.tasks.get(group.task).metrics, *requested}
                assert measure.metric in known, (entry.name, group.task, measure.metric)


def test_a_doubt_is_a_sentence() -> None:
    doubts = {one.doubt for one in printed() if one.doubt}
    assert len(doubts) > 5
    assert all(one[0].isupper() and one.endswith(".") for one in doubts)
