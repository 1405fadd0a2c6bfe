"""`figeval preview`: the text on the screen is the text that the routes make."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.runs.conftest import write_task


def blocks(out: str) -> dict[str, list[tuple[str, str]]]:
    """Route → (name, text) of everything shown below it."""
    text_blocks: dict[str, list[tuple[str, str]]] = {}
    shown: list[tuple[str, str]] = []
    for line in out.splitlines():
        if heading := re.match(r"  (\w+) \(", line):
            shown = text_blocks.setdefault(heading[1], [])
        elif entry := re.match(r"    (\S+(?: \w+)?) *│(.*)", line):
            shown.append((entry[1], entry[2]))
        elif continuation := re.match(r"     +│(.*)", line):
            shown[-1] = (shown[-1][0], f"{shown[-1][1]}\n{continuation[1]}")
    return text_blocks


def test_every_route_of_a_pairs_task(cli: Cli) -> None:
    done = cli("preview", "mini_pairs", "-n", "1")
    assert done.code == 0
    shown = blocks(done.out)
    assert list(shown) == [
        *("by_head", "by_cloze", "by_verbalizer", "by_threshold", "by_cosine_threshold", "by_label_word")
    ]
    left, right = (text for _, text in shown["by_threshold"])
    assert shown["by_head"] == [("left", left), ("right", right), ("labels", "entailment | non-entailment")]
    assert shown["by_cosine_threshold"] == [("text", left), ("text", right)]
    assert shown["by_cloze"] == [
        ("cloze", f"{left.rstrip('.')}? [____], {right}"),
        ("words", "Yes | No | Maybe"),
    ]
    (name, context), *words = shown["by_verbalizer"]
    assert name == "context"
    assert context.startswith(f"Sentence: {left}\nClaim: {right}\n")
    assert context.endswith("\nAnswer:")
    assert words == [("continuation", "·Yes"), ("continuation", "·No"), ("continuation", "·Maybe")]


def test_what_is_known_of_an_example(cli: Cli) -> None:
    out = cli("preview", "mini_proverbs", "-n", "2").out
    assert out.count("mini_proverbs  ") == 2
    assert "gold          │2: A stitch in time saves nine" in out
    assert "cluster       │P01" in out
    assert "meta.proverb  │P01" in out


def test_three_examples_of_every_task_of_a_suite(cli: Cli) -> None:
    out = cli("preview", "mini").out
    assert len(re.findall(r"^mini_\w+  \w+$", out, re.MULTILINE)) == 3 * 4


def test_only_the_route_of_a_model(cli: Cli) -> None:
    out = cli("preview", "mini_retrieval", "--model", "overlap", "-n", "1").out
    shown = blocks(out)
    assert list(shown) == ["by_pair_score"]
    assert "by_pair_score (score_pairs, 30 requests)" in out
    assert "… and 24 more like these" in out
    assert [name for name, _ in shown["by_pair_score"]] == ["left", *["right"] * 6]


def test_very_many_candidates_are_one_request(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "many.task.yaml").write_text(
        "name: many\ntype: ranking\ndata: {test: 'jsonl:many.jsonl'}\n"
        "fields: {id: row.id, query: row.q, candidates: row.c, relevant: [0]}\n"
    )
    row = {"id": "1", "q": "dawn", "c": [f"word {number}" for number in range(4_097)]}
    (tmp_path / "many.jsonl").write_text(json.dumps(row))
    done = cli("preview", "many.task.yaml")
    assert done.code == 0
    assert "by_cosine (embed, 2 requests)" in done.out


def test_solved_examples_stand_before_the_question(cli: Cli, tmp_path: Path) -> None:
    write_task(tmp_path, "mine", n=20)
    done = cli("preview", "mine", "--include_path", ".", "--num-fewshot", "2", "-n", "1", "--seed", "3")
    shown = blocks(done.out)
    context = shown["by_loglikelihood"][0][1]
    questions = re.findall(r"Question: (\w+) here\nAnswer:(.*)", context)
    assert len(questions) == 3
    assert questions[-1] == ("word0", "")
    assert all(answer.strip() for _, answer in questions[:-1])
    assert done.out.count("which shows no examples; leave out --num_fewshot") == 4
    turns = [text for name, text in shown["by_letter"] if name[0].isdigit()]
    assert len(turns) == 5
    assert all(text in {"·A", "·B", "·C"} for text in turns[1::2])
    assert cli("preview", "mine", "--include_path", ".", "--num_fewshot", "2", "-n", "1", "--seed", "4").out != done.out


def test_where_a_template_lacks_a_block_that_of_the_task_type_stands_in(cli: Cli, tmp_path: Path) -> None:
    write_task(tmp_path, "mine")
    with (tmp_path / "mine.task.yaml").open("a") as task:
        task.write("template: half.jinja\n")
    (tmp_path / "half.jinja").write_text("{% block continuation %} {{ option }}{% endblock %}")
    done = cli("preview", "mine", "--include_path", ".", "-n", "1")
    assert done.code == 0
    (context, *_) = blocks(done.out)["by_loglikelihood"]
    assert context == ("context", "Question: word0 here\nAnswer:"), "the prompt of the task type stands in"
    assert blocks(done.out)["by_pair_score"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mini_pirs",), "did you mean 'mini_pairs'"),
        (("mini_pairs", "--model", "overlp"), "did you mean 'overlap'"),
        (("mini_pairs", "--model", "overlap", "--num_fewshot", "1"), "leave out --num_fewshot"),
        (("mini_pairs", "--model", "random", "--model_args", "sed=1"), "has no option 'sed'; did you mean 'seed'"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], words: str, cli: Cli) -> None:
    assert words in cli("preview", *arguments).complaint


def test_white_space_at_the_edges_is_visible_and_inside_is_kept(cli: Cli, tmp_path: Path) -> None:
    write_task(tmp_path, "mine", row0={"o": ["\tnow  and\n\nthen\n", "never ", "x"]})
    assert blocks(cli("preview", "mine", "--include_path", ".", "-n", "1").out)["by_pair_score"][1:] == [
        ("right", "→now  and\n\nthen⏎"),
        ("right", "never·"),
        ("right", "x"),
    ]


def test_the_texts_of_a_prompt_by_name(cli: Cli) -> None:
    flags = ("--system_instruction", "Be brief.", "--max_new_tokens", "8")
    shown = blocks(cli("preview", "mini_fables", "-n", "1", *flags).out)["by_letter"]
    assert [name for name, _ in shown] == ["1 system", "2 user", "stop", "max_new_tokens"]
    assert (shown[0][1], shown[-1][1]) == ("Be brief.", "8")
