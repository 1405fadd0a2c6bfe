"""Optimizers, with the weight decay of each weight.

Import this module only where it is used: a torch optimizer subclasses torch's, so this one imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import torch  # noqa: TID253
from torch.optim import AdamW, Optimizer  # noqa: TID253

from figeval.wings.training.config import TrainConfig

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module, Parameter


class ParameterGroup(TypedDict):
    """Weights that are updated alike, as torch's optimizers take them."""

    params: list[Parameter]
    weight_decay: float


def optimizer_of(network: Module, config: TrainConfig, *, fused: bool = False) -> Optimizer:
    """Return AdamW or Adafactor over all weights that require a gradient; biases and norms have no weight decay.

    Without a learning rate Adafactor takes relative steps (Shazeer and Stern 2018), as in the training of T5. `fused`
    asks for torch's fused kernels, which only its AdamW has: one kernel for many weights, but other rounding.
    """
    groups = parameter_groups(network, config.weight_decay)
    if config.optimizer == "adafactor":
        from transformers import Adafactor

        relative = config.lr is None
        return Adafactor(groups, lr=config.lr, relative_step=relative, warmup_init=relative, scale_parameter=relative)
    assert config.lr is not None  # checked by the config
    if not config.bias_correction:
        return BertAdam(groups, lr=config.lr, betas=config.betas, eps=config.eps)
    # None: torch chooses, on a CPU as it always did
    return AdamW(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=fused or None)


def parameter_groups(network: Module, weight_decay: float) -> list[ParameterGroup]:
    """Return the parameter groups: matrices, which decay, and vectors (biases, weights of norms) and scalars."""
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    return [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": weight_decay},
        {"params": [weight for weight in weights if weight.ndim <= 1], "weight_decay": 0.0},
    ]


class BertAdam(Optimizer):  # type: ignore[misc]
    """The update w -= lr (m / (sqrt(v) + eps) + decay w); m and v are running means of the gradient and its square."""

    def __init__(
        self, groups: Sequence[Mapping[str, object]], lr: float, betas: tuple[float, float], eps: float
    ) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update all weights that have a gradient."""
        loss = None if closure is None else closure()
        with torch.no_grad():
            for group in self.param_groups:
                for weight in group["params"]:
                    if weight.grad is not None:
                        self._update(weight, group)
        return loss

    def _update(self, weight: Tensor, group: dict[str, Any]) -> None:
        state = self.state[weight]
        if not state:
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weight), torch.zeros_like(weight)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(weight.grad, 1 - group["betas"][0])
        square.mul_(group["betas"][1]).addcmul_(weight.grad, weight.grad, value=1 - group["betas"][1])
        before = weight.clone() if group["weight_decay"] else None
        weight.addcdiv_(mean, square.sqrt().add_(group["eps"]), value=-group["lr"])
        if before is not None:
            weight.add_(before, alpha=-group["lr"] * group["weight_decay"])
