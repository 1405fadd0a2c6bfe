"""Which process holds which part of weights and of the optimizer's moments: all of it, or a shard.

`Replicated` is one process, or data parallelism; `Sharded` is PyTorch's FSDP2; `Zero`, in `figeval.training.zero`, is
DeepSpeed's ZeRO. Nothing else in a training depends on the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from accelerate import Accelerator
    from accelerate.optimizer import AcceleratedOptimizer
    from torch import Tensor
    from torch.distributed.tensor import DTensor
    from torch.nn import Module
    from torch.optim import Optimizer

STEP = "step"  # an optimizer's counter; everything else that it keeps has the shape of a weight
Moments: TypeAlias = "Mapping[str, Tensor]"  # exp_avg, exp_avg_sq …


class Replicated:
    """Every process holds all weights and moments: a single process, or data parallelism.

    Subclasses shard them and answer the same questions. Every answer is whole, so all processes must ask together.
    """

    independent = True  # whether one process can compute with the network while the others do not

    def options(self, device: str) -> dict[str, object]:
        """Return the arguments of `Accelerator`.

        Weights without a gradient, such as those of an unused pooler, are looked for.
        """
        from accelerate import DistributedDataParallelKwargs

        return {
            "cpu": device == "cpu",
            "kwargs_handlers": [DistributedDataParallelKwargs(find_unused_parameters=True)],
        }

    def on_initialized(self) -> None:
        """Do what has to be done once accelerate is initialized."""

    def prepare(
        self, accelerator: Accelerator, network: Module, optimizer_of: Callable[[Module], Optimizer]
    ) -> tuple[Module, AcceleratedOptimizer]:
        """Move network and optimizer to their devices, wrapped as the processes need them."""
        network, optimizer = accelerator.prepare(network, optimizer_of(network))
        return network, optimizer

    def whole(self, tensor: Tensor) -> Tensor:
        """Return all of a weight or of a moment, in float32 where it is trained."""
        return tensor.detach()

    def part(self, tensor: Tensor, weight: Tensor) -> Tensor:
        """Return the part of a whole moment that this process holds."""
        return tensor.to(weight.device)

    def moments(self, optimizer: Optimizer, weight: Tensor) -> dict[str, Tensor]:
        """Return what the optimizer keeps about a weight."""
        import torch

        kept = optimizer.state.get(weight, {}).items()
        return {key: self.whole(torch.as_tensor(value)) for key, value in kept if value is not None}

    def remember(self, optimizer: Optimizer, known: Sequence[tuple[Tensor, Moments]]) -> None:
        """Give an optimizer what it has kept about weights."""
        for weight, moments in known:
            for key, tensor in moments.items():
                value = counter(tensor) if key == STEP else self.part(tensor, weight)
                optimizer.state[weight][key] = value


def counter(tensor: Tensor) -> Tensor | int | float:
    """Return a counter as its optimizer keeps it: Adafactor as a whole number, AdamW as a tensor on the CPU."""
    return tensor if tensor.is_floating_point() else tensor.item()


class Sharded(Replicated):
    """Every process holds a shard of each tensor, cut along its first axis: PyTorch's FSDP2 (`fully_shard`).

    PyTorch is called directly, since accelerate supports FSDP2 on GPUs only. The tensors are DTensors.
    """

    independent = False

    def options(self, device: str) -> dict[str, object]:
        """Return the arguments of `Accelerator`, which only connects the processes."""
        return {"cpu": device == "cpu"}

    def prepare(
        self, accelerator: Accelerator, network: Module, optimizer_of: Callable[[Module], Optimizer]
    ) -> tuple[Module, AcceleratedOptimizer]:
        """Shard the network layer by layer, so that one layer at a time is whole, and only then make its optimizer."""
        import torch
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        half = torch.bfloat16 if accelerator.mixed_precision == "bf16" else None
        policy = MixedPrecisionPolicy(param_dtype=half, reduce_dtype=torch.float32)
        network.to(accelerator.device)
        for module in [*layers(network), network]:
            fully_shard(module, mp_policy=policy)
        return network, accelerator.prepare(optimizer_of(network))

    def whole(self, tensor: Tensor) -> Tensor:
        """Gather a tensor in every process."""
        return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach()

    def part(self, tensor: Tensor, weight: DTensor) -> Tensor:
        """Shard a moment as its weight is sharded."""
        from torch.distributed.tensor import distribute_tensor

        return distribute_tensor(tensor.to(weight.device), weight.device_mesh, weight.placements)


def layers(network: Module) -> Iterator[Module]:
    """Yield the layers of the transformers models in a network; such models name the classes of their layers."""
    named = {name for module in network.modules() for name in getattr(module, "_no_split_modules", None) or ()}
    return (module for module in network.modules() if type(module).__name__ in named)
