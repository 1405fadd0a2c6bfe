"""Tiny checkpoints with heads, in the format of fine-tuned span and joint models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

QA = "ForQuestionAnswering"
FILE = "joint.safetensors"


def declare(folder: Path, target: Path, **declared: Any) -> Path:
    """A copy of a checkpoint with a figeval.json."""
    shutil.copytree(folder, target)
    (target / "figeval.json").write_text(json.dumps(declared))
    return target


def span_branch(width: int) -> Any:
    """The layers of a joint model's span branch, under the names that its file has."""
    from torch.nn import Linear, ModuleDict

    return ModuleDict({"joint": Linear(2 * width, width), "start": Linear(width, 1), "end": Linear(width, 1)})


def joint_checkpoint(encoder: Path, target: Path, width: int = 16, **declared: Any) -> Path:
    """An encoder's folder made that of a joint model."""
    import torch
    from safetensors.torch import save_file

    declare(encoder, target, **{"kind": "joint", "pooling": "cls", "similarity": "dot", **declared})
    torch.manual_seed(7)
    save_file({name: values * 4 for name, values in span_branch(width).state_dict().items()}, target / FILE)
    return target
