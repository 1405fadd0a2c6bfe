"""Rates, decay, and AdamW as BERT's code has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from figeval.wings.training.config import TrainConfig
from figeval.wings.training.optimizers import optimizer_of, parameter_groups
from figeval.wings.training.sharding import Replicated
from tests.wings.training.linear import config


def config_of(**changes: Any) -> TrainConfig:
    return config(Path("unused"), **changes)


def rate(step: int, total: int, **changes: Any) -> float:
    """The learning rate of a step as a share of the highest."""
    share = config_of(lr=1.0, **changes).learning_rate(step, total)
    assert share is not None
    return share


def test_the_rate_rises_then_falls_to_nothing() -> None:
    rates = [rate(step, 100, warmup=0.1) for step in range(101)]
    assert rates[0] == pytest.approx(1 / 11)
    assert rates[10] == 1
    assert rates[100] == pytest.approx(0)
    assert rates[:11] == sorted(rates[:11])
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_schedules() -> None:
    assert rate(50, 100, schedule="constant", warmup=0) == 1
    assert rate(50, 100, schedule="cosine", warmup=0) == pytest.approx(0.5)
    assert rate(75, 100, schedule="linear", warmup=0) == pytest.approx(0.25)


@pytest.mark.parametrize(("warmup", "steps"), [(0.06, 12), (7, 7)])
def test_a_warmup_is_a_share_of_all_steps_or_a_number_of_steps(warmup: float, steps: int) -> None:
    assert rate(steps - 1, 200, warmup=warmup) < 1
    assert rate(steps, 200, warmup=warmup) == 1


def test_biases_and_norms_do_not_decay() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 1))
    network[2].requires_grad_(False)
    decays, not_ = parameter_groups(network, 0.1)
    assert [tuple(weight.shape) for weight in decays["params"]] == [(4, 3)]
    assert len(not_["params"]) == 3
    assert (decays["weight_decay"], not_["weight_decay"]) == (0.1, 0.0)


def one_step(optimizer: Any, weight: Any, gradient: torch.Tensor) -> torch.Tensor:
    weight.grad = gradient.clone()
    optimizer.step()
    return weight.detach().clone()


def test_without_bias_correction_the_first_step_is_longer() -> None:
    """By hand: m = .1 g, v = .001 g², so the step is lr · .1/sqrt(.001) against lr with the correction."""
    network = torch.nn.Linear(2, 1, bias=False)
    start = network.weight.detach().clone()
    optimizer = optimizer_of(network, config_of(bias_correction=False, lr=0.01, weight_decay=0, eps=1e-12))
    after = one_step(optimizer, network.weight, torch.tensor([[2.0, -3.0]]))
    expected = start - 0.01 * torch.tensor([[1.0, -1.0]]) * 0.1 / 0.001**0.5
    torch.testing.assert_close(after, expected)


def test_bert_adam_decays_apart_from_the_gradient() -> None:
    network = torch.nn.Linear(2, 1, bias=False)
    start = network.weight.detach().clone()
    optimizer = optimizer_of(network, config_of(bias_correction=False, lr=0.01, weight_decay=0.5))
    after = one_step(optimizer, network.weight, torch.zeros(1, 2))
    torch.testing.assert_close(after, start * (1 - 0.01 * 0.5))


def test_bert_adam_is_adamw_with_the_correction_undone() -> None:
    """The factor (1 - b1^t) / sqrt(1 - b2^t) undoes torch's correction, up to eps; ten steps with random gradients."""
    torch.manual_seed(0)
    left, right = torch.nn.Linear(5, 3, bias=False), torch.nn.Linear(5, 3, bias=False)
    right.load_state_dict(left.state_dict())
    ours = optimizer_of(left, config_of(bias_correction=False, lr=0.01, weight_decay=0, eps=1e-15))
    adamw = torch.optim.AdamW(right.parameters(), lr=0.01, weight_decay=0, eps=1e-15)
    for step in range(1, 11):
        gradient = torch.randn(3, 5)
        adamw.param_groups[0]["lr"] = 0.01 * (1 - 0.9**step) / (1 - 0.999**step) ** 0.5
        torch.testing.assert_close(
            one_step(ours, left.weight, gradient), one_step(adamw, right.weight, gradient), rtol=1e-4, atol=1e-6
        )


def test_fused_kernels_take_the_same_steps_and_go_on_from_stored_moments() -> None:
    """As on CUDA: torch has these kernels for a CPU too."""
    torch.manual_seed(0)
    networks = [torch.nn.Linear(5, 3) for _ in range(3)]
    for network in networks[1:]:
        network.load_state_dict(networks[0].state_dict())
    plain, fused, resumed = (
        optimizer_of(network, config_of(), fused=fused)
        for network, fused in zip(networks, (False, True, True), strict=True)
    )
    gradients = [torch.randn(3, 5) for _ in range(4)]
    for gradient in gradients[:2]:
        torch.testing.assert_close(
            one_step(plain, networks[0].weight, gradient), one_step(fused, networks[1].weight, gradient)
        )
    moments = {key: value.clone() for key, value in Replicated().moments(fused, networks[1].weight).items()}
    networks[2].load_state_dict(networks[1].state_dict())
    Replicated().restore_moments(resumed, [(networks[2].weight, moments)])
    for gradient in gradients[2:]:
        assert one_step(resumed, networks[2].weight, gradient).equal(one_step(fused, networks[1].weight, gradient))


def test_a_fused_step_counter_is_on_the_device_of_the_weights() -> None:
    """CUDA's kernels read it there; the other ones read it on the CPU."""
    for fused, device in ((True, "meta"), (False, "cpu")):
        network = torch.nn.Linear(2, 1, device="meta")
        optimizer = optimizer_of(network, config_of(), fused=fused)
        Replicated().restore_moments(optimizer, [(network.weight, {"step": torch.tensor(3.0)})])
        assert optimizer.state[network.weight]["step"].device.type == device


def test_adafactor_keeps_its_own_steps() -> None:
    network, settings = torch.nn.Linear(4, 4), config_of(optimizer="adafactor", lr=None)
    optimizer = optimizer_of(network, settings)
    assert settings.learning_rate(0, 10) is None
    start = network.weight.detach().clone()
    assert not torch.equal(one_step(optimizer, network.weight, torch.ones(4, 4)), start)
