"""What is known of a task, without a model and without a download."""

from __future__ import annotations

import pytest

from figeval import ChoiceExample, Harness, plugins, task
from figeval.runs.task_info import TaskInfo, task_info


def facts(name: str) -> TaskInfo:
    manager = plugins.plugin_manager()
    return task_info(Harness(manager).catalogue.tasks.get(name), manager)


def test_a_task_that_travels_with_figeval() -> None:
    info = facts("mini_pairs")
    assert [(split.name, split.source, split.n) for split in info.splits] == [
        ("test", "jsonl:pairs.jsonl", 60),
        ("train", "jsonl:train_pairs.jsonl", 20),
        ("prior", "jsonl:pairs.jsonl", 60),
    ]
    assert info.sources == {}
    assert info.readme is not None
    assert "mini" in info.readme.read_text(encoding="utf-8")
    assert info.routes[0].task_type == "pairs"
    assert info.published == ()


def test_upstream_data_is_named_but_not_fetched() -> None:
    info = facts("epic_retrieval_seen")
    assert [split.n for split in info.splits] == [None, None]
    assert "figeval data fetch epic" in info.splits[0].problem
    assert info.sources["epic"].licence == "none stated"
    assert {reference.metric for reference in info.published} == {"acc", "mrr"}


@pytest.mark.slow
def test_counts_of_the_real_data(real_data: str) -> None:
    assert {split.name: split.n for split in facts("epic_retrieval_unseen").splits} == {"test": 1000, "train": 1500}
    assert {split.name: split.n for split in facts("impli_idioms_gold_ant").splits} == {"test": 375, "prior": 26124}
    assert set(facts("impli_idioms_gold_ant").sources) == {"impli"}


def test_a_task_in_python() -> None:
    @task(name="made", type="choice")
    def pairs():  # type: ignore[no-untyped-def]
        yield ChoiceExample(id="1", query="q", options=("a", "b"), gold=0)

    manager = plugins.plugin_manager()
    info = task_info(pairs.bound(Harness(manager).task_types), manager)
    assert [(split.name, split.source, split.n) for split in info.splits] == [("test", "Python", 1)]
    assert info.readme is None


@pytest.mark.parametrize("name", ["mini_fables", "mini_retrieval"])
def test_routes_are_those_of_the_task_type(name: str) -> None:
    info = facts(name)
    assert {route.task_type for route in info.routes} == {info.task.type}
