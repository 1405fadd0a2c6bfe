"""`figeval rescore`, and the flags that say how questions are put."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import figeval
from tests.cli.conftest import Cli
from tests.fakes import FakeGenerator
from tests.runs.conftest import write_task


@pytest.fixture
def run_in_words(tmp_path: Path) -> Path:
    """A run whose answers are words."""
    (tmp_path / "tasks").mkdir()
    write_task(tmp_path / "tasks", "t")
    writer = FakeGenerator(function=lambda text: "" if "word1" in text else "B")
    return figeval.run("t", writer, include_path=tmp_path / "tasks", output_path=tmp_path / "run").path


def test_before_and_after(cli: Cli, run_in_words: Path) -> None:
    head, line = cli("rescore", "run", "--include_path", "tasks").out.splitlines()
    assert head.split() == ["task", "answers", "changed", "before", "after", "acc", "before", "acc", "after"]
    assert line.split() == ["t", "20", "0", *("11", "empty", "·", "9", "ok") * 2, *("0.3333",) * 2]
    (rescored,) = json.loads(cli("rescore", "run", "--include_path", "tasks", "--json").out)
    assert (rescored["task"], rescored["changed"], rescored["after"]) == ("t", 0, {"empty": 11, "ok": 9})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere",), "nowhere: cannot be read"),
        (("run",), "unknown task 't'"),
    ],
)
def test_what_cannot_be_rescored(arguments: tuple[str, ...], words: str, cli: Cli, run_in_words: Path) -> None:
    assert words in cli("rescore", *arguments).complaint


def test_the_table_says_what_was_no_answer(cli: Cli, run_in_words: Path) -> None:
    out = cli("show", "run").out
    assert "parse_rate  0.4500" in out
    assert "t: 11 empty answers" in out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--orders", "sideways"), "cyclic, all, or a number of at least 2, not 'sideways'"),
        (("--orders", "1"), "cyclic, all, or a number of at least 2, not '1'"),
        (("--orders", "cyclic"), "mini_fables takes the route by_pair_score, which shows no list of options"),
        (("--shots", "mine"), "'mine' is not one of"),
        (("--prompts", "shrt"), "--prompts shrt: none of these tasks has it; did you mean 'short'"),
        (("--prompts", "short"), "which shows no prompt; leave out --prompts"),
        (("--system_instruction", "Be brief."), "has no place for a system message; leave out --system_instruction"),
        (("--apply_chat_template",), "overlap has no chat template to apply; leave out --apply_chat_template"),
        (("--max_new_tokens", "0"), "0 is not in the range"),
    ],
)
def test_flags_that_make_no_sense(flags: tuple[str, ...], words: str, cli: Cli) -> None:
    command = ("run", "--tasks", "mini_fables", "--model", "overlap", "--output_path", "out")
    assert words in cli(*command, *flags).complaint


def test_probes_are_a_flag_away(cli: Cli, tmp_path: Path) -> None:
    done = cli("run", "--tasks", "mini_pairs", "--model", "overlap", "--probes", "--output_path", "out")
    assert done.code == 0
    assert "mini_pairs@no_query (probe)" in done.out
    assert "mini_pairs@shuffled_query (probe)" in done.out
    assert sorted(file.name for file in (tmp_path / "out" / "predictions").iterdir()) == [
        *("mini_pairs.jsonl", "mini_pairs@no_query.jsonl", "mini_pairs@shuffled_query.jsonl")
    ]
    assert "by figure" in cli("show", "out", "--by", "figure").out
    assert "probe,overlap" in cli("export", "out", "--to", "csv").out


def test_previews_of_prompts_and_probes(cli: Cli) -> None:
    out = cli("preview", "mini_fables", "-n", "1", "--prompts", "short", "--probes", "--system_instruction", "Hm.").out
    headings = [line.split()[0] for line in out.splitlines() if line.startswith("mini_fables")]
    assert headings == ["mini_fables", "mini_fables@short", "mini_fables@no_query", "mini_fables@shuffled_query"]
    assert "1 system      │Hm." in out
    assert "context       │Hm.⏎" not in out, "only edges are marked"
