"""Attention of one token per row, in which query heads with the same keys are queries of one head.

    transformers      queries (rows, heads, 1, d)         keys (rows, heads, columns, d), repeated for the heads
    here              queries (rows, kept, groups, d)     keys (rows, kept, columns, d), as they are in the cache

The products are the same, and none of the keys is copied. Recent versions of transformers do this as well, but not in
compiled passes. All other passes are left to transformers' own function.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from transformers import PreTrainedModel

NAME = "figeval_grouped"  # of the implementation, among those of transformers
EXCLUDED_DEVICES = ("cpu",)  # transformers' own attention is as fast there, and texts stay what they are


def can_group(model: PreTrainedModel) -> bool:
    """Return whether a model's attention can be replaced: torch's, with more heads of queries than of keys."""
    config = model.config.get_text_config(decoder=True)
    heads, key_heads = (getattr(config, f"num_{kind}_heads", None) for kind in ("attention", "key_value"))
    is_grouped = isinstance(heads, int) and isinstance(key_heads, int) and key_heads < heads
    return is_grouped and config._attn_implementation == "sdpa" and model.device.type not in EXCLUDED_DEVICES


@contextmanager
def grouped_attention(model: PreTrainedModel, *, on: bool = True) -> Iterator[None]:
    """Within this context, let a model compute attention by groups, unless `on` is False."""
    if not on:
        yield
        return
    _register()
    config = model.config.get_text_config(decoder=True)
    original = config._attn_implementation
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = original


@cache
def _register() -> None:
    """Make the implementation known to transformers, with the masks of its "sdpa"."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(NAME, attention_by_groups)
    AttentionMaskInterface.register(NAME, sdpa_mask)


def attention_by_groups(
    module: Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **further: Any,
) -> tuple[Tensor, None]:
    """Return the states that a layer's attention gives, (rows, tokens, heads, d).

    Args:
        module: the layer's attention.
        query: queries, (rows, heads, tokens, d).
        key: keys, (rows, kept heads, columns, d).
        value: values, of the same shape.
        attention_mask: mask of all heads, (rows, 1, tokens, columns); None for all columns before a token.
        **further: what transformers passes on, such as `scaling`, the factor of the products.
    """
    from torch.nn.functional import scaled_dot_product_attention
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    rows, heads, tokens, width = query.shape
    key_heads = key.shape[1]
    special = any(further.get(name) is not None for name in ("softcap", "position_bias", "s_aux"))
    if tokens > 1 or key_heads == heads or special or attention_mask is None or attention_mask.shape[1] > 1:
        output: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **further)
        return output
    states = scaled_dot_product_attention(
        query.reshape(rows, key_heads, heads // key_heads, width),
        key,
        value,
        attn_mask=attention_mask,
        dropout_p=further.get("dropout", 0.0),
        scale=further.get("scaling"),
    )
    return states.reshape(rows, 1, heads, value.shape[-1]), None
