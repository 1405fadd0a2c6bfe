"""`figeval compare` and `figeval power` as commands."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import figeval
from tests.cli.conftest import Cli
from tests.finished_runs import finished, store


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("runs")
    overlap = finished(folder / "overlap", "mini_fables", "mini_retrieval", baselines=False)
    return overlap, finished(folder / "random", "mini_fables", "mini_pairs", model="random", limit=15, baselines=False)


def test_compare(cli: Cli, runs: tuple[Path, Path]) -> None:
    title, head, row, *notes = cli("compare", *runs).out.splitlines()
    assert title == "acc: A = overlap, B = random"
    assert head.split()[:5] == ["task", "A", "B", "A", "−"]
    assert row.split()[0] == "mini_fables"
    assert "exact McNemar" in row
    assert [note.strip() for note in notes] == [
        "A: mini_fables: 1 tie, scored by expectation",
        "B: --limit 15: the first examples, not a random sample",
        "Holm's correction over 1 test",
        "95 % interval: Tango's score interval for independent 0/1 values",
        "detectable: the difference that p < 0.05 would find with probability 0.8",
        "mini_fables: left out 5 only in A",
        "mini_pairs not compared: only in B",
        "mini_retrieval not compared: only in A",
    ]


def test_compare_as_json(cli: Cli, runs: tuple[Path, Path]) -> None:
    comparison = json.loads(cli("compare", *runs, "--json").out)
    assert (comparison["metric"], comparison["family"], comparison["a"]["model"]) == ("acc", 1, "overlap")
    (task,) = comparison["tasks"]
    assert (task["n"], task["unmatched_a"], task["p"], task["p_adjusted"]) == (15, 5, task["p"], task["p"])


def test_a_run_with_itself_does_not_differ(cli: Cli, runs: tuple[Path, Path]) -> None:
    for task in json.loads(cli("compare", runs[0], runs[0], "--json").out)["tasks"]:
        assert (task["difference"], task["p"]) == (0, 1)


def test_several_runs_are_ranked_and_compared_by_task(cli: Cli, runs: tuple[Path, Path], tmp_path: Path) -> None:
    third = finished(tmp_path / "tfidf", "mini_fables", model="tfidf", baselines=False)
    lines = cli("compare", *runs, third).out.splitlines()
    assert lines[0] == "acc: differences to the best run of each task"
    assert [line[: len("mini_fables")].strip() for line in lines[2:5]] == ["mini_fables", "", ""]
    assert [name in line for name, line in zip(("overlap", "random", "tfidf"), lines[2:5], strict=True)] == [True] * 3
    assert any("Benjamini and Hochberg's correction over 3 tests" in line for line in lines)
    comparison = json.loads(cli("compare", *runs, third, "--json").out)
    assert [(pair["a"], pair["b"]) for pair in comparison["pairs"]] == [(0, 1), (0, 2), (1, 2)]
    assert {rank["best"] for rank in comparison["ranks"]} == {1}, "20 examples say nothing about the order"
    assert {rank["worst"] for rank in comparison["ranks"]} == {3}


def test_planned_comparisons_have_holms_correction(cli: Cli, runs: tuple[Path, Path], tmp_path: Path) -> None:
    third = finished(tmp_path / "tfidf", "mini_fables", model="tfidf", baselines=False)
    comparison = json.loads(cli("compare", *runs, third, "--against", third, "--equivalence", "0.9", "--json").out)
    assert [(pair["a"], pair["b"]) for pair in comparison["pairs"]] == [(0, 2), (1, 2)]
    assert (comparison["correction"], comparison["family"], comparison["ranks"], comparison["margin"]) == (
        "holm",
        2,
        [],
        0.9,
    )
    assert all(task["p_equivalence"] < 0.05 < task["p"] for pair in comparison["pairs"] for task in pair["tasks"])


def test_the_warnings_of_the_runs_are_repeated_once(runs: tuple[Path, Path], tmp_path: Path) -> None:
    copies = []
    for number, source in enumerate(runs):
        record = figeval.load(source).record
        for task in record.tasks:
            task.warnings, task.only_label = ["punished by construction"], "yes"
        record.digests, record.warnings = {}, [f"own warning of {number}"]
        copies.append(store(shutil.copytree(source, tmp_path / str(number)), record))
    notes = list(figeval.compare(copies).notes())
    assert notes.count("A and B: mini_fables: punished by construction") == 1
    assert "A and B: the right answer is yes for every example of mini_fables" in notes
    assert {"A: own warning of 0", "B: own warning of 1"} < set(notes)
    assert not any("mini_pairs: punished" in note for note in notes), "a task that was not compared"


def test_tasks_with_the_same_rows_are_one_test(runs: tuple[Path, Path], tmp_path: Path) -> None:
    """An encoder answers a retrieval task, alone or as a part of another task, with the same rows."""
    copies = []
    for number, source in enumerate(runs):
        record = figeval.load(source).record
        (fables,) = (task for task in record.tasks if task.task == "mini_fables")
        again = fables.model_copy(
            update={"task": "again", "predictions": "predictions/again.jsonl", "predictions_sha256": None}
        )
        record.digests, record.tasks = {}, [fables, again]
        copies.append(store(shutil.copytree(source, tmp_path / str(number)), record))
        shutil.copy(copies[-1] / fables.predictions, copies[-1] / again.predictions)
    comparison = figeval.compare(copies)
    first, repeated = comparison.result.pairs[0, 1].tasks
    assert (comparison.family, repeated.same_as) == (1, "mini_fables")
    assert repeated.p_adjusted == first.p_adjusted == first.comparison.p
    assert "again: the same rows as mini_fables in both runs, counted as one test" in comparison.notes()
    rows = (copies[1] / again.predictions).read_text().splitlines()
    (copies[1] / again.predictions).write_text("\n".join(rows[:-1]) + "\n")
    assert figeval.compare(copies).family == 2, "the rows differ"


def test_power_needs_no_run(cli: Cli) -> None:
    (proverbs, fables) = json.loads(cli("power", "--tasks", "mini_proverbs,mini_fables", "--json").out)
    assert (proverbs["n"], proverbs["clusters"], fables["n"], fables["clusters"]) == (60, 30, 20, 20)
    assert proverbs["effect"] == pytest.approx(1.1)
    assert fables["difference"] is None
    head, row, *_ = cli("power", "--tasks", "mini_proverbs", "--disagreement", "0.3").out.splitlines()
    assert head.split()[-1] == "detectable"
    assert 0.1 < float(row.split()[-1]) < 0.3, "a fraction, as in `figeval compare`"


def test_compare_refuses_with_a_cure(cli: Cli, runs: tuple[Path, Path]) -> None:
    assert "did you mean 'mrr'" in cli("compare", runs[0], runs[0], "--metric", "mr").complaint
    assert "give a run folder" in cli("compare", runs[0], "nowhere").complaint
    assert "give at least two runs" in cli("compare", runs[0]).err
    assert "is none of the runs" in cli("compare", *runs, "--against", "nowhere").err


def test_only_planned_tasks_are_tested(cli: Cli, tmp_path: Path) -> None:
    """The correction covers the named tasks; a suite stands for its tasks, and names are checked."""
    models = ("overlap", "random")
    pair = [finished(tmp_path / name, "mini", model=name, baselines=False) for name in models]
    every = json.loads(cli("compare", *pair, "--json").out)
    comparison = json.loads(cli("compare", *pair, "--tasks", "mini_fables", "--json").out)
    assert (comparison["family"], [task["task"] for task in comparison["tasks"]]) == (1, ["mini_fables"])
    assert every["family"] > 1 and comparison["tasks"][0]["p"] in [task["p"] for task in every["tasks"]]
    assert json.loads(cli("compare", *pair, "--tasks", "mini", "--json").out) == every
    refused = cli("compare", *pair, "--tasks", "mini_fabels")
    assert (refused.code, refused.complaint.partition(" or ")[0]) == (
        2,
        "figeval: --tasks mini_fabels: no run has it; did you mean 'mini_fables'",
    )
    assert "no run has it; they have mini_" in cli("compare", *pair, "--tasks", "qqq").complaint
    assert figeval.compare(pair, tasks="mini_fables").family == 1


# ---- from Python -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: figeval.compare("nowhere", None), figeval.OptionError, "runs is None; give runs, or their folders"),
        (lambda: figeval.compare(5, "nowhere"), figeval.OptionError, "runs is an int; give runs"),
        (lambda: figeval.compare("nowhere", "there"), figeval.RecordError, "give a run folder"),
        (lambda: figeval.compare("a", "b", prompts=("default",)), figeval.OptionError, "give two strings or None"),
        (lambda: figeval.compare("a", "b", metric=1), figeval.OptionError, "metric=1: give a string or None"),
        (lambda: figeval.compare("a", "b", seed="x"), figeval.OptionError, "seed='x': give an integer"),
        (lambda: figeval.power("mini_proverbs", disagreement=0.0), figeval.OptionError, "give a share above 0"),
        (lambda: figeval.power("mini_proverbs", correlation=2.0), figeval.OptionError, "give a number from 0 to 1"),
        (lambda: figeval.power("mini_proverbs", power=1.0), figeval.OptionError, "power=1: give a probability"),
        (lambda: figeval.power("mini_proverbs", comparisons=0), figeval.OptionError, "give a whole number from 1"),
        (lambda: figeval.power("mini_proverbs", comparisons=10**400), figeval.OptionError, "whole number from 1"),
        (lambda: figeval.power("mini_proverbz"), figeval.UnknownName, "did you mean 'mini_proverbs'"),
        (lambda: figeval.power([]), figeval.OptionError, "tasks is empty"),
        (lambda: figeval.power("mini_proverbs", include_path=3), figeval.OptionError, "include_path is an int"),
        (lambda: figeval.difficulty("a", 3), figeval.OptionError, "runs is an int; give runs"),
    ],
)
def test_a_mistake_is_an_exception_of_one_line(call: Callable[[], object], kind: type, words: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("command", "call"),
    [
        (
            ("power", "--tasks", "mini_fables,mini_pairs", "--disagreement", "0.3", "--comparisons", "3"),
            lambda *_: figeval.power(["mini_fables", "mini_pairs"], disagreement=0.3, comparisons=3),
        ),
        (("difficulty",), lambda *runs: figeval.difficulty(figeval.load(runs[0]), runs[1])),
        (("compare",), lambda *runs: figeval.compare(list(runs))),
    ],
)
def test_python_gives_what_the_command_prints(
    command: tuple[str, ...], call: Callable[..., Any], cli: Cli, runs: tuple[Path, Path]
) -> None:
    arguments = (*command, *(runs if len(command) == 1 else ()))
    result = call(*runs)
    printed = cli(*arguments)
    assert printed.code == 0, printed.err
    assert printed.out.strip() == str(result).strip()
    assert json.loads(cli(*arguments, "--json").out) == json.loads(json.dumps(result.to_dict()))
    assert repr(result).startswith(f"<figeval.{type(result).__name__}")
    assert result._repr_html_().startswith("<")
