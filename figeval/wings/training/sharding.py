"""The sharding of weights and optimizer moments over processes: each holds everything, or a shard.

`Replicated` is a single process or data parallelism; `Sharded` is PyTorch's FSDP2; `Zero`, in the module `zero`, is
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

STEP = "step"  # the optimizer's step counter; its other state has the shape of a weight
Moments: TypeAlias = "Mapping[str, Tensor]"  # exp_avg, exp_avg_sq …


class Replicated:
    """Every process holds all weights and moments: a single process, or data parallelism.

    Subclasses shard them. Methods return whole tensors, so all processes must call them together.
    """

    independent = True  # one process can run the network while the others do not
    repeatable = True  # after a failed pass, nothing but the gradients remains of a step
    disposable = True  # gradients can be thrown away, since a backward pass does not update weights

    def options(self, device: str) -> dict[str, object]:
        """Return the arguments of `Accelerator`.

        `find_unused_parameters` allows for weights without a gradient, e.g. those of an unused pooler.
        """
        from accelerate import DistributedDataParallelKwargs

        return {
            "cpu": device == "cpu",
            "kwargs_handlers": [DistributedDataParallelKwargs(find_unused_parameters=True)],
        }

    def on_initialized(self) -> None:
        """Do what is necessary once accelerate is initialized; nothing by default."""

    def prepare(
        self, accelerator: Accelerator, network: Module, optimizer_of: Callable[[Module], Optimizer]
    ) -> tuple[Module, AcceleratedOptimizer]:
        """Move the network and its optimizer to their devices, wrapped as the processes need them."""
        network, optimizer = accelerator.prepare(network, optimizer_of(network))
        return network, optimizer

    def whole(self, tensor: Tensor) -> Tensor:
        """Return the whole of a weight or moment, in float32 if it is trained."""
        return tensor.detach()

    def part(self, tensor: Tensor, weight: Tensor) -> Tensor:
        """Return the part of a whole moment that this process holds."""
        return tensor.to(weight.device)

    def moments(self, optimizer: Optimizer, weight: Tensor) -> dict[str, Tensor]:
        """Return the optimizer's state for a weight."""
        import torch

        kept = optimizer.state.get(weight, {}).items()
        return {key: self.whole(torch.as_tensor(value)) for key, value in kept if value is not None}

    def remember(self, optimizer: Optimizer, known: Sequence[tuple[Tensor, Moments]]) -> None:
        """Restore the optimizer's state for weights."""
        for weight, moments in known:
            for key, tensor in moments.items():
                value = counter(tensor, optimizer, weight) if key == STEP else self.part(tensor, weight)
                optimizer.state[weight][key] = value


def counter(tensor: Tensor, optimizer: Optimizer, weight: Tensor) -> Tensor | int | float:
    """Return a step counter as its optimizer keeps it.

    Adafactor keeps a number; AdamW a tensor, on the CPU or, if it is fused, on the device of the weights.
    """
    if not tensor.is_floating_point():
        number: int | float = tensor.item()
        return number
    return tensor.to(weight.device) if optimizer.param_groups[0].get("fused") else tensor


class Sharded(Replicated):
    """Every process holds a shard of each tensor, cut along its first axis: PyTorch's FSDP2 (`fully_shard`).

    PyTorch is called directly, since accelerate supports FSDP2 only on GPUs. The tensors are DTensors.
    """

    independent = False
    repeatable = False

    def options(self, device: str) -> dict[str, object]:
        """Return the arguments of `Accelerator`, which only connects the processes."""
        return {"cpu": device == "cpu"}

    def prepare(
        self, accelerator: Accelerator, network: Module, optimizer_of: Callable[[Module], Optimizer]
    ) -> tuple[Module, AcceleratedOptimizer]:
        """Shard the network layer by layer, so that one layer at a time is whole, and then make its optimizer."""
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
