"""The state for resuming a training: weights and optimizer moments, whole and by name, in safetensors.

Therefore the number of processes and the sharding may change between two sessions. The order of the examples, the
learning rate and random numbers are functions of the step and are not stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from figeval.errors import TrainError
from figeval.wings.training.sharding import Replicated

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module, Parameter
    from torch.optim import Optimizer

FILE = "state.safetensors"
WEIGHT = "weight"


def write_state(tensors: dict[str, Tensor], folder: Path) -> None:
    """Write `NAME/weight`, `NAME/exp_avg` … to one file in a folder."""
    from safetensors.torch import save_file

    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / FILE)


def read_state(folder: Path) -> dict[str, Tensor]:
    """Read the tensors of a checkpoint.

    Raises:
        TrainError: the file is missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(folder / FILE))
    except (OSError, SafetensorError) as error:
        raise TrainError(f"{folder / FILE} cannot be read ({error}); choose another --output") from error


def trained(network: Module) -> Iterator[tuple[str, Parameter]]:
    """Yield the trained weights by name; frozen ones come from the model that the training started from."""
    return ((name, weight) for name, weight in network.named_parameters() if weight.requires_grad)


def sizes(network: Module) -> dict[str, int]:
    """Return the numbers of all (`total`) and of the trained weights (`trainable`), counting tied ones once."""
    trainable = sum(weight.numel() for _, weight in trained(network))
    return {"total": sum(weight.numel() for weight in network.parameters()), "trainable": trainable}


def gathered(network: Module, optimizer: Optimizer, sharding: Replicated) -> Iterator[tuple[str, Tensor]]:
    """Yield the trained weights and their moments one by one."""
    for name, weight in trained(network):
        yield f"{name}/{WEIGHT}", sharding.whole(weight)
        for key, value in sharding.moments(optimizer, weight).items():
            yield f"{name}/{key}", value


def load_weights(network: Module, tensors: Mapping[str, Tensor]) -> None:
    """Load weights into a network that is not wrapped yet.

    Raises:
        TrainError: the weights belong to another network.
    """
    import torch

    weights = dict(trained(network))
    if {name.rpartition("/")[0] for name in tensors} != set(weights):
        raise TrainError("the checkpoint is from a different network; choose another --output")
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(tensors[f"{name}/{WEIGHT}"])


def load_moments(network: Module, optimizer: Optimizer, tensors: Mapping[str, Tensor], sharding: Replicated) -> None:
    """Load the moments, once network and optimizer are wrapped."""
    kept: dict[str, dict[str, Tensor]] = {name: {} for name, _ in trained(network)}
    for place, tensor in tensors.items():
        name, _, key = place.rpartition("/")
        if key != WEIGHT:
            kept[name][key] = tensor
    sharding.remember(optimizer, [(weight, kept[name]) for name, weight in trained(network)])
