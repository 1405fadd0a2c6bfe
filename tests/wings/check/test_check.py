"""`figeval check`: each condition by what it tests, and what is no condition."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval.testing.fakes import FakeLanguageModel, FakePairScorer
from tests.cli.conftest import Cli
from tests.finished_runs import finished, over_seeds


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs `overlap` of three tasks, `some` of half the examples of one, and `letters` of one."""
    folder = tmp_path_factory.mktemp("runs")
    finished(folder / "overlap", "mini_fables", "mini_proverbs", "mini_pairs", baselines=False)
    finished(folder / "some", "mini_fables", limit=10, baselines=False)
    letters = FakePairScorer(function=lambda left, right: float(len(set(left) & set(right))))
    figeval.run("mini_fables", letters, name="letters", output_path=folder / "letters")
    return folder


def check(cli: Cli, runs: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and content of `figeval check overlap --json`, with these words."""
    outcome = cli("check", runs / "overlap", "--json", *words)
    return outcome.code, json.loads(outcome.out)


def test_the_end_of_the_interval_counts_for_min_and_max_and_the_score_for_values(cli: Cli, runs: Path) -> None:
    (score,) = figeval.load(runs / "overlap").record.tasks[0].scores
    assert score.low is not None and score.value is not None and score.high is not None
    between = {"low": (score.low + score.value) / 2, "high": (score.value + score.high) / 2}
    for option, bound, code in [
        ("--min", score.low, 0),
        ("--min", between["low"], 1),
        ("--min_value", between["low"], 0),
        ("--min_value", between["high"], 1),
        ("--max", score.high, 0),
        ("--max", between["high"], 1),
        ("--max_value", between["high"], 0),
        ("--max_value", between["low"], 1),
    ]:
        result, content = check(cli, runs, option, f"mini_fables.acc={bound!r}")
        assert (result, content["passed"], len(content["conditions"])) == (code, not code, 1), option


def test_a_pattern_is_a_condition_for_each_task(cli: Cli, runs: Path) -> None:
    _, content = check(cli, runs, "--min_value", "mini_?a*.acc=0", "--min_value", "mini_proverbs.acc=0")
    assert [row["task"] for row in content["conditions"]] == ["mini_fables", "mini_pairs", "mini_proverbs"]


def test_a_score_without_an_interval_meets_no_bound_for_one(cli: Cli, runs: Path) -> None:
    code, content = check(cli, runs, "--min", "mini_pairs.macro_f1=0")
    assert (code, content["conditions"][0]["low"]) == (1, None)
    assert content["conditions"][0]["reason"].startswith("no interval")


def test_a_run_is_not_worse_than_itself_and_a_margin_needs_examples(cli: Cli, runs: Path) -> None:
    code, content = check(cli, runs, "--not_worse_than", str(runs / "overlap"))
    assert (code, len(content["conditions"])) == (0, 3)
    for margin, met in [("0.02", 1), ("0.5", 0)]:
        assert check(cli, runs, "--not_worse_than", str(runs / "overlap"), "--margin", margin)[0] == met


def test_the_verdict_is_that_of_the_paired_comparison(cli: Cli, runs: Path) -> None:
    compared = json.loads(cli("compare", runs / "overlap", runs / "letters", "--json").out)
    (task,) = compared["tasks"]
    code, content = check(cli, runs, "--not_worse_than", str(runs / "letters"))
    (condition,) = content["conditions"]
    assert (condition["difference"], condition["p"]) == (task["difference"], task["p_adjusted"])
    assert code == int(task["difference"] < 0 and task["p_adjusted"] < 0.05)
    for margin in (-task["low"] * 0.99, -task["low"] * 1.01):
        words = ("--not_worse_than", str(runs / "letters"), "--margin", str(margin))
        assert check(cli, runs, *words)[0] == int(margin <= -task["low"])


def test_seeds_count_as_one_run(cli: Cli, tmp_path: Path) -> None:
    folder = over_seeds(tmp_path / "seeds", "mini_fables", baselines=False)
    outcome = cli("check", folder, "--min_value", "mini_fables.acc=0", "--not_worse_than", folder, "--json")
    conditions = json.loads(outcome.out)["conditions"]
    assert outcome.code == 0
    assert [row["kind"] for row in conditions] == ["min_value", "not_worse_than"]


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--min", "mini_fables.acc"),
        ("--min", "=.3"),
        ("--min", "mini_fables.acc=nan"),
        ("--min", "mini_fables.acc=much"),
        ("--min", "mini_fables.acc=.1", "--min", "mini_fables.acc=.2"),
        ("--min", "mini_fabels.acc=.1"),
        ("--min", "mini_fables.f1=.1"),
        ("--min", "[*.acc=.1"),
        ("--min", "mini_fables.acc=.1", "--margin", ".1"),
        ("--not_worse_than", "{runs}/overlap", "--margin", "0"),
        ("--not_worse_than", "{runs}/some"),
        ("--not_worse_than", "{runs}/nowhere"),
        ("--not_worse_than", "{runs}/letters", "--tasks", "mini_fables,mini_pairs"),
        ("--not_worse_than", "{runs}/letters", "--metric", "bleu"),
    ],
)
def test_misuse_is_one_line(words: tuple[str, ...], cli: Cli, runs: Path) -> None:
    assert cli("check", runs / "overlap", *(word.format(runs=runs) for word in words)).complaint


def test_a_run_that_lacks_a_task_of_the_other_one(cli: Cli, runs: Path) -> None:
    assert "mini_proverbs" in cli("check", runs / "letters", "--not_worse_than", runs / "overlap").complaint
    assert cli("check", runs / "letters", "--not_worse_than", runs / "overlap", "--tasks", "mini_fables").code == 0


@pytest.mark.parametrize("status", ["running", "incomplete"])
def test_a_run_that_is_not_complete(status: str, cli: Cli, tmp_path: Path) -> None:
    folder = finished(tmp_path / "run", "mini_fables", baselines=False)
    content = json.loads((folder / "run.json").read_text("utf-8"))
    (folder / "run.json").write_text(json.dumps({**content, "status": status}), encoding="utf-8")
    assert cli("check", folder, "--min_value", "mini_fables.acc=0").complaint


def test_a_lower_bound_for_an_error_is_refused(cli: Cli, tmp_path: Path) -> None:
    folder = finished(tmp_path / "run", "mini_fables", baselines=False)
    file = folder / "run.json"
    content = json.loads(file.read_text("utf-8"))
    content["tasks"][0]["scores"][0]["higher_is_better"] = False
    file.write_text(json.dumps(content), encoding="utf-8")
    assert "--max" in cli("check", folder, "--min", "mini_fables.acc=0").complaint
    content["tasks"][0]["scores"][0].update(value=None)
    file.write_text(json.dumps(content), encoding="utf-8")
    assert cli("check", folder, "--max", "mini_fables.acc=1").code == 1, "an unknown number meets no condition"


def _logprob_by_length(scale: float) -> Callable[[str, str], float]:
    return lambda _context, word: -scale * len(word)


@pytest.mark.parametrize(("change", "code"), [(1e-6, 0), (1e-2, 1)])
def test_rounding_is_no_regression(change: float, code: int, cli: Cli, tmp_path: Path) -> None:
    """A model whose surprisals differ in the last digits, all in the same direction."""
    fields = "data: {test: 'jsonl:x.jsonl'}, fields: {id: row.id, text: row.id}"
    text = f"{{name: texts, description: x, type: surprisal, {fields}}}"
    (tmp_path / "x.task.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "x.jsonl").write_text("".join(f'{{"id": "word{n} {n}"}}\n' for n in range(100)), encoding="utf-8")
    for name, scale in (("old", 1.0), ("new", 1 + change)):
        model = FakeLanguageModel(function=_logprob_by_length(scale))
        figeval.run("texts", model, name=name, include_path=tmp_path, output_path=tmp_path / name)
    assert cli("check", tmp_path / "new", "--not_worse_than", tmp_path / "old").code == code


@pytest.fixture(scope="module")
def several_metrics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a suite whose tasks have different first metrics, with a contrast and the probes of its tasks."""
    folder = tmp_path_factory.mktemp("suite")
    suite = "{name: several, tasks: [mini_pairs, mini_alignment], contrasts: {all: {tasks: [mini_pairs]}}}"
    (folder / "several.suite.yaml").write_text(suite, encoding="utf-8")
    output = folder / "run"
    figeval.run("several", "overlap", limit=10, probes=True, baselines=False, include_path=folder, output_path=output)
    return output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), ["mini_pairs.acc", "mini_alignment.span_f1"]),
        (("--tasks", "mini_pairs,mini_alignment"), ["mini_pairs.acc", "mini_alignment.span_f1"]),
        (("--tasks", "several:all"), ["several:all.auc"]),
        (("--tasks", "several:all,mini_pairs", "--metric", "auc,acc"), ["several:all.auc", "mini_pairs.acc"]),
        (("--metric", "span_f1"), ["mini_alignment.span_f1"]),
    ],
)
def test_each_task_and_contrast_is_compared_by_its_metric(
    words: tuple[str, ...], expected: list[str], cli: Cli, several_metrics: Path
) -> None:
    outcome = cli("check", several_metrics, "--not_worse_than", several_metrics, "--json", *words)
    conditions = json.loads(outcome.out)["conditions"]
    assert [f"{row['task']}.{row['metric']}" for row in conditions if " (" not in row["task"]] == expected


def test_a_task_that_is_named_has_to_be_compared(cli: Cli, several_metrics: Path) -> None:
    words = ("--not_worse_than", several_metrics, "--tasks", "mini_pairs,mini_alignment", "--metric", "acc")
    assert "mini_alignment" in cli("check", several_metrics, *words).complaint


def test_seeds_that_are_not_trained_yet(cli: Cli, tmp_path: Path) -> None:
    folder = over_seeds(tmp_path / "seeds", "mini_fables", seeds=2, baselines=False)
    record = json.loads((folder / "seeds.json").read_text("utf-8"))
    (folder / "seeds.json").write_text(json.dumps({**record, "wanted": [*record["wanted"], 17]}), encoding="utf-8")
    assert "17" in cli("check", folder, "--min_value", "mini_fables.acc=0").complaint


def test_equal_values_without_bounds_show_no_margin(cli: Cli, tmp_path: Path) -> None:
    """Differences of bits have no bounds, so those of other texts may be of any size."""
    fields = "{id: row.id, text: row.id, contrast: row.literal}"
    head = "name: texts, description: x, type: surprisal, metrics: [contrast_difference]"
    (tmp_path / "x.task.yaml").write_text(f"{{{head}, data: {{test: 'jsonl:x.jsonl'}}, fields: {fields}}}", "utf-8")
    rows = [{"id": f"word{n} {n}", "literal": f"another{n:03} {n}" if n % 2 else f"w{n} {n}"} for n in range(200)]
    (tmp_path / "x.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    model = FakeLanguageModel(function=lambda _context, word: -float(len(word)))
    figeval.run("texts", model, name="m", include_path=tmp_path, output_path=tmp_path / "run")
    outcome = cli("check", tmp_path / "run", "--not_worse_than", tmp_path / "run", "--margin", ".2", "--json")
    (condition,) = json.loads(outcome.out)["conditions"]
    assert 0 < condition["value"] < 1
    assert outcome.code == 1
