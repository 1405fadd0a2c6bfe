"""LoRA (Hu et al. 2022) through peft: small matrices are trained beside frozen ones and merged into them at the end.

The trained weights are the adapters and everything that is new: modules of the learner outside any pretrained model,
heads on a pretrained body that do not predict words (a language-model head came with the body), and children of the
model that the network names in an attribute `fresh`. Everything else is frozen. A checkpoint has the same names as
without adapters, so its readers need not know about them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from figeval.errors import TrainError
from figeval.wings.training.config import TrainConfig

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module, Parameter
    from transformers import PreTrainedModel

NAME = "default"  # peft's name for the first adapter of a module
BASE = "base_layer"


@dataclass(frozen=True, slots=True)
class Adapters:
    """Adapters of a network; `modules` maps each to whether its matrix is stored as (in, out), as in GPT-2."""

    modules: Mapping[str, bool] = field(default_factory=dict)
    scale: float = 1.0

    def merged(self, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return a state dict with W + scale · B A in place of W and the adapters; tensors are on one device."""
        if not self.modules:
            return weights
        folded = {}
        for name, tensor in weights.items():
            module, _, last = name.rpartition(f".{BASE}.")
            if module not in self.modules:
                folded[name] = tensor
            elif last == "weight":
                folded[f"{module}.{last}"] = tensor + self._change(weights, module).to(tensor.dtype)
            else:
                folded[f"{module}.{last}"] = tensor
        return {name: tensor for name, tensor in folded.items() if not self._is_adapter(name)}

    def _change(self, weights: Mapping[str, Tensor], module: str) -> Tensor:
        down, up = (weights[f"{module}.lora_{matrix}.{NAME}.weight"].float() for matrix in "AB")
        change = self.scale * (up @ down)
        return change.T if self.modules[module] else change

    def _is_adapter(self, name: str) -> bool:
        module, found, _ = name.partition(".lora_")
        return bool(found) and module in self.modules


def with_adapters(network: Module, config: TrainConfig) -> Adapters:
    """Add adapters to the pretrained models of a network, if the config asks for them, and freeze all other weights.

    Raises:
        TrainError: peft is not installed, a module does not exist, or the network has no pretrained model.
    """
    if config.lora is None:
        return Adapters()
    bases = list(pretrained(network))
    if not bases:
        raise TrainError("--lora: the network contains no transformers model to add adapters to; leave it out")
    for base in bases:
        learnt = new_weights(base, getattr(network, "fresh", ()))
        base.requires_grad_(False)
        inject(base.base_model, config)
        check_targets(base)
        for weight in learnt:
            weight.requires_grad_(True)
    adapted = {name: module for name, module in network.named_modules() if hasattr(module, BASE)}
    turned = {name: bool(getattr(module, "fan_in_fan_out", False)) for name, module in adapted.items()}
    return Adapters(turned, alpha_of(config) / config.lora)


def alpha_of(config: TrainConfig) -> float:
    """Return alpha: the scale of the adapters times their rank."""
    return config.lora_alpha or 2.0 * (config.lora or 0)


def pretrained(network: Module) -> Iterator[PreTrainedModel]:
    """Yield the transformers models in a network that are not part of another one."""
    from transformers import PreTrainedModel

    inside: tuple[str, ...] = ()
    for name, module in network.named_modules():
        if isinstance(module, PreTrainedModel) and not f"{name}.".startswith(inside or ("\0",)):
            inside = (*inside, f"{name}." if name else "")
            yield module


def new_weights(base: PreTrainedModel, fresh: Sequence[str]) -> list[Parameter]:
    """Return the weights of a model that were not pretrained.

    These are the weights of the children that the learner names, and of heads on the body that do not predict words,
    except weights that are tied to the body.
    """
    body = base.base_model
    new_heads = body is not base and base.get_output_embeddings() is None
    children = [child for name, child in base.named_children() if name in fresh or (new_heads and child is not body)]
    known = set(map(id, body.parameters()))
    return [weight for child in children for weight in child.parameters() if id(weight) not in known]


def check_targets(base: PreTrainedModel) -> None:
    """Check that every adapter can be merged into its matrix.

    Raises:
        TrainError: an adapter belongs to an embedding, or to a matrix that is tied to an embedding.
    """
    for name, module in base.named_modules():
        if hasattr(module, BASE) and (NAME not in module.lora_A or module is base.get_output_embeddings()):
            raise TrainError(f"--lora_targets: {name} is not a separate linear layer; name others")


def inject(body: PreTrainedModel, config: TrainConfig) -> None:
    """Add adapters to the modules in the config, else to peft's defaults for the model, else to all matrices.

    Raises:
        TrainError: peft is not installed, or the body has none of the modules.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
        from peft.utils import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as KNOWN
    except ImportError as error:
        raise TrainError(f"--lora needs peft ({error}): pip install 'figeval[lora]'") from error
    targets = list(config.lora_targets) or KNOWN.get(body.config.model_type, "all-linear")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # peft warns that it transposed GPT-2's matrices, as intended
            inject_adapter_in_model(
                LoraConfig(r=config.lora, lora_alpha=alpha_of(config), target_modules=targets), body
            )
    except ValueError as error:
        raise TrainError(f"--lora_targets: {' '.join(str(error).split())[:200]}") from error
