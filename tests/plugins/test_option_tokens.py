"""Options after prompts: every character is in one of their tokens, and only where a token straddles are they encoded
otherwise than by lm-eval."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from figeval import Cloze, Continuation
from tests.cli.conftest import Cli
from tests.plugins import joining
from tests.plugins.joining import OPTIONS, PROMPT, causal_checkpoint, masked_checkpoint
from tests.plugins.scoring_servers import serving

REQUESTS = [Continuation(PROMPT, option) for option in OPTIONS]
STRADDLING = {0, 1}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return causal_checkpoint(tmp_path_factory.mktemp("joining") / "tiny")


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[], Any]], Path]:
    """Return a function that makes a model with a tokenizer."""
    return cache(lambda maker: causal_checkpoint(tmp_path_factory.mktemp("tokens") / "tiny", maker))


def tokens(open_model: Any, folder: Path, context: str, option: str) -> tuple[list[int], list[int], bool]:
    """The ids of a prompt and of its option, and whether a token would straddle their border."""
    with serving(folder, "sglang") as server:
        model = open_model("sglang", "tiny", base_url=server.url, tokenizer=str(folder))
        straddling = model.loglikelihood([Continuation(context, option)]).straddling
    (body,) = server.requests
    size = body["logprob_start_len"] + 1
    return body["input_ids"][:size], body["input_ids"][size:], bool(straddling)


# ---- which tokens ----------------------------------------------------------------------------------------------------

MAKERS = {
    "byte pairs": joining.byte_pairs,
    "sentence pieces": partial(joining.sentence_pieces, legacy=False),
    "sentence pieces, legacy": partial(joining.sentence_pieces, legacy=True),
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize(
    ("context", "option", "straddling"),
    [
        ("答：", "水滴石穿", True),
        ("答：", "骄傲", False),  # letters that are several tokens of bytes
        ("答： ", "水滴石穿", False),  # blanks at the end of a prompt belong to the option, as in lm-eval
        ("答：\n", "水滴石穿", False),
        ("こたえは", "猫に小判です", True),
        ("คำตอบคือ", "น้ำขึ้นให้รีบตัก", True),
        ("คำตอบค", "ือ", True),  # begins with a mark
        ("the answer is un", "likely", True),
        ("the answer is", " unlikely", True),  # across a blank
    ],
)
def test_the_tokens_of_an_option_are_its_characters(
    maker: Any, context: str, option: str, straddling: bool, folder_of: Any, open_model: Any
) -> None:
    tokenizer = maker()
    before, ids, straddles = tokens(open_model, folder_of(maker), context, option)
    blank = context[len(context.rstrip()) :]
    assert tokenizer.decode(ids) == blank + option
    assert straddles is straddling
    if context:
        assert before == tokenizer(context.rstrip())["input_ids"]
        assert straddling != (before + ids == tokenizer(context + option)["input_ids"])


@pytest.mark.parametrize(
    ("maker", "context", "option", "expected", "straddling", "reason"),
    [
        (joining.closed_pieces, "答：", "水滴", ["水", "滴"], False, "what is put after a text is in neither part"),
        (joining.closed_pieces, "cafe", "\u0301n", ["\u0301", "n"], True, "NFC joins a letter and its mark"),
        (
            joining.closed_pieces,
            "答：骄",
            "傲水",
            ["<unk>", "水"],
            True,
            "the token of unknown letters is as if it were one",
        ),
        (joining.closed_pieces, "答：骄", "水", ["水"], False, "the unknown letter is the prompt's alone"),
        (joining.word_pieces, "The answer is: un", "like", ["like"], True, "one word, of which a piece straddles"),
        (joining.word_pieces, "The answer is: un", "ly", ["[UNK]"], False, "one word without such a piece"),
        (joining.word_pieces, "The answer is: xyz", "like", ["like"], True, "one unknown word"),
        (joining.word_pieces, "The answer is: xyz", " like", ["like"], False, "an unknown word and another one"),
    ],
)
def test_tokens_after_texts_and_of_unknown_letters(
    maker: Any,
    context: str,
    option: str,
    expected: list[str],
    straddling: bool,
    reason: str,
    folder_of: Any,
    open_model: Any,
) -> None:
    tokenizer = maker()
    before, ids, straddles = tokens(open_model, folder_of(maker), context, option)
    if expected == ["[UNK]"]:
        expected = ["##ly"]
    assert (tokenizer.convert_ids_to_tokens(ids), straddles) == (expected, straddling), reason
    assert tokenizer.eos_token_id not in before


# ---- scores ----------------------------------------------------------------------------------------------------------


def naive(folder: Path, request: Continuation) -> float:
    """Σ log P of the tokens of the option, encoded by themselves, after those of the prompt."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    before, after = (tokenizer(text)["input_ids"] for text in (request.context, request.continuation))
    with torch.inference_mode():
        table = model(input_ids=torch.tensor([before + after])).logits[0].double().log_softmax(-1)
    return sum(float(table[len(before) + index - 1, token]) for index, token in enumerate(after))


def test_all_of_an_option_is_scored(checkpoint: Path, open_model: Any) -> None:
    output = open_model("hf", checkpoint).loglikelihood([*REQUESTS, Continuation(PROMPT, "")])
    np.testing.assert_allclose(output.values[:3], [naive(checkpoint, request) for request in REQUESTS], rtol=1e-4)
    assert output.straddling == STRADDLING
    assert math.isnan(output.values[3])


def test_lm_eval_and_its_models_keep_their_encoding(checkpoint: Path, open_model: Any) -> None:
    """What lm-eval leaves without a token has no score there, and the others have lm-eval's."""
    requests = [Continuation(PROMPT, option) for option in ("水滴石穿骄", "骄", "傲")]
    our_model = open_model("hf", checkpoint)
    models = [open_model("lm_eval", name, pretrained=str(checkpoint), device="cpu") for name in ("hf", "figeval-hf")]
    scores, same_scores = (list(each.loglikelihood([*requests, REQUESTS[0]]).values) for each in models)
    assert same_scores == pytest.approx(scores, rel=1e-5, nan_ok=True)
    joined, *option_scores, empty = scores
    values = our_model.loglikelihood(requests).values
    assert option_scores == pytest.approx(values[1:], rel=1e-5)
    assert joined > values[0]  # tokens less
    assert math.isnan(empty)
    assert models[0].describe()["warnings"] == [
        "2 options with a token across the border to the prompt, which lm-eval leaves out (NaN if it is the only one); "
        "--model hf:NAME scores all of an option"
    ]


@pytest.mark.parametrize(("kind", "backend"), [("vllm", "vllm_server"), ("sglang", "sglang")])
def test_servers_that_take_tokens(kind: str, backend: str, checkpoint: Path, open_model: Any) -> None:
    with serving(checkpoint, kind) as server:
        model = open_model(backend, "tiny", base_url=server.url, tokenizer=str(checkpoint))
        output = model.loglikelihood(REQUESTS)
    np.testing.assert_allclose(output.values, [naive(checkpoint, request) for request in REQUESTS], rtol=1e-4)
    assert output.straddling == STRADDLING


def test_a_server_that_takes_texts_cannot_keep_the_border(tmp_path: Path, open_model: Any) -> None:
    folder = causal_checkpoint(tmp_path / "tiny", partial(joining.sentence_pieces, legacy=False))
    with serving(folder, "llama_cpp") as server:
        model = open_model("llama_cpp", "tiny", base_url=server.url, tokenizer=str(folder))
        values = model.loglikelihood(REQUESTS).values
        assert [math.isnan(value) for value in values] == [True, True, False]
        assert model.describe()["warnings"][0].startswith("2 options joined to the prompt by the tokenizer")


def test_masked_models_keep_the_borders_of_words(tmp_path: Path, open_model: Any) -> None:
    """The word is masked alone: what precedes and follows it is seen as it is."""
    folder = masked_checkpoint(tmp_path / "tiny")
    model = open_model("masked", folder)
    tokenizer, network = model.network.tokenizer, model.network.model
    before, word, after = "答：千里", "之行", "始于足下"
    ids = [tokenizer(text)["input_ids"] for text in (before, word, after)]
    assert [*ids[0], *ids[1], *ids[2]] != tokenizer(before + word + after)["input_ids"]
    row = [*ids[0], *[tokenizer.mask_token_id] * len(ids[1]), *ids[2]]
    with torch.inference_mode():
        table = network(input_ids=torch.tensor([row])).logits[0].double().log_softmax(-1)
    expected_score = sum(float(table[len(ids[0]) + index, token]) for index, token in enumerate(ids[1]))
    output = model.fill([Cloze(before, after, (word,)), Cloze("the answer ", " unlikely", ("is",))])
    assert output.values[0][0] == pytest.approx(expected_score, rel=1e-4)
    assert 0 in output.straddling
    assert model.loglikelihood(REQUESTS).straddling == STRADDLING


# ---- runs ------------------------------------------------------------------------------------------------------------

TASK = """
name: joined
description: the end of the saying
type: choice
language: zh
data: {test: "jsonl:joined.jsonl"}
fields: {id: row.id, query: row.q, options: row.o, gold: row.g}
template: joined.jinja
metrics: [acc]
"""
RUN = ("run", "--tasks", "joined", "--include_path", ".", "--model", "./tiny", "--output_path", "run")


@pytest.fixture
def task(checkpoint: Path, tmp_path: Path) -> Path:
    (tmp_path / "joined.task.yaml").write_text(TASK, encoding="utf-8")
    (tmp_path / "joined.jinja").write_text(
        "{% block context %}答：{% endblock %}{% block continuation %}{{ option }}{% endblock %}", encoding="utf-8"
    )
    rows = [
        {"id": "joined", "q": "?", "o": ["水滴石穿", "骄"], "g": 0},
        {"id": "apart", "q": "?", "o": ["骄", "傲"], "g": 0},
        {"id": "only", "q": "?", "o": ["水", "千"], "g": 0},
    ]
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (tmp_path / "joined.jsonl").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "tiny").symlink_to(checkpoint)
    return tmp_path


def test_the_count_is_in_the_record_and_below_the_table_and_survives_resuming(
    task: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.chdir(task)
    assert "joined: 2 examples with a token across the border of what is scored" in " ".join(cli(*RUN).out.split())
    file, rows = task / "run/run.json", task / "run/predictions/joined.jsonl"
    record, lines = json.loads(file.read_text(encoding="utf-8")), rows.read_bytes().splitlines(keepends=True)
    assert record["tasks"][0]["counts"] == {"ok": 3, "straddling": 2}
    assert [json.loads(line).get("straddling", False) for line in lines] == [True, False, True]

    record["tasks"][0] |= {"status": "running", "predictions_sha256": None, "counts": {}}
    file.write_text(json.dumps(record), encoding="utf-8")
    rows.write_bytes(lines[0])
    assert cli(*RUN).code == 0
    assert rows.read_bytes() == b"".join(lines)
    assert json.loads(file.read_text(encoding="utf-8"))["tasks"][0]["counts"] == {"ok": 3, "straddling": 2}

    # Rows of an earlier version, in which a part of an option may be missing, are not continued.
    file.write_text(json.dumps(record | {"schema_version": "2.2"}), encoding="utf-8")
    refused = cli(*RUN)
    assert (refused.code, "scored by an earlier figeval" in refused.err) == (2, True)
    assert rows.read_bytes() == b"".join(lines)
