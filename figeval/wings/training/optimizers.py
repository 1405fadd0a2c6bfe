"""Optimizer and learning-rate schedule. The rate is a function of the step, so no scheduler state is stored."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypedDict

from figeval.wings.training.config import TrainConfig

if TYPE_CHECKING:
    from torch.nn import Module, Parameter
    from torch.optim import Optimizer


class ParameterGroup(TypedDict):
    """Weights that are updated alike, as torch's optimizers take them."""

    params: list[Parameter]
    weight_decay: float


def optimizer_of(network: Module, config: TrainConfig, *, fused: bool = False) -> Optimizer:
    """Return AdamW or Adafactor over all weights that require a gradient; biases and norms have no weight decay.

    Without a learning rate Adafactor takes relative steps (Shazeer and Stern 2018), as in the training of T5. `fused`
    asks for torch's fused kernels, which only its AdamW has: one kernel for many weights, but other rounding.
    """
    groups = decaying(network, config.weight_decay)
    if config.optimizer == "adafactor":
        from transformers import Adafactor

        own = config.lr is None
        return Adafactor(groups, lr=config.lr, relative_step=own, warmup_init=own, scale_parameter=own)
    assert config.lr is not None  # checked by the config
    if not config.bias_correction:
        from figeval.wings.training.bert_adam import BertAdam

        return BertAdam(groups, lr=config.lr, betas=config.betas, eps=config.eps)
    from torch.optim import AdamW

    # None: torch chooses, on a CPU as it always did
    return AdamW(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=fused or None)


def decaying(network: Module, weight_decay: float) -> list[ParameterGroup]:
    """Return the parameter groups: matrices, which decay, and vectors (biases, weights of norms) and scalars."""
    wanted = [weight for weight in network.parameters() if weight.requires_grad]
    return [
        {"params": [weight for weight in wanted if weight.ndim > 1], "weight_decay": weight_decay},
        {"params": [weight for weight in wanted if weight.ndim <= 1], "weight_decay": 0.0},
    ]


def rate(step: int, total: int, config: TrainConfig) -> float:
    """Return the learning rate at a step, counted from 0, as a fraction of the highest rate.

    It rises during the warm-up, then falls to 0 at step `total`, unless the schedule is constant.
    """
    rising = round(config.warmup * total) if config.warmup < 1 else int(config.warmup)
    if step < rising:
        return (step + 1) / (rising + 1)
    done = (step - rising) / max(1, total - rising)
    return {"linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2, "constant": 1.0}[config.schedule]


def set_rate(optimizer: Optimizer, lr: float | None) -> None:
    """Set the learning rate of all parameter groups; if it is None, Adafactor keeps its own."""
    if lr is not None:
        for group in optimizer.param_groups:
            group["lr"] = lr
