"""The model that a training starts from: its checkpoint, its head, its frozen modules, and the head's options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from figeval.errors import ModelError, TrainError
from figeval.io.json_files import read_json
from figeval.io.text import near
from figeval.types import TextRole

from ..causal.packaged import SMOLLM2
from ..encoders.encoder import PromptedSettings, minilm_model
from ..encoders.prompts import OPTION_NAMES, Prompts, place_prompts
from ..torch_models.checkpoint import MODULES, Checkpoint, load_json, locate, with_declared
from ..torch_models.faults import load_errors, one_line
from ..torch_models.files import weight_files
from ..torch_models.loading import ModelSetup, input_limit, is_accelerator, load_model, load_tokenizer, suppress_logging
from ..torch_models.settings import Settings
from ..torch_models.unpadded import read_without_padding
from .adapter_folder import has_adapters, save_adapter

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
    from transformers.models.auto.auto_factory import _BaseAutoModelClass

    from figeval.models.learner import Setup
    from figeval.wings.training.batch_plans import BatchPlan

SUPPORTED_MODULES = ("Transformer", "Pooling", "Normalize")  # supported modules of sentence-transformers
POOLING = "1_Pooling/config.json"
POOLING_MODES = {"mean_tokens": "mean", "cls_token": "cls", "lasttoken": "last"}  # sentence-transformers' → ours
MINILM_LENGTH = 512  # all positions; its tokenizer file says 128
POOLER = "pooler"  # read by some heads: fresh if the checkpoint has none, dropped if the head does not use it
S = TypeVar("S", bound=Settings)
T = TypeVar("T")


@dataclass(frozen=True)
class Base:
    """A checkpoint and the training setup. Weights are loaded as float32 on the CPU."""

    setup: Setup
    checkpoint: Checkpoint

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        return load_tokenizer(self.checkpoint, trust=False)

    def load(self, auto: type[_BaseAutoModelClass], *, spare: str = "") -> PreTrainedModel:
        """Load a model of a transformers Auto class in training mode; `spare` modules may have random weights.

        Raises:
            ModelError: the class does not fit, or weights are missing.
        """
        loading = ModelSetup(Settings(), self.checkpoint, "cpu", "float32")
        model = load_model(auto, loading, spare=spare, **self.dropouts())
        if self.checkpoint.base is not None:  # the tensors of an adapter's base are shared, and frozen
            model = deepcopy(model).requires_grad_(True)
        return self.ready(model)

    def setup_of(self, settings: S, network: Module) -> ModelSetup[S]:
        """Return the setup of a backend that reads a network where it is."""
        return ModelSetup(settings, self.checkpoint, str(next(network.parameters()).device), "float32")

    def ready(self, model: PreTrainedModel) -> PreTrainedModel:
        """Return the model in training mode, with gradient checkpointing if the setup asks for it.

        Raises:
            ModelError: the model does not support gradient checkpointing.
        """
        if self.setup.gradient_checkpointing:
            if not model.supports_gradient_checkpointing:
                raise ModelError(f"a {type(model).__name__} does not support --gradient_checkpointing; leave it out")
            enable = getattr(model, "activation_checkpointing_enable", None)
            (enable or model.gradient_checkpointing_enable)({"use_reentrant": False})
        if is_accelerator(self.setup.device):
            read_without_padding(model)
        return model.train()

    def dropouts(self) -> dict[str, float]:
        """Return all dropout rates of the configuration, set to the requested value."""
        if self.setup.dropout is None:
            return {}
        values = self.config.to_dict().items()
        names = (name for name, value in values if ("dropout" in name or "pdrop" in name) and isinstance(value, float))
        return dict.fromkeys(names, self.setup.dropout)

    @cached_property
    def config(self) -> PretrainedConfig:
        from transformers import AutoConfig

        return AutoConfig.from_pretrained(self.checkpoint.folder_here())

    @cached_property
    def limit(self) -> int | None:
        """Longest input in tokens, derived from the configuration without loading weights."""
        import torch
        from transformers import AutoModel

        with torch.device("meta"):
            shape = AutoModel.from_config(self.config)
        return input_limit(self.setup.max_length, self.tokenizer.model_max_length, shape)

    @property
    def plan(self) -> BatchPlan:
        """Division of texts into forward passes, until the training loop sets another."""
        from figeval.wings.training.batch_plans import SimilarLengths, token_budget

        return SimilarLengths(token_budget(self.setup.tokens_per_batch, self.setup.device))

    @property
    def pooling(self) -> str | None:
        """Pooling that the checkpoint declares, in figeval.json or as sentence-transformers does."""
        if "pooling" in self.checkpoint.declared:
            return str(self.checkpoint.declared["pooling"])
        if not self.checkpoint.is_sentence_transformer:
            return None
        self._refuse_modules()
        modes = load_json(self.checkpoint.folder_here() / POOLING) or {}
        mode = POOLING_MODES.get(str(modes.get("pooling_mode")), modes.get("pooling_mode"))
        return mode or next((name for mode, name in POOLING_MODES.items() if modes.get(f"pooling_mode_{mode}")), None)

    def declared_options(self, settings: Settings, *names: str) -> dict[str, object]:
        """Return the checkpoint's declared values of these options. Raises `ModelError` for an invalid one."""
        declared = with_declared(settings, self.checkpoint)
        return {name: value for name in names if (value := getattr(declared, name)) is not None}

    def prompts(self, overrides: Mapping[TextRole, str | None]) -> Prompts:
        """Return the prompts that texts are read with, as in evaluation: the given ones, or those of the checkpoint.

        Raises:
            ModelError: the prompts are not texts, are not declared, or are no part of the vectors of this model.
        """
        declared = with_declared(PromptedSettings(), self.checkpoint).prompts
        values = {role: declared[role] if overrides.get(role) is None else overrides[role] for role in declared}
        prompts = place_prompts(self.checkpoint, values)
        modes = load_json(self.checkpoint.folder_here() / POOLING) if self.checkpoint.is_sentence_transformer else None
        if any(prompts.options().values()) and (modes or {}).get("include_prompt") is False:
            off = ",".join(f"{name}=" for name in OPTION_NAMES.values())
            raise ModelError(
                f"{self.setup.model!r} leaves the tokens of its prompts out of its vectors (include_prompt: false), "
                f"which cannot be trained; train it without prompts: --head_args {off}"
            )
        return prompts

    def _refuse_modules(self) -> None:
        """Raise `ModelError` if sentence-transformers has layers other than encoder, pooling and normalization."""
        modules = read_json(self.checkpoint.folder_here() / MODULES, ModelError)
        types = [str(module["type"]).rpartition(".")[2] for module in modules]
        if strange := [kind for kind in types if kind not in SUPPORTED_MODULES]:
            raise ModelError(
                f"{self.setup.model!r} has a layer {strange[0]}, which would not be trained; use its encoder alone"
            )

    def save(self, model: PreTrainedModel, weights: Mapping[str, Tensor], prefix: str, folder: Path) -> None:
        """Write a transformers model, whose weights have names with `prefix`, and its tokenizer.

        If adapters were not merged into the weights, the adapter is written instead of the model.
        The tokenizer's limit is set to that of the training, so that the model is used with the lengths it was trained
        on.
        """
        tensors = {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}
        if has_adapters(tensors):
            save_adapter(model, tensors, self.checkpoint, folder)
        else:
            with suppress_logging():
                model.save_pretrained(folder, state_dict=tensors)
        if self.limit is not None:
            self.tokenizer.model_max_length = self.limit
        self.tokenizer.save_pretrained(folder)


def base_of(setup: Setup) -> Base:
    """Return the model to start from.

    Raises:
        ModelError: there is no such model, or its weights are a pickle and `allow_pickle` is not set.
    """
    if setup.model == "minilm":
        setup = replace(setup, model=minilm_model(), max_length=setup.max_length or MINILM_LENGTH)
    if setup.model == SMOLLM2.name:
        setup = replace(setup, model=str(SMOLLM2.folder()))
    checkpoint = locate(setup.model)
    folder = checkpoint.folder
    if folder is not None and not setup.allow_pickle:
        files = weight_files(folder)
        if files and not any(file.suffix == ".safetensors" for file in files):  # loading a pickle may run code
            weights = f"{setup.model!r} has its weights in {files[0].name}, a pickle"
            raise ModelError(f"{weights}; save it as safetensors, or use --allow_pickle")
    return Base(setup, checkpoint)


def fresh_head(base: Base, auto: type[_BaseAutoModelClass], **changes: object) -> PreTrainedModel:
    """Return a model of a transformers Auto class with the checkpoint's body and a random head.

    `changes` are entries of the configuration, e.g. `id2label`, which sets the number of outputs.

    Raises:
        ModelError: this architecture has no such head, or the body does not fit under it.
    """
    import torch
    from transformers import AutoConfig, AutoModel

    body = base.load(AutoModel, spare=POOLER)
    try:
        with suppress_logging():
            config = AutoConfig.from_pretrained(base.checkpoint.folder_here(), **base.dropouts(), **changes)
            model = auto.from_config(config, dtype=torch.float32)
            differences = model.base_model.load_state_dict(body.state_dict(), strict=False)
    except load_errors() as error:
        raise ModelError(
            f"{base.setup.model!r} cannot be loaded with a head of {auto.__name__}: {one_line(error)}"
        ) from error
    unmatched = [name for name in (*differences.missing_keys, *differences.unexpected_keys) if POOLER not in name]
    if unmatched:
        kind = type(model).__name__
        raise ModelError(
            f"{base.setup.model!r} does not fit a {kind} (they differ in {unmatched[0]}); use another model"
        )
    return base.ready(model)


def pooled_encoder(base: Base, pooling: str, freeze: str) -> PreTrainedModel:
    """Load the encoder whose states will be pooled; modules named in `freeze` (a+b) get no gradient."""
    from transformers import AutoModel

    encoder = base.load(AutoModel, spare="" if pooling == POOLER else POOLER)
    encoder = encoder.get_encoder() if encoder.config.is_encoder_decoder else encoder
    if pooling != POOLER and getattr(encoder, POOLER, None) is not None:
        encoder.pooler.requires_grad_(False)  # without a gradient, ZeRO would still apply weight decay to it
    freeze_modules(encoder, freeze)
    return encoder


def pooling_of(base: Base, name: str | None) -> str:
    """Return the named pooling, else the declared one. Raises `TrainError` if there is neither."""
    pooling = name or base.pooling
    if pooling is None:
        raise TrainError(
            f"{base.setup.model!r} declares no pooling; set --head_args pooling= (mean, cls, sum, pooler, last)"
        )
    return pooling


def options_of(kind: Callable[..., T], values: Mapping[str, object]) -> T:
    """Return the options of a head. Raises `TrainError` for an unknown one."""
    names = list(signature(kind).parameters)
    for name in values:
        if name not in names:
            options = ", ".join(names)
            raise TrainError(f"--head_args {name}: no such option{near(name, names)}; the options are {options}")
    return kind(**values)


def freeze_modules(model: PreTrainedModel, names: str) -> None:
    """Freeze modules, named a+b. Raises `TrainError` if the model has no such module."""
    modules = dict(model.named_modules())
    for name in filter(None, names.split("+")):
        if name not in modules:
            raise TrainError(f"--head_args freeze={name}: the model has no such module{near(name, modules)}")
        modules[name].requires_grad_(False)


class Prompted:
    """Base class of the learners of encoders that read texts with prompts: what they report about these."""

    base: Base
    prompts: Prompts

    @property
    def prompts_by_role(self) -> dict[str, str]:
        """The prompts that texts are read with, by role; empty if there are none."""
        return self.prompts.by_role

    @property
    def warnings(self) -> list[str]:
        """A warning about prompts of the checkpoint that may be missing, if there are any."""
        return self.prompts.warnings(self.base.setup.model, "--head_args")
