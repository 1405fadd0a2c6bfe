"""What is known of a task, without a model and without a download."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.processes import figeval

Facts = Callable[[str], dict[str, Any]]


@pytest.fixture
def facts(cli: Callable[..., Any]) -> Facts:
    """Return a function that returns what `figeval show TASK --json` prints."""
    return lambda name: json.loads(cli("show", name, "--json").out)


def test_a_task_that_travels_with_figeval(facts: Facts, cli: Callable[..., Any]) -> None:
    shown = facts("mini_pairs")
    assert [(split["name"], split["source"], split["n"]) for split in shown["splits"]] == [
        ("test", "jsonl:pairs.jsonl", 60),
        ("train", "jsonl:train_pairs.jsonl", 20),
        ("prior", "jsonl:pairs.jsonl", 60),
    ]
    assert shown["sources"] == {}
    assert shown["published"] == []
    assert "mini/README.md for splits and known errors" in cli("show", "mini_pairs").out


def test_upstream_data_is_named_but_not_fetched(facts: Facts) -> None:
    shown = facts("epic_retrieval_seen")
    assert [split["n"] for split in shown["splits"]] == [None, None]
    assert "figeval data fetch epic" in shown["splits"][0]["problem"]
    assert shown["sources"]["epic"]["licence"] == "none stated"
    assert {reference["metric"] for reference in shown["published"]} == {"acc", "mrr"}


@pytest.mark.slow
def test_counts_of_the_real_data(real_data: str, facts: Facts) -> None:
    def counts(name: str) -> dict[str, int]:
        return {split["name"]: split["n"] for split in facts(name)["splits"]}

    assert counts("epic_retrieval_unseen") == {"test": 1000, "train": 1500}
    assert counts("impli_idioms_gold_ant") == {"test": 375, "prior": 26124}
    assert set(facts("impli_idioms_gold_ant")["sources"]) == {"impli"}


MADE = """
from figeval import ChoiceExample, hookimpl, task

@task(name="made", type="choice")
def pairs():
    yield ChoiceExample(id="1", query="q", options=("a", "b"), gold=0)

@hookimpl
def register_tasks(register):
    register(pairs)
"""


@pytest.mark.usefixtures("warm_start")
def test_a_task_in_python(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(MADE, encoding="utf-8")
    shown = figeval("show", "made", "--json", cwd=tmp_path, PYTHONPATH=str(tmp_path), FIGEVAL_PLUGINS="made")
    facts = json.loads(shown.stdout)
    assert facts["splits"] == [{"name": "test", "source": "Python", "n": 1, "problem": ""}]
    assert facts["readme"] is None
