"""The span branch of a joint model: three linear layers on an encoder's states (Ghosh and Srivastava 2022, appendix E).

In the authors' code nothing stands between the layers; a tanh is declared and not used. Then the given span adds the
same number to the logits of all tokens, a softmax over the tokens does not see it, and all spans of a text come out
alike. With `tanh` they need not.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from figeval.errors import ModelError

from ._loading import load_errors, one_line

FILE = "joint.safetensors"
ACTIVATIONS = ("none", "tanh")


def span_branch(width: int) -> Any:
    """The layers, for states of `width` numbers: `joint` (2 width → width), `start` and `end` (width → 1)."""
    from torch.nn import Linear, ModuleDict

    return ModuleDict({"joint": Linear(2 * width, width), "start": Linear(width, 1), "end": Linear(width, 1)})


def branch_logits(branch: Any, states: Any, vectors: Any, activation: str = "none") -> Any:
    """Start and end logits, shape (rows, length, 2); `activation` stands behind the first layer.

    `states` (rows, length, width) are the text's, `vectors` (rows, width) stand for the given spans; a token's state
    comes first, the vector second.
    """
    import torch

    beside = vectors.unsqueeze(1).expand_as(states)
    mixed = branch["joint"](torch.cat((states, beside), dim=-1))
    mixed = mixed.tanh() if activation == "tanh" else mixed
    return torch.cat((branch["start"](mixed), branch["end"](mixed)), dim=-1)


def branch_file(folder: Path, model: str) -> Path:
    """Where the weights of the branch are. Raises `ModelError` if they are not there."""
    file = folder / FILE
    if not file.is_file():
        raise ModelError(f"{model!r} is declared as a joint model, but has no {FILE}; save it again, or use 'encoder'")
    return file


def load_branch(folder: Path, model: str, width: int) -> Any:
    """The branch of a checkpoint, in evaluation mode. Raises `ModelError` for other weights than those named above."""
    from safetensors.torch import load_file

    branch = span_branch(width)
    try:
        branch.load_state_dict(load_file(branch_file(folder, model)))
    except load_errors() as error:
        raise ModelError(f"{FILE} of {model!r} is no span branch of width {width}: {one_line(error)}") from error
    return branch.eval()


def save_branch(weights: Mapping[str, Any], folder: Path) -> None:
    """Write the weights of a branch, named as above."""
    from safetensors.torch import save_file

    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, folder / FILE)
