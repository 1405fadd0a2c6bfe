"""The folder of an adapter that was trained here, in the format of peft (`figeval train --lora 16 --lora_unmerged`).

It has the matrices of the adapter, and whole weights that the base cannot give: a head, a pooler, embeddings of added
tokens. Beside them are what figeval writes of every trained model: the configuration with the head, and the tokenizer.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from figeval.errors import TrainError

from ..torch_models.adapters import ADAPTER_NAME, ADAPTER_WEIGHTS, BASE_DIGEST, WRAPPED, task_of
from ..torch_models.checkpoint import Checkpoint
from ..torch_models.loading import suppress_logging

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

LORA = ".lora_"
BASE_LAYER = ".base_layer"


def has_adapters(names: Iterable[str]) -> bool:
    """Return whether some of these weights are matrices of an adapter, which were not merged."""
    return any(LORA in name for name in names)


def save_adapter(model: PreTrainedModel, weights: Mapping[str, Tensor], base: Checkpoint, folder: Path) -> None:
    """Write the adapter of a model, with its configuration.

    Args:
        model: the model with adapters, whose weights are not read.
        weights: all of its weights by their names in the model, on the CPU.
        base: the checkpoint that the model was loaded from.
        folder: where to write.

    Raises:
        TrainError: the base is an adapter itself.
    """
    from safetensors.torch import save_file

    if base.base is not None:
        raise TrainError(f"{base.model!r} is an adapter itself; leave --lora_unmerged out, or train from its base")
    full_names = _whole_weights(model, weights, base)
    tensors = {
        WRAPPED + _plain_name(name, adapted=name not in full_names): tensor.clone().contiguous()
        for name, tensor in weights.items()
        if LORA in name or name in full_names
    }
    save_file(tensors, folder / ADAPTER_WEIGHTS[0], {"format": "pt", BASE_DIGEST: base.fingerprint()})
    config = copy.deepcopy(model.config)
    config.architectures, config.dtype = [type(model).__name__], "float32"
    with suppress_logging():
        config.save_pretrained(folder)
        if model.can_generate() and model.generation_config is not None:
            model.generation_config.save_pretrained(folder)
    _write_adapter_config(model, weights, base, folder)


def _plain_name(name: str, *, adapted: bool) -> str:
    return name.replace(f".{ADAPTER_NAME}.", ".") if adapted else name


def _whole_weights(model: PreTrainedModel, weights: Mapping[str, Tensor], base: Checkpoint) -> set[str]:
    """Return the names of the weights that the base cannot give: trained ones, and those that it lacks.

    The base is loaded without values, as the class that the model has.
    """
    with suppress_logging():
        empty, report = type(model).from_pretrained(
            base.folder_here(), device_map="meta", ignore_mismatched_sizes=True, output_loading_info=True
        )
    shapes = {name: tensor.shape for name, tensor in empty.state_dict().items()}
    lacking = set(report["missing_keys"])
    trained = {name for name, parameter in model.named_parameters(remove_duplicate=False) if parameter.requires_grad}
    plain_names = {name: name.replace(f"{BASE_LAYER}.", ".") for name in weights if LORA not in name}
    return {
        name
        for name, plain_name in plain_names.items()
        if name in trained or plain_name in lacking or shapes.get(plain_name) != weights[name].shape
    }


def _write_adapter_config(model: PreTrainedModel, names: Iterable[str], base: Checkpoint, folder: Path) -> None:
    """Write `adapter_config.json`, with which peft can load the adapter, too. Adapted modules have their full names."""
    adapters: Any = model.base_model
    config = copy.copy(adapters.peft_config[ADAPTER_NAME])
    config.target_modules = sorted({name.partition(LORA)[0] for name in names if LORA in name})
    config.base_model_name_or_path = base.model if base.folder is None else str(base.folder.resolve())
    config.revision, config.task_type = base.revision, task_of(type(model).__name__)
    config.save_pretrained(folder)
