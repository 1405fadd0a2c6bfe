"""LoRA (Hu et al. 2022) through peft: small matrices are trained beside frozen ones and merged into them at the end.

With `--lora_unmerged`, learners get the weights as they are and write the adapter alone.

The trained weights are the adapters and everything that is new: modules of the learner outside any pretrained model,
heads on a pretrained body that do not predict words (a language-model head came with the body), and children of the
model that the network names in an attribute `fresh`. Everything else is frozen. A checkpoint has the same names as
without adapters, so its readers need not know about them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from figeval import TrainError
from figeval.wings.training.config import TrainConfig

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module, Parameter
    from transformers import PreTrainedModel

ADAPTER_NAME = "default"  # peft's name for the first adapter of a module
BASE_LAYER = "base_layer"
ADAPTER_CONFIG = "adapter_config.json"


@dataclass(frozen=True, slots=True)
class Adapters:
    """Adapters of a network; `modules` maps each to whether its matrix is stored as (in, out), as in GPT-2."""

    modules: Mapping[str, bool] = field(default_factory=dict)
    scale: float = 1.0

    def merge(self, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return a state dict with W + scale · B A in place of W and the adapters; tensors are on one device."""
        if not self.modules:
            return weights
        merged_weights = {}
        for name, tensor in weights.items():
            module, _, parameter = name.rpartition(f".{BASE_LAYER}.")
            if module not in self.modules:
                merged_weights[name] = tensor
            elif parameter == "weight":
                merged_weights[f"{module}.{parameter}"] = tensor + self._change(weights, module).to(tensor.dtype)
            else:
                merged_weights[f"{module}.{parameter}"] = tensor
        return {name: tensor for name, tensor in merged_weights.items() if not self._is_adapter(name)}

    def _change(self, weights: Mapping[str, Tensor], module: str) -> Tensor:
        down, up = (weights[f"{module}.lora_{matrix}.{ADAPTER_NAME}.weight"].float() for matrix in "AB")
        change = self.scale * (up @ down)
        return change.T if self.modules[module] else change

    def _is_adapter(self, name: str) -> bool:
        module, separator, _ = name.partition(".lora_")
        return bool(separator) and module in self.modules


def count_head(network: Module) -> int | None:
    """Return the number of weights on top of the pretrained models; None if there are none or no pretrained model.

    A head counts whether it is new or came with the checkpoint. Call it before `add_adapters`.
    """
    bases = list(_pretrained_models(network))
    heads = [weight for base in bases for weight in _new_weights(base, getattr(network, "fresh", ()))]
    bodies = {id(weight) for base in bases for weight in base.parameters()} - set(map(id, heads))
    count = sum(weight.numel() for weight in network.parameters() if id(weight) not in bodies)
    return count or None if bases else None


def add_adapters(network: Module, config: TrainConfig) -> Adapters:
    """Add adapters to the pretrained models of a network, if the config asks for them, and freeze all other weights.

    Raises:
        TrainError: a module does not exist, or the network has no pretrained model.
    """
    if config.lora is None:
        return Adapters()
    if config.lora_unmerged and (Path(config.model) / ADAPTER_CONFIG).is_file():
        raise TrainError(f"{config.model!r} is an adapter itself; leave --lora_unmerged out, or train from its base")
    bases = list(_pretrained_models(network))
    if not bases:
        raise TrainError("--lora: the network contains no transformers model to add adapters to; leave it out")
    for base in bases:
        fresh_weights = _new_weights(base, getattr(network, "fresh", ()))
        base.requires_grad_(False)
        _inject_adapters(base.base_model, config)
        _check_targets(base)
        for weight in fresh_weights:
            weight.requires_grad_(True)
    layers = {name: module for name, module in network.named_modules() if hasattr(module, BASE_LAYER)}
    transposed = {name: bool(getattr(module, "fan_in_fan_out", False)) for name, module in layers.items()}
    return Adapters(transposed, _alpha(config) / config.lora)


def check_adapter_file(folder: Path, head: str | None) -> None:
    """Check that a learner has written an adapter, as `--lora_unmerged` asks for.

    Raises:
        TrainError: it has written something else.
    """
    if not (folder / ADAPTER_CONFIG).is_file():
        raise TrainError(f"the head {head or 'of this task'} writes whole models only; leave --lora_unmerged out")


def _alpha(config: TrainConfig) -> float:
    return config.lora_alpha or 2.0 * (config.lora or 0)


def _pretrained_models(network: Module) -> Iterator[PreTrainedModel]:
    """Yield the transformers models in a network that are not part of another one."""
    from transformers import PreTrainedModel

    prefixes: tuple[str, ...] = ()
    for name, module in network.named_modules():
        if isinstance(module, PreTrainedModel) and not f"{name}.".startswith(prefixes or ("\0",)):
            prefixes = (*prefixes, f"{name}." if name else "")
            yield module


def _new_weights(base: PreTrainedModel, fresh: Sequence[str]) -> list[Parameter]:
    """Return the weights of a model that were not pretrained.

    These are the weights of the children that the learner names, and of heads on the body that do not predict words,
    except weights that are tied to the body.
    """
    body = base.base_model
    new_heads = body is not base and base.get_output_embeddings() is None
    children = [child for name, child in base.named_children() if name in fresh or (new_heads and child is not body)]
    body_ids = set(map(id, body.parameters()))
    return [weight for child in children for weight in child.parameters() if id(weight) not in body_ids]


def _check_targets(base: PreTrainedModel) -> None:
    """Check that every adapter can be merged into its matrix.

    Raises:
        TrainError: an adapter belongs to an embedding, or to a matrix that is tied to an embedding.
    """
    for name, module in base.named_modules():
        if hasattr(module, BASE_LAYER) and (
            ADAPTER_NAME not in module.lora_A or module is base.get_output_embeddings()
        ):
            raise TrainError(f"--lora_targets: {name} is not a separate linear layer; name others")


def _inject_adapters(body: PreTrainedModel, config: TrainConfig) -> None:
    """Add adapters to the modules in the config, else to peft's defaults for the model, else to all matrices.

    Raises:
        MissingPackage: peft is not installed.
        TrainError: the body has none of the modules.
    """
    from peft import LoraConfig, inject_adapter_in_model
    from peft.utils import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as TARGETS_BY_MODEL

    targets = list(config.lora_targets) or TARGETS_BY_MODEL.get(body.config.model_type, "all-linear")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # peft warns that it transposed GPT-2's matrices, as intended
            inject_adapter_in_model(LoraConfig(r=config.lora, lora_alpha=_alpha(config), target_modules=targets), body)
    except ValueError as error:
        raise TrainError(f"--lora_targets: {' '.join(str(error).split())[:200]}") from error
