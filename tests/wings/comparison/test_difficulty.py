"""Which examples are hard for several models, and which labels may be wrong."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import RecordError
from tests.cli.conftest import Cli
from tests.finished_runs import finished, row, run, store, task

GOLD = {"easy": 3, "mixed": 4, "fine": 5, "hard": 6, "alike": 7, "silent": 8}


def write_run(folder: Path, answers: dict[str, tuple[Any, float | None]], **changes: Any) -> Path:
    """A run folder with these answers and their values by id; the gold answer is that of `GOLD`, else 0."""
    rows = [
        row(name, metrics={} if value is None else {"acc": value}, pred=answer, gold=GOLD.get(name, 0), **changes)
        for name, (answer, value) in answers.items()
    ]
    return store(folder, run(task("t")), {"t": rows})


def test_items_are_counted_and_a_common_error_is_a_candidate(tmp_path: Path) -> None:
    a = {"easy": (0, 1.0), "hard": (1, 0.0), "alike": (2, 0.0), "mixed": (0, 1.0), "silent": (None, None)}
    b = {"easy": (0, 1.0), "hard": (2, 0.0), "alike": (2, 0.0), "mixed": (3, 0.0), "silent": (None, None)}
    (difficulty,) = figeval.difficulty(write_run(tmp_path / "a", a), write_run(tmp_path / "b", b)).tasks
    assert [(item.id, item.difficulty, item.right) for item in difficulty.items] == [
        ("alike", 1.0, 0),
        ("hard", 1.0, 0),
        ("mixed", 0.5, 1),
        ("easy", 0.0, 2),
    ]
    assert (difficulty.nobody, difficulty.everybody, difficulty.by_right) == (2, 1, {0: 2, 1: 1, 2: 1})
    assert (difficulty.nobody_expected, difficulty.everybody_expected) == (4 * 0.5 * 0.75, 4 * 0.5 * 0.25)
    assert [(item.id, item.common_error) for item in difficulty.candidates] == [("alike", 2)]


def test_models_that_know_nothing_make_no_candidate(tmp_path: Path) -> None:
    """`constant` always answers 0, as a model may with two labels; its errors say nothing about the labels."""
    rows = {"easy": (3, 1.0), "mixed": (4, 1.0), "fine": (5, 1.0), "x": (1, 0.0)}
    constant = {"easy": (1, 0.0), "mixed": (1, 0.0), "fine": (1, 0.0), "x": (1, 0.0)}
    good, same, bad = (
        write_run(tmp_path / name, row_set) for name, row_set in (("good", rows), ("same", rows), ("bad", constant))
    )
    (difficulty,) = figeval.difficulty(good, bad).tasks
    assert (difficulty.nobody, difficulty.candidates, len(difficulty.uninformed)) == (1, [], 1)
    (difficulty,) = figeval.difficulty(good, same, bad).tasks
    assert [item.id for item in difficulty.candidates] == ["x"]


def test_unanswered_examples_are_not_expected_to_be_wrong(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", {"easy": (3, 1.0), "x": (1, 0.0), "y": (None, None)})
    b = write_run(tmp_path / "b", {"easy": (3, 1.0), "x": (1, 0.0), "y": (1, 0.0)})
    (difficulty,) = figeval.difficulty(a, b).tasks
    assert difficulty.unanswered == 1
    assert difficulty.nobody_expected == pytest.approx(2 * 0.5 * 2 / 3 + 2 / 3)
    assert difficulty.everybody_expected == pytest.approx(2 * 0.5 / 3)


def test_every_seed_counts_for_a_common_error(tmp_path: Path) -> None:
    """The seeds of `s` give two different wrong answers to x."""
    rows = {"easy": (3, 1.0), "mixed": (4, 1.0), "fine": (5, 1.0)}
    other = write_run(tmp_path / "other", {**rows, "x": (1, 0.0)})
    for seed, answer in ((0, 1), (1, 2)):
        write_run(tmp_path / "s" / f"seed-{seed}", {**rows, "x": (answer, 0.0)})
    seeds = {"task": "t", "model": "m", "seeds": [0, 1], "wanted": [0, 1], "runs": {"0": "seed-0", "1": "seed-1"}}
    (tmp_path / "s" / "seeds.json").write_text(json.dumps({**seeds, "scores": []}))
    assert figeval.difficulty(other, tmp_path / "s").tasks[0].candidates == []
    assert len(figeval.difficulty(other, tmp_path / "s" / "seed-0").tasks[0].candidates) == 1


def test_a_tie_is_no_common_error(tmp_path: Path) -> None:
    tied = {"x": (1, 0.5)}
    (difficulty,) = figeval.difficulty(*(write_run(tmp_path / name, tied, tied=2) for name in "ab")).tasks
    assert (difficulty.nobody, difficulty.candidates) == (1, [])


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", {"x": (0, 1.0)})
    with pytest.raises(RecordError, match="no task has 'ac' per example in all runs; did you mean 'acc'"):
        figeval.difficulty(a, a, metric="ac")
    other = store(tmp_path / "b", run(task("u")))
    with pytest.raises(RecordError, match=r"the runs have no task in common: .* has t; .* has u"):
        figeval.difficulty(a, other)


def test_the_command_on_real_runs(cli: Cli, tmp_path: Path) -> None:
    runs = [finished(tmp_path / name, "mini_fables", model=name, baselines=False) for name in ("overlap", "tfidf")]
    done = cli("difficulty", *runs, "--output", tmp_path / "items.csv")
    assert done.out.splitlines()[0] == "acc: examples by difficulty"
    assert done.out.splitlines()[2].split()[:3] == ["mini_fables", "20", "2"]
    with (tmp_path / "items.csv").open(newline="") as lines:
        items = list(csv.DictReader(lines))
    (difficulty,) = json.loads(cli("difficulty", *runs, "--json").out)
    assert [item["id"] for item in items] == [item["id"] for item in difficulty["items"]]
    assert sum(item["right"] == "0" for item in items) == difficulty["nobody"]
    assert "give at least two runs" in cli("difficulty", runs[0]).err


def test_the_command_that_is_suggested_shows_the_hardest_examples(tmp_path: Path, cli: Cli) -> None:
    runs = [str(finished(tmp_path / model, "mini_fables", model=model)) for model in ("tfidf", "overlap")]
    (line,) = (line for line in cli("difficulty", *runs).out.splitlines() if "figeval preview" in line)
    assert "to look at the hardest, run" in line
    command = shlex.split(line.partition("run figeval ")[2])
    shown = cli(*command)
    assert shown.code == 0, shown.err
    (difficulty,) = figeval.difficulty(*runs).tasks
    hardest = [item.id for item in difficulty.items if not item.right][:10]
    assert len(hardest) == 10 and command[3::2] == hardest
    assert [line.split()[1] for line in shown.out.splitlines() if line.startswith("mini_fables  ")] == sorted(hardest)


def test_the_command_names_candidates_with_odd_ids(tmp_path: Path, cli: Cli) -> None:
    rows = {"easy": (3, 1.0), "mixed": (4, 1.0), "fine": (5, 1.0), "a 'b'; rm": (1, 0.0)}
    runs = [str(write_run(tmp_path / name, rows)) for name in ("one", "two")]
    (line,) = (line for line in cli("difficulty", *runs).out.splitlines() if "figeval preview" in line)
    assert shlex.split(line.partition("to look at these, run figeval ")[2]) == ["preview", "t", "--id", "a 'b'; rm"]


def test_preview_of_an_unknown_id(cli: Cli) -> None:
    assert (
        "--id 'F91': mini_fables has no such example; did you mean 'F19'"
        in cli("preview", "mini_fables", "--id", "F01", "--id", "F91").complaint
    )
