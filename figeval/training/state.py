"""What a training needs to go on: weights and the optimizer's moments, whole, by name, in safetensors.

Whole and by name, because then the number of processes and the way in which weights were sharded may change between two
sessions. Order, learning rate and random numbers are functions of the step and need no place here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from figeval.errors import TrainError

FILE = "state.safetensors"
WEIGHT = "weight"


def write_state(tensors: dict[str, Any], folder: Path) -> None:
    """Write `NAME/weight`, `NAME/exp_avg` … as one file."""
    from safetensors.torch import save_file

    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / FILE)


def read_state(folder: Path) -> dict[str, Any]:
    """The tensors of a checkpoint. Raises `TrainError` if they are not there or damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(folder / FILE))
    except (OSError, SafetensorError) as error:
        raise TrainError(f"{folder / FILE} cannot be read ({error}); train into another --output") from error


def trained(network: Any) -> Iterator[tuple[str, Any]]:
    """The weights that are trained, by name; frozen ones come from the model that was begun with."""
    return ((name, weight) for name, weight in network.named_parameters() if weight.requires_grad)


def gathered(network: Any, optimizer: Any) -> dict[str, Any]:
    """Weights and moments of an optimizer whose state is whole in every process."""
    import torch

    tensors = {}
    for name, weight in trained(network):
        tensors[f"{name}/{WEIGHT}"] = weight.detach().cpu()
        for key, value in optimizer.state.get(weight, {}).items():
            if value is not None:
                tensors[f"{name}/{key}"] = torch.as_tensor(value).detach().cpu()
    return tensors


def restored(network: Any, optimizer: Any, tensors: dict[str, Any]) -> None:
    """Put them back. Raises `TrainError` for those of another network."""
    import torch

    weights = dict(trained(network))
    if {name.rpartition("/")[0] for name in tensors} != set(weights):
        raise TrainError("the checkpoint is of another network; train into another --output")
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(tensors[f"{name}/{WEIGHT}"])
    for name, tensor in tensors.items():
        owner, _, key = name.rpartition("/")
        if key != WEIGHT:
            weight = weights[owner]
            value = tensor.to(weight.device) if tensor.ndim else counter(tensor)
            optimizer.state[weight][key] = value


def counter(tensor: Any) -> Any:
    """A counter as its optimizer keeps it: Adafactor as a whole number, AdamW as a tensor on the CPU."""
    return tensor if tensor.is_floating_point() else tensor.item()
