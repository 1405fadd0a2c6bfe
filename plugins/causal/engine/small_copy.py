"""Small copies of a model, on which the self-test asks whether an architecture reads trees as it reads rows.

That is a question about masks, positions and caches, and not about weights: a copy of the same class with the same
kinds of layers answers it in single precision, where rounding cannot hide a fault, and in a fraction of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, TypeAlias

from .views import window_names

if TYPE_CHECKING:
    import torch
    from torch.nn import Module, ModuleList
    from transformers import PretrainedConfig, PreTrainedModel

Kind: TypeAlias = "frozenset[tuple[object, ...]]"

MIN_LAYERS = 2
MAX_GROUPS = 4  # heads that share keys and values
MAX_WIDTH = 128  # of the feed-forward part
MAX_STATES = 256
MAX_WORDS = 512
WINDOW_TOKENS = 6  # of the windows of a copy, so that a short text is longer
DEVIATION = 1.5  # of the weights, times the square root of their inputs: masks then change scores by tenths of a nat
PRECISE = ("eager", "sdpa")  # implementations of attention that compute in single precision


def small_copy(model: PreTrainedModel, device: torch.device) -> PreTrainedModel | None:
    """Return a narrow model of the same class and kinds of layers in single precision, or None if none can be made.

    Its weights are random, and its attention windows, if it has any, shorter than the texts of the self-test.
    """
    import torch

    layers = layers_of(model)
    if layers is None:
        return None
    devices = range(torch.cuda.device_count())  # all of which a seed changes
    by_class = getattr(model.config, "quantization_config", None) is None
    for width in (MAX_STATES, None):
        try:
            config = narrow_config(model.config, count_layers(layers), width)
            with torch.random.fork_rng(devices), torch.device(device), torch.inference_mode():
                torch.manual_seed(0)
                copy = type(model)(config).float().eval()
                for weight in copy.parameters():
                    if weight.dim() > 1:
                        torch.nn.init.normal_(weight, 0, DEVIATION * weight.shape[-1] ** -0.5)
                copy(input_ids=torch.tensor([[5, 6, 7, 8]]))
        except Exception:  # a config that its class rejects fails in any way
            continue
        copied_layers = layers_of(copy)
        if copied_layers is None:
            continue
        if kinds_of(copied_layers, by_class=by_class) == kinds_of(layers, by_class=by_class):
            return copy
    return None


def layers_of(model: PreTrainedModel) -> ModuleList | None:
    """Return the list of a model's layers, or None if there is none of the length that its config says."""
    import torch

    count = getattr(model.config.get_text_config(decoder=True), "num_hidden_layers", None)
    lists = (module for module in model.modules() if isinstance(module, torch.nn.ModuleList))
    return next((modules for modules in lists if len(modules) == count), None)


def count_layers(layers: Sequence[Module]) -> int:
    """Return how many of the first layers have all kinds that there are; they keep the pattern of the kinds."""
    kinds = [kind_of(layer) for layer in layers]
    last = max(kinds.index(kind) for kind in set(kinds))
    return min(max(MIN_LAYERS, last + 1), len(kinds))


def kind_of(layer: Module) -> Kind:
    """Return what makes layers differ apart from weights: their modules' classes, and attributes that are flags."""
    return frozenset((name, type(module).__name__, *flags_of(module)) for name, module in layer.named_modules())


def kinds_of(layers: Sequence[Module], *, by_class: bool) -> set[Kind]:
    """Return the kinds of layers; not `by_class`, those of their attention alone.

    Weights of few bits are in modules of other classes, which make no difference to masks and positions.
    """
    if by_class:
        return {kind_of(layer) for layer in layers}
    parts = [module for layer in layers for name, module in layer.named_modules() if "attn" in name]
    attentions = [module for module in parts if next(module.children(), None) is not None]
    return {frozenset([(type(module).__name__, *flags_of(module))]) for module in attentions}


def flags_of(module: Module) -> list[tuple[str, str]]:
    """Return the attributes of a module that are words or flags, and whether it has a window."""
    flags = {name: str(value) for name, value in vars(module).items() if is_flag(name, value)}
    windows = {name: str(value is not None) for name, value in vars(module).items() if "window" in name}
    attributes = (flags | windows).items()
    return sorted((name, value) for name, value in attributes if name != "training" and not name.startswith("_"))


def is_flag(name: str, value: object) -> bool:
    """Return whether an attribute is a word or a flag, also one that is written as 0 or 1."""
    return isinstance(value, bool | str) or (type(value) is int and value in (0, 1) and "id" not in name)


def narrow_config(config: PretrainedConfig, layers: int, width: int | None) -> PretrainedConfig:
    """Return a config with few layers, heads and words, narrow feed-forward parts and short windows.

    The width of a head stays, because rotary positions may divide it into parts. That of the states is at most `width`
    if a config sets both; with None, and otherwise, it is that of all heads.
    """
    config = deepcopy(config)
    vars(config).pop("quantization_config", None)
    text = config.get_text_config(decoder=True)
    for name, value in list(vars(text).items()):
        is_wide = "intermediate" in name or "ffn" in name
        if isinstance(value, list | tuple) and len(value) == text.num_hidden_layers:
            setattr(text, name, [min(size, MAX_WIDTH) for size in value[:layers]] if is_wide else value[:layers])
        elif type(value) is int and is_wide:
            setattr(text, name, min(value, MAX_WIDTH))
        elif type(value) is int and "vocab_size" in name:
            setattr(text, name, min(value, MAX_WORDS))
        elif name.endswith("token_id") and isinstance(value, int) and value >= MAX_WORDS:
            setattr(text, name, 0)
    for name in window_names(text):
        setattr(text, name, WINDOW_TOKENS)
    text.num_hidden_layers = layers
    narrow_heads(text, width)
    if config._attn_implementation not in PRECISE:
        config._attn_implementation = "sdpa"
    return config


def narrow_heads(config: PretrainedConfig, width: int | None) -> None:
    """Keep few heads of their width, and groups of them that share keys and values."""
    heads = getattr(config, "num_attention_heads", None)
    if not isinstance(heads, int) or not getattr(config, "hidden_size", None):
        return  # state-space models
    key_heads = getattr(config, "num_key_value_heads", None) or heads
    key_heads_left = min(key_heads, 2 if key_heads < heads else MAX_GROUPS)
    groups = min(heads // key_heads, MAX_GROUPS)
    of_heads = key_heads_left * groups * (vars(config).get("head_dim") or config.hidden_size // heads)
    has_both = vars(config).get("head_dim") is not None
    config.hidden_size = of_heads if width is None or not has_both else min(config.hidden_size, width)
    config.num_attention_heads = key_heads_left * groups
    if getattr(config, "num_key_value_heads", None):
        config.num_key_value_heads = key_heads_left
