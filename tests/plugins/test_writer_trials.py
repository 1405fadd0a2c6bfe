"""The self-test of writers: rows that come and go pass whatever the rounding, and with a planted fault never."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from figeval.builtin.plugins.causal.engine.separable import separable_parts
from figeval.builtin.plugins.causal.generation import trials
from figeval.builtin.plugins.causal.generation.decoder import Decoder
from figeval.builtin.plugins.causal.generation.self_test import writer_for
from figeval.builtin.plugins.causal.generation.trials import BatchTrial, DecoderTrial, array, failure, fresh_failure
from figeval.builtin.plugins.causal.generation.whole_batches import WholeBatches
from figeval.builtin.plugins.torch_models.batching import TokenBudget
from tests.plugins.architectures import MIXING, PACKED_CONFIGS, PLAIN_CONFIGS, SHARING, build

LOUD_CONFIGS = {"Cohere": {"logit_scale": 1.0}}
NATS = 0.1  # per token


def decoder_trial(model: Any) -> DecoderTrial:
    return DecoderTrial(Decoder(model, TokenBudget.on("cpu"), TokenBudget(16_384)))


def batch_trial(model: Any) -> BatchTrial:
    model.generation_config.eos_token_id = 0
    return BatchTrial(WholeBatches(model, TokenBudget(16_384), 0, ""))


def add_noise(model: Any) -> None:
    """Add noise to states in half precision that depends on the shape of a batch: .1 nats per token."""
    level = 0.0

    def noisy(_module: Any, _inputs: Any, output: Any) -> Any:
        states = output.last_hidden_state
        if level and states.dtype == torch.bfloat16:
            rows, columns, _ = states.shape
            generator = torch.Generator().manual_seed(1_000 * rows + columns)
            output.last_hidden_state = states + level * torch.randn(states.shape, generator=generator).to(states)
        return output

    body, _ = separable_parts(model, torch.device("cpu"))
    assert body is not None
    body.register_forward_hook(noisy)
    clean = array(decoder_trial(model).rows())
    level = 0.1
    for _ in range(3):
        level *= NATS / float(np.sqrt(np.square(array(decoder_trial(model).rows()) - clean).mean()))


@pytest.mark.parametrize("make", [decoder_trial, batch_trial])
@pytest.mark.parametrize(
    "name",
    ["Llama", "Gemma2", "Mpt", *(pytest.param(name, marks=pytest.mark.slow) for name in [*PACKED_CONFIGS, *SHARING])],
)
def test_rounding_that_depends_on_the_shape_of_a_batch_hides_no_fault(name: str, make: Any) -> None:
    model = build(name, **LOUD_CONFIGS.get(name, {})).to(torch.bfloat16)
    assert fresh_failure(make(model)) == ""
    add_noise(model)
    assert fresh_failure(make(model)) == ""
    assert fresh_failure(make(model).with_fault())


@pytest.mark.parametrize("make", [decoder_trial, batch_trial])
@pytest.mark.parametrize("name", ["Llama", "Gemma2", "Mpt"])
def test_without_the_first_question_the_second_one_finds_the_fault(name: str, make: Any) -> None:
    """As on a device whose kernels are wrong in half precision only."""
    model = build(name).to(torch.bfloat16)
    add_noise(model)
    assert trials.judge_rounding(make(model)) == ""
    assert trials.judge_rounding(make(model).with_fault())


@pytest.mark.parametrize("name", [*PLAIN_CONFIGS, *MIXING])
def test_what_has_a_cache_of_its_own_fails_in_either_precision(name: str) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        model = build(name).to(dtype)
        assert failure(decoder_trial(model))
        assert bool(failure(batch_trial(model))) is (name not in {"Mamba"})


def test_weights_that_cannot_be_cast_are_compared_with_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_model: Any, _dtype: Any) -> Any:
        raise RuntimeError("4-bit weights")

    monkeypatch.setattr(trials, "computing_in", refuse)
    model = build("Llama").to(torch.bfloat16)
    assert fresh_failure(decoder_trial(model)) == ""
    assert trials.judge_rounding(decoder_trial(model).with_fault())


def test_a_verdict_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIGEVAL_HOME", str(tmp_path))
    first = writer_for(build("Mamba"), 0, TokenBudget(16_384)).describe()
    assert len(list((tmp_path / "self_tests").iterdir())) == 2

    def forbidden(_trial: Any) -> str:
        raise AssertionError("tested again")

    monkeypatch.setattr(trials, "fresh_failure", forbidden)
    assert writer_for(build("Mamba"), 0, TokenBudget(16_384)).describe() == first
