"""A task of texts in lm-eval: asked with generate_until, with the numbers of figeval."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.lm_eval_bridge.both import assert_same, in_figeval, in_lm_eval, stubs
from tests.plugins.tiny import Workshop

TASK = """
name: tell
type: generation
data: {test: "jsonl:tell.jsonl"}
fields: {id: row.id, inputs: {saying: row.saying, keywords: row.words}, references: [row.told]}
max_new_tokens: 12
metrics: [bleu4, corpus_bleu, rouge_l, keyword_recall, distinct_1, length]
"""


@pytest.fixture
def telling(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks"
    folder.mkdir()
    rows: list[dict[str, Any]] = [
        {"id": f"r{number}", "saying": f"saying {number}", "words": ["roof"], "told": "The roof leaked for a month."}
        for number in range(4)
    ]
    (folder / "tell.task.yaml").write_text(TASK, encoding="utf-8")
    (folder / "tell.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


@pytest.mark.slow
def test_texts_get_the_same_numbers_there(telling: Path, workshop: Workshop, tmp_path: Path) -> None:
    folder = str(workshop("gpt2", "LMHeadModel", n_positions=512))
    in_their_run, _ = in_lm_eval({"pretrained": folder}, "tell", stubs(telling), device="cpu")
    in_our_run = in_figeval(
        "lm_eval:hf",
        "tell",
        tmp_path / "here",
        model_args={"pretrained": folder},
        include_path=(telling,),
        device="cpu",
    )
    assert in_our_run.numbers.pop("distinct_1") > 0
    assert "distinct_1" not in in_their_run.numbers, "lm-eval sees one example at a time"
    alone = [{name: value for name, value in metrics.items() if name != "distinct_1"} for metrics in in_our_run.metrics]
    assert_same(replace(in_our_run, metrics=alone), in_their_run)
    assert {"rouge_l", "corpus_bleu", "length"} <= set(in_their_run.numbers)
