"""The two halves of a causal transformers model: its body with our own keys and values, and its head on chosen states.

Nothing here depends on how an architecture is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache, DynamicLayer
    from transformers.utils.generic import ModelOutput

    from .prefix_tree import Ints

KeyValues: TypeAlias = "list[tuple[Tensor, Tensor]]"  # keys and values per layer, (1, heads, tokens, d)
Index: TypeAlias = "Ints | Tensor"

# What models raise if they are read in a way that they do not support.
REFUSALS = (RuntimeError, TypeError, ValueError, KeyError, IndexError, AttributeError, NotImplementedError)


def head(model: PreTrainedModel, body: Module, output: ModelOutput, states: Tensor) -> Tensor:
    """Return the scores of the vocabulary for states (n, d), as (n, vocabulary); `output` is one of the model's body.

    The model's own forward runs with its body replaced by the given states, so that it applies its own soft-capping and
    scaling of the scores.
    """
    import torch

    with replace_output(body, type(output)(last_hidden_state=states.unsqueeze(0))):
        return model(input_ids=torch.zeros((1, 1), dtype=torch.long, device=states.device)).logits[0]


@contextmanager
def replace_output(module: Module, output: ModelOutput) -> Iterator[None]:
    """Within this context, let a module return `output`, whatever its arguments."""
    original = vars(module).get("forward")  # accelerate sets one of its own
    module.forward = lambda *_args, **_kwargs: output
    try:
        yield
    finally:
        if original is None:
            del module.forward
        else:
            module.forward = original


def fuse_activations(model: PreTrainedModel) -> None:
    """Replace GPT-2's activation by torch's, which computes the same formula in one pass.

    The original makes eight passes over the widest vectors of the model.
    """
    import torch
    from transformers.activations import NewGELUActivation

    for module in model.modules():
        for name, child in list(module.named_children()):
            if isinstance(child, NewGELUActivation):
                setattr(module, name, torch.nn.GELU(approximate="tanh"))


FEED_FORWARD = ("mlp", "feed_forward", "ffn", "block_sparse_moe")


def last_feed_forward(body: Module) -> Module | None:
    """Return the feed-forward part of the last layer, or None if it has no name of its own.

    After it, tokens do not attend to each other any more.
    """
    import torch

    lists = [module for module in body.modules() if isinstance(module, torch.nn.ModuleList) and len(module)]
    children = dict(max(lists, key=len)[-1].named_children()) if lists else {}
    return next((children[name] for name in FEED_FORWARD if name in children), None)


@contextmanager
def only_at(module: Module, lines: Index, columns: Index) -> Iterator[None]:
    """Within this context, compute a module's states (rows, tokens, d) only at (lines[i], columns[i]), else 0."""
    shape: list[int] = []

    def choose(_module: Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        shape[:] = inputs[0].shape[:2]
        return (inputs[0][lines, columns].unsqueeze(0), *inputs[1:])

    def scatter(_module: Module, _inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        states = output.new_zeros(*shape, output.shape[-1])
        states[lines, columns] = output[0]
        return states

    hooks = [module.register_forward_pre_hook(choose), module.register_forward_hook(scatter)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def vocabulary(model: PreTrainedModel) -> int:
    """Return the number of scores that the head computes per state."""
    return int(getattr(model.config, "vocab_size", None) or model.get_output_embeddings().weight.shape[0])


def bytes_per_token(model: PreTrainedModel) -> int:
    """Return an estimate of the memory that one token takes in a layer at a time, in bytes.

    It counts states, queries, keys and values, and the two or three wide vectors of the feed-forward part.
    """
    config = model.config.get_text_config(decoder=True)
    width = int(getattr(config, "hidden_size", None) or config.d_model)
    sizes = getattr(config, "intermediate_size", None) or getattr(config, "ffn_dim", None) or 4 * width
    width_inside = int(max(sizes) if isinstance(sizes, list | tuple) else sizes)  # of the widest layer
    return (8 * width + 4 * width_inside) * int(next(model.parameters()).element_size())


def cache_bytes_per_token(model: PreTrainedModel) -> int:
    """Return the bytes of keys and values that a model keeps for a token of a text that it is writing."""
    config = model.config.get_text_config(decoder=True)
    heads = getattr(config, "num_attention_heads", None) or 1  # state-space models have none
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    key_heads = getattr(config, "num_key_value_heads", None) or heads
    return int(2 * config.num_hidden_layers * key_heads * width * model.dtype.itemsize)


def cache_argument(model: PreTrainedModel) -> str:
    """Return what the model calls its argument for keys and values: the name differs between transformers versions."""
    return "cache" if "cache" in arguments_of(type(model).forward) else "past_key_values"


@cache
def arguments_of(forward: Callable[..., object]) -> frozenset[str]:
    """Return the names of the arguments of a forward pass; looking at them takes time in every pass."""
    return frozenset(signature(forward).parameters)


def growing_cache(key_values: KeyValues) -> Cache:
    """Return a cache that continues from kept keys and values, and holds the longer ones in its layers afterwards."""
    from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

    return Cache(layers=[_fill_layer(DynamicLayer, *pair) for pair in key_values]) if key_values else DynamicCache()


def fixed_cache(key_values: KeyValues) -> Cache:
    """Return a cache that all rows of a batch attend to before their own tokens, and that does not change."""
    from transformers.cache_utils import Cache

    return Cache(layers=[_fill_layer(_shared_layer(), *pair) for pair in key_values])


def _fill_layer(kind: Callable[[], DynamicLayer], keys: Tensor, values: Tensor) -> DynamicLayer:
    layer = kind()
    layer.lazy_initialization(keys, values)
    layer.keys, layer.values = keys, values
    return layer


@cache
def _shared_layer() -> type[DynamicLayer]:
    """Create the class on first use, so that transformers is imported only then."""
    import torch
    from transformers.cache_utils import DynamicLayer

    class SharedLayer(DynamicLayer):  # type: ignore[misc]
        """Keys and values of one text, which precede those of every row; nothing is stored."""

        def update(
            self, key_states: Tensor, value_states: Tensor, *_args: object, **_kwargs: object
        ) -> tuple[Tensor, Tensor]:
            rows = len(key_states)
            pairs = ((self.keys, key_states), (self.values, value_states))
            keys, values = (torch.cat((prefix.expand(rows, -1, -1, -1), states), dim=-2) for prefix, states in pairs)
            return keys, values

    return SharedLayer
