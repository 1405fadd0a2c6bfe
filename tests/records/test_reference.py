"""Published numbers: of tasks and metrics that exist, each with its source."""

from __future__ import annotations

from collections import Counter

from figeval import plugins
from figeval.evaluation import Harness
from figeval.records.reference import published


def test_tasks_and_metrics_exist() -> None:
    harness = Harness(plugins.plugin_manager())
    for one in published():
        assert one.metric in harness.catalogue.tasks.get(one.task).metrics, one
        assert 0 <= one.value <= 1, f"{one} is no fraction"
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
