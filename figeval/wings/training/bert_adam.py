"""AdamW without bias correction, as used by BERT's own code and by papers that followed it (Mosbach et al. 2021).

Import this module only where it is used: a torch optimizer subclasses torch's, so this one imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch.optim import Optimizer  # noqa: TID253

if TYPE_CHECKING:
    from torch import Tensor


class BertAdam(Optimizer):  # type: ignore[misc]
    """The update w -= lr (m / (sqrt(v) + eps) + decay w); m and v are running means of the gradient and its square."""

    def __init__(
        self, groups: Sequence[Mapping[str, object]], lr: float, betas: tuple[float, float], eps: float
    ) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update all weights that have a gradient."""
        import torch

        loss = None if closure is None else closure()
        with torch.no_grad():
            for group in self.param_groups:
                for weight in group["params"]:
                    if weight.grad is not None:
                        self._update(weight, group)
        return loss

    def _update(self, weight: Tensor, group: dict[str, Any]) -> None:
        import torch

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
