"""What a training needs to go on: weights and the optimizer's moments, whole, by name, in safetensors.

Whole and by name, because then the number of processes and the way in which weights were sharded may change between two
sessions. Order, learning rate and random numbers are functions of the step and need no place here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from figeval.errors import TrainError

if TYPE_CHECKING:
    from accelerate import Accelerator
    from accelerate.optimizer import AcceleratedOptimizer
    from torch import Tensor
    from torch.nn import Module, Parameter
    from torch.optim import Optimizer

FILE = "state.safetensors"
WEIGHT = "weight"
STEP = "step"  # an optimizer's counter, all else that it keeps is about single numbers
Moments: TypeAlias = "Mapping[str, Tensor]"  # exp_avg, exp_avg_sq …


class Replicated:
    """Every process holds all weights and moments: one process alone, or data parallel.

    The other ways to hold them, `Zero` and `Sharded`, answer the same questions. What they answer with is whole, and
    all processes must ask at the same time.
    """

    alone = True  # one process can compute with the network while the others do not

    def options(self, device: str) -> dict[str, Any]:
        """What accelerate is told. Weights without a gradient are found, as a pooler that nobody asks."""
        from accelerate import DistributedDataParallelKwargs

        return {
            "cpu": device == "cpu",
            "kwargs_handlers": [DistributedDataParallelKwargs(find_unused_parameters=True)],
        }

    def opened(self) -> None:
        """Nothing to do when accelerate is there."""

    def prepare(
        self, accelerator: Accelerator, network: Module, optimizer_of: Callable[[Module], Optimizer]
    ) -> tuple[Module, AcceleratedOptimizer]:
        """Network and optimizer on their devices, wrapped as the processes need it."""
        network, optimizer = accelerator.prepare(network, optimizer_of(network))
        return network, optimizer

    def whole(self, tensor: Tensor) -> Tensor:
        """All of a weight, or of a moment, in float32 where it is trained."""
        return tensor.detach()

    def part(self, tensor: Tensor, weight: Tensor) -> Tensor:
        """Of a whole moment what this process holds."""
        return tensor.to(weight.device)

    def moments(self, optimizer: Optimizer, weight: Tensor) -> dict[str, Tensor]:
        """What the optimizer keeps about a weight."""
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
    """A counter as its optimizer keeps it: Adafactor as a whole number, AdamW as a tensor on the CPU."""
    return tensor if tensor.is_floating_point() else tensor.item()


def write_state(tensors: dict[str, Tensor], folder: Path) -> None:
    """Write `NAME/weight`, `NAME/exp_avg` … as one file."""
    from safetensors.torch import save_file

    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / FILE)


def read_state(folder: Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint. Raises `TrainError` if they are not there or damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(folder / FILE))
    except (OSError, SafetensorError) as error:
        raise TrainError(f"{folder / FILE} cannot be read ({error}); train into another --output") from error


def trained(network: Module) -> Iterator[tuple[str, Parameter]]:
    """The weights that are trained, by name; frozen ones come from the model that was begun with."""
    return ((name, weight) for name, weight in network.named_parameters() if weight.requires_grad)


def gathered(network: Module, optimizer: Optimizer, holding: Replicated) -> Iterator[tuple[str, Tensor]]:
    """Trained weights and their moments, one after the other."""
    for name, weight in trained(network):
        yield f"{name}/{WEIGHT}", holding.whole(weight)
        for key, value in holding.moments(optimizer, weight).items():
            yield f"{name}/{key}", value


def load_weights(network: Module, tensors: Mapping[str, Tensor]) -> None:
    """Put weights back into a network that is not wrapped yet. Raises `TrainError` for those of another network."""
    import torch

    weights = dict(trained(network))
    if {name.rpartition("/")[0] for name in tensors} != set(weights):
        raise TrainError("the checkpoint is of another network; train into another --output")
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(tensors[f"{name}/{WEIGHT}"])


def load_moments(network: Module, optimizer: Optimizer, tensors: Mapping[str, Tensor], holding: Replicated) -> None:
    """Put the moments back, when network and optimizer are wrapped."""
    kept: dict[str, dict[str, Tensor]] = {name: {} for name, _ in trained(network)}
    for place, tensor in tensors.items():
        name, _, key = place.rpartition("/")
        if key != WEIGHT:
            kept[name][key] = tensor
    holding.remember(optimizer, [(weight, kept[name]) for name, weight in trained(network)])
