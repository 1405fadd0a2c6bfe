"""Spans in both harnesses: what lm-eval's models write is read and scored as in a run of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.model import LM

import figeval
from figeval import Harness
from tests.plugins.lm_eval_bridge.both import in_figeval, in_lm_eval, stubs
from tests.plugins.tiny import Workshop

TASK = "mini_alignment"


def test_a_stub_for_the_route_that_writes_and_no_other() -> None:
    assert [file.name for file in stubs().rglob(f"figeval_{TASK}*")] == [f"figeval_{TASK}.yaml"]


def test_quotations_and_metrics(workshop: Workshop, tmp_path: Path) -> None:
    folder = str(workshop("gpt2", "LMHeadModel", n_positions=512))
    in_their_run, output = in_lm_eval({"pretrained": folder}, TASK, stubs(), limit=6, batch_size=2)
    in_our_run = in_figeval(
        "lm_eval:hf", TASK, tmp_path / "run", model_args={"pretrained": folder}, limit=6, batch_size=2
    )
    assert [
        None if span is None else [span.start, span.end] for span in in_their_run.predictions
    ] == in_our_run.predictions
    assert in_our_run.metrics == in_their_run.metrics
    (sample, *_) = output["samples"][f"figeval_{TASK}"]
    assert "Part of the proverb" in sample["arguments"][0][0]
    assert in_their_run.numbers["parse_rate"] == in_our_run.numbers["parse_rate"]


class Quoting(LM):
    """Quotes how the story begins."""

    def loglikelihood(self, requests: Any) -> Any:
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood

    def generate_until(self, requests: Any) -> list[str]:
        return [self.said(request.args[0]) for request in requests]

    @staticmethod
    def said(prompt: str) -> str:
        story = prompt.partition("Story: ")[2].partition("\n")[0]
        return json.dumps({"quote": " ".join(story.split()[:9])})


def test_scores_that_are_no_means_over_rows(tmp_path: Path) -> None:
    in_their_run, _ = in_lm_eval(Quoting(), TASK, stubs(), limit=20)
    harness = Harness()
    examples = list(harness.examples(harness.catalogue.tasks.get(TASK)))[:20]
    answers = [
        {"id": example.id, "prediction": None if span is None else [span.start, span.end]}
        for example, span in zip(examples, in_their_run.predictions, strict=True)
    ]
    ours = figeval.score(TASK, answers, limit=20, output_path=tmp_path / "ours", name="quoting")
    scores = {score.metric: score.value for score in ours.record.tasks[0].scores}
    for name in ("span_precision", "span_recall", "span_f1"):
        assert in_their_run.numbers[name] == pytest.approx(scores[name])
    assert 0 < in_their_run.numbers["span_f1"] < 1
    assert (in_their_run.numbers["verbatim"], in_their_run.numbers["parse_rate"]) == (1, 1)
    assert in_their_run.numbers["parse_rate_stderr"] == 0
    assert in_their_run.numbers["span_f1_stderr"] == "N/A", "lm-eval 0.5 would draw 100,000 samples"


class Wavering(Quoting):
    """Quotes the story only when a question is asked for the first time."""

    def generate_until(self, requests: Any) -> list[str]:
        before = [None, *requests]
        pairs = zip(super().generate_until(requests), before, requests, strict=False)
        return [text if request is not last else "no idea" for text, last, request in pairs]


def test_the_first_of_repeated_answers_counts() -> None:
    once, _ = in_lm_eval(Quoting(), TASK, stubs(), limit=4)
    thrice, output = in_lm_eval(Wavering(), TASK, stubs(), limit=4, repeats=3)
    assert [len(sample["resps"][0]) for sample in output["samples"][f"figeval_{TASK}"]] == [3] * 4
    assert thrice.metrics == once.metrics


def test_predictions_alone() -> None:
    in_their_run, output = in_lm_eval(Quoting(), TASK, stubs(), limit=2, predict_only=True)
    assert {name for name in in_their_run.numbers if not name.endswith("_stderr")} & {"bypass", "span_f1"} == {"bypass"}
    (sample, _) = output["samples"][f"figeval_{TASK}"]
    assert "quote" in sample["resps"][0][0]
