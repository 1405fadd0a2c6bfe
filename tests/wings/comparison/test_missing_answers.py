"""A system that answers only what it is sure of wins nowhere, because its missing answers count as wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import figeval
from tests.cli.conftest import Cli
from tests.finished_runs import finished

OPPOSITE = {"entailment": "non-entailment", "non-entailment": "entailment"}
pytestmark = pytest.mark.wing("comparison", "check", "exporters", "report")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """`sure` answers twelve of 60 examples, all of them rightly, and `complete` all, nine tenths of them rightly."""
    folder = tmp_path_factory.mktemp("runs")
    overlap = finished(folder / "overlap", "mini_pairs", baselines=False)
    rows = (overlap / "predictions" / "mini_pairs.jsonl").read_text(encoding="utf-8").splitlines()
    golds = {row["id"]: row["gold"] for row in map(json.loads, rows)}
    complete = {name: OPPOSITE[gold] if index % 10 == 0 else gold for index, (name, gold) in enumerate(golds.items())}
    for name, answers in (("sure", dict([*golds.items()][:12])), ("complete", complete)):
        predictions = [{"id": key, "prediction": answer} for key, answer in answers.items()]
        figeval.score("mini_pairs", predictions, name=name, output_path=folder / name)
    return folder / "sure", folder / "complete"


def test_a_comparison_is_of_all_examples(runs: tuple[Path, Path]) -> None:
    comparison = figeval.compare(runs)
    ((_, row),) = comparison.differences.iterrows()
    assert (row["metric"], row["n"], row["a"], row["b"], row["p"] < 0.0001) == ("acc_of_all", 60, 0.2, 0.9, True)
    assert figeval.compare(runs, metric="acc").metric == "acc"
    assert figeval.compare(runs[1], runs[1]).metric == "acc", "there is an answer to every example"


def test_a_gate_does_not_open(runs: tuple[Path, Path], cli: Cli) -> None:
    sure, complete = runs
    assert (
        cli("check", sure, "--not_worse_than", complete).code,
        cli("check", complete, "--not_worse_than", sure).code,
    ) == (1, 0)


def test_no_score_on_fewer_examples_is_the_best_one(runs: tuple[Path, Path]) -> None:
    table = str(figeval.export(runs, to="latex", layout="comparison"))
    assert re.search(r"acc\\_of\\_all .* 0\.200\{\$\^\{\\dagger\}\$\} & \\bfseries 0\.900", table)
    explicit = str(figeval.export(runs, to="latex", layout="comparison", metrics="acc"))
    assert r"1.000{$^{\circ}$}" in explicit and r"\bfseries" not in explicit


def test_a_board_ranks_by_all_examples(runs: tuple[Path, Path], tmp_path: Path) -> None:
    figeval.board(runs, output=tmp_path / "site")
    (board,) = json.loads((tmp_path / "site" / "board.json").read_text(encoding="utf-8"))["leaderboards"]
    ranks = {row["model"]: row["rank"] for row in board["rows"] if row["kind"] == "run"}
    assert (board["metric"], ranks) == ("acc_of_all", {"complete": 1, "sure": 2})


def test_the_first_score_of_a_run_has_its_baselines(runs: tuple[Path, Path], cli: Cli) -> None:
    rows = [line.split() for line in cli("show", runs[0]).out.splitlines()]
    assert rows[2][:4] == ["mini_pairs", "given", "acc_of_all", "0.2000"] and "chance" in rows[2]
    assert rows[3][:2] == ["acc", "1.0000"]
