"""Weights, gradients and moments cut along their first axis, a part in each process: PyTorch's FSDP2 (`fully_shard`).

It is asked directly, since accelerate's plugin knows it on GPUs only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from figeval.training.state import Replicated

if TYPE_CHECKING:
    from accelerate import Accelerator
    from accelerate.optimizer import AcceleratedOptimizer
    from torch import Tensor
    from torch.distributed.tensor import DTensor
    from torch.nn import Module
    from torch.optim import Optimizer


class Sharded(Replicated):
    """Tensors know their own whole here: they are DTensors."""

    alone = False

    def options(self, device: str) -> dict[str, Any]:
        """Accelerate only brings the processes together."""
        return {"cpu": device == "cpu"}

    def prepare(
        self, accelerator: Accelerator, network: Module, optimizer_of: Callable[[Module], Optimizer]
    ) -> tuple[Module, AcceleratedOptimizer]:
        """Cut layer by layer, so that one layer at a time is whole; then there is something to optimize."""
        import torch
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        half = torch.bfloat16 if accelerator.mixed_precision == "bf16" else None
        policy = MixedPrecisionPolicy(param_dtype=half, reduce_dtype=torch.float32)
        network.to(accelerator.device)
        for module in [*layers(network), network]:
            fully_shard(module, mp_policy=policy)
        return network, accelerator.prepare(optimizer_of(network))

    def whole(self, tensor: Tensor) -> Tensor:
        """Gathered in every process."""
        return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach()

    def part(self, tensor: Tensor, weight: DTensor) -> Tensor:
        """Cut as the weight is."""
        from torch.distributed.tensor import distribute_tensor

        return distribute_tensor(tensor.to(weight.device), weight.device_mesh, weight.placements)


def layers(network: Module) -> Iterator[Module]:
    """The layers of models from transformers, which name the classes that belong together."""
    named = {name for module in network.modules() for name in getattr(module, "_no_split_modules", None) or ()}
    return (module for module in network.modules() if type(module).__name__ in named)
