"""Rows of tokens laid end to end, and attention within each of them.

A batch of rows of different lengths is padded to the longest. Laid end to end, its rows are one sequence of all tokens,
in which each attends to those of its row. `NAME` is the attention function that does so in models of transformers, once
it is registered. It gets the layout as the keyword argument `LAYOUT`; without one, it is transformers' own for `sdpa`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

NAME = "figeval_rows"
LAYOUT = "figeval_layout"
MASK = "attention_mask"
LENGTHS = "figeval_lengths"  # attribute of a mask: its lengths on the host, and the changes it had seen by then
HALVES = ("float16", "bfloat16")
# Arguments of attention that change its weights; none of the kernels here knows them.
UNSUPPORTED_OPTIONS = ("position_bias", "softcap", "sliding_window", "s_aux", "head_mask")

# (query, key, value (tokens, heads, d), layout, dropout, scale) → (tokens, heads, d)
Kernel: TypeAlias = "Callable[[Tensor, Tensor, Tensor, Layout, float, float | None], Tensor]"


@dataclass(frozen=True, slots=True)
class Layout:
    """Positions of the tokens of padded rows when the rows lie end to end.

    Attributes:
        shape: number of rows, and length of the longest.
        lengths: tokens per row.
        indexes: indexes of the tokens among those of all rows with padding, (tokens,).
        offsets: where each row begins, and the end of the last, (rows + 1,), int32.
        kernel: how attention is computed.
    """

    shape: tuple[int, int]
    lengths: Sequence[int]
    indexes: Tensor
    offsets: Tensor
    kernel: Kernel

    @classmethod
    def of(cls, mask: Tensor, lengths: Sequence[int], kernel: Kernel) -> Layout:
        """Return the layout of rows from their mask (rows, longest); nothing waits for the device."""
        import torch

        count, longest = mask.shape
        sizes = torch.tensor(lengths, dtype=torch.int32).to(mask.device, non_blocking=True)
        offsets = torch.nn.functional.pad(sizes.cumsum(0, dtype=torch.int32), (1, 0))
        # A stable sort of "is padding" puts the tokens first and keeps their order, whichever side is padded.
        order = torch.argsort(mask.flatten().logical_not().to(torch.uint8), stable=True)
        return cls((count, longest), lengths, order[: sum(lengths)], offsets, kernel)

    def end_to_end(self, states: Tensor) -> Tensor:
        """Return the states (1, tokens, d) of the tokens of padded rows (rows, longest, d)."""
        return states.flatten(0, 1).index_select(0, self.indexes).unsqueeze(0)

    def pad(self, states: Tensor) -> Tensor:
        """Return the states (rows, longest, d), zero at padding, of tokens that lie end to end (1, tokens, d)."""
        rows, longest = self.shape
        padded_states = states.new_zeros((rows * longest, states.shape[-1]))
        return padded_states.index_copy(0, self.indexes, states[0]).unflatten(0, (rows, longest))


def with_lengths(mask: Tensor, lengths: list[int]) -> Tensor:
    """Return a mask that remembers the tokens per row on the host until it is modified in place."""
    setattr(mask, LENGTHS, (lengths, count_changes(mask)))
    return mask


def lengths_of(mask: Tensor) -> list[int]:
    """Return the tokens per row of a mask, its non-zero entries; if the host does not know, it waits for the device."""
    lengths, changes = getattr(mask, LENGTHS, ([], None))
    is_known = changes is not None and changes == count_changes(mask)
    return list(lengths if is_known else mask.ne(0).sum(1).tolist())


def count_changes(tensor: Tensor) -> int | None:
    """Return how often a tensor was modified in place; None if torch does not count, as in inference mode."""
    return None if tensor.is_inference() else tensor._version


# ---- kernels ---------------------------------------------------------------------------------------------------------


def by_flash(query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float, scale: float | None) -> Tensor:
    """Attend by FlashAttention in half precision, called as torch's own wrappers do, which allow no dropout."""
    import torch

    longest = layout.shape[1]
    lengths = (layout.offsets, layout.offsets, longest, longest)
    forward = torch.ops.aten._flash_attention_forward
    return forward(query, key, value, *lengths, dropout, False, False, scale=scale)[0]


def by_efficient(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float, scale: float | None
) -> Tensor:
    """Attend by torch's memory-efficient attention in any precision, called as torch does it for nested tensors."""
    import torch

    longest = layout.shape[1]
    lengths = (layout.offsets, layout.offsets, longest, longest)
    has_gradient = query.requires_grad or key.requires_grad or value.requires_grad
    states = (query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0))
    forward = torch.ops.aten._efficient_attention_forward
    return forward(*states, None, *lengths, dropout, 0, has_gradient, scale=scale)[0].squeeze(0)


def by_jagged(query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float, scale: float | None) -> Tensor:
    """Attend by torch's nested tensors, whose interface is public; it takes more of the host's time."""
    from torch.nested import nested_tensor_from_jagged
    from torch.nn.functional import scaled_dot_product_attention

    offsets, limits = layout.offsets, {"min_seqlen": min(layout.lengths), "max_seqlen": max(layout.lengths)}
    query, key, value = (nested_tensor_from_jagged(x, offsets, **limits).transpose(1, 2) for x in (query, key, value))
    states = scaled_dot_product_attention(query, key, value, dropout_p=dropout, scale=scale)
    return states.transpose(1, 2).values()


def by_row(query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: float, scale: float | None) -> Tensor:
    """Attend row by row: slow, and right on every device."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    attention = partial(scaled_dot_product_attention, dropout_p=dropout, scale=scale)
    parts = (states.transpose(0, 1).split(list(layout.lengths), dim=1) for states in (query, key, value))
    return torch.cat(list(map(attention, *parts)), dim=1).transpose(0, 1)


KERNELS: dict[str, tuple[Kernel, ...]] = {"cuda": (by_flash, by_efficient, by_jagged)}
"""Kernels by kind of device, the fastest first. A CPU pads: its batches are small, and hardly padded."""


# ---- attention of transformers ---------------------------------------------------------------------------------------


def attend(
    module: Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Compute attention of transformers' interface: states (1, heads, tokens, d) → (1, tokens, heads, d).

    Raises:
        ValueError: the model's attention is causal, or weighs tokens in a way that no kernel knows.
    """
    layout: Layout | None = options.pop(LAYOUT, None)
    if layout is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        plain: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
        return plain
    unsupported = [name for name in UNSUPPORTED_OPTIONS if options.get(name) is not None]
    if unsupported or options.get("is_causal") or getattr(module, "is_causal", False):
        raise ValueError(f"its attention has {unsupported[0] if unsupported else 'an order'}")
    query, key, value = (states[0].transpose(0, 1) for states in (query, key, value))
    attention = layout.kernel(query, key, value, layout, options.get("dropout", 0.0), options.get("scaling"))
    return attention.unsqueeze(0), None


@cache
def register() -> None:
    """Make `attend` known to transformers as `NAME`, with the masks of `sdpa`."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)
