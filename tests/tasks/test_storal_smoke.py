"""A smoke test of the way from STORAL's stories to a trained writer of morals and its scores, and nothing more.

The encoder-decoder has random weights of a few thousand numbers and takes three steps, so what it writes means nothing:
that it can be trained, saved, loaded and scored on the real data is all that is shown.
"""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path

import pytest

from tests.plugins.tiny import Workshop
from tests.processes import figeval


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_encoder_decoder_is_trained_on_morals_and_scored(real_data: str, tmp_path: Path, warm: Path) -> None:
    """A smoke test and nothing more: every score is a number, whatever number it is."""
    model = Workshop(tmp_path)("t5", "ForConditionalGeneration")
    task, small = ("--device", "cpu"), ("--limit", "16", "--batch_size", "8", "--max_steps", "3", "--select_on", "none")
    arguments = ("train", "--task", "storal_st2mo_en", "--model", model, "--head", "seq2seq", *task, *small)
    arguments += ("--head_args", "num_beams=1,max_new_tokens=8", "--evaluate", "", "--output", "morals")
    figeval(*arguments, cwd=tmp_path, python=warm / "python")
    history = [json.loads(line) for line in (tmp_path / "morals/training/history.jsonl").read_text().splitlines()]
    assert len(history) == 3 and all(isfinite(step["loss"]) for step in history)
    run = ("run", "--tasks", "storal_st2mo_en", "--model", "morals", *task, "--limit", "4", "--output_path", "run")
    figeval(*run, cwd=tmp_path, python=warm / "python")
    record = json.loads((tmp_path / "run/run.json").read_text(encoding="utf-8"))
    assert record["status"] == "complete"
    scores = {score["metric"]: score["value"] for score in record["tasks"][0]["scores"]}
    assert scores.keys() == {"bleu_1", "bleu_2", "repetition_2", "distinct_2_published", "length_published"}
    assert all(isfinite(value) for value in scores.values())
