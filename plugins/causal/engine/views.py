"""Attention of the tokens of a packed row, in the forms that models accept.

Most models accept one mask (rows, 1, queries, keys). Models with a sliding window need its band in the mask, by the
position in the text and not in the row; models with both kinds of layers take one mask per kind. Models that accept
none of these (ALiBi, local attention by row index) may still share the beginnings of texts; state-space models share
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from figeval.types import JSON

from .prefix_tree import PrefixTree
from .reading_plan import PackedRow, RowShape

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PretrainedConfig

NO_LIMITS = ("feed_forward", "layers", "pattern", "mamba")  # in names of other numbers about windows and chunks
MAX_TESTED_TOKENS = 1_024  # tokens of the longest tested window; texts beyond a longer window are read in plain rows


@dataclass(frozen=True, slots=True)
class View:
    """A batch of rows as tensors: `ids`, `depth` and `end` (rows, longest), after `past_tokens` shared tokens."""

    ids: Tensor
    depth: Tensor
    end: Tensor
    past_tokens: int

    @classmethod
    def of(cls, tree: PrefixTree, rows: Sequence[PackedRow], past_tokens: int, device: torch.device) -> View:
        """Build a view padded on the right; padding attends to itself, so that no row of the attention is empty."""
        import torch

        shape = (len(rows), max(map(len, rows)))
        ids, depth = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        end = np.tile(np.arange(1, shape[1] + 1), (shape[0], 1))
        for line, row in enumerate(rows):
            ids[line, : len(row)] = tree.tokens[row.nodes]
            depth[line, : len(row)] = tree.depth[row.nodes]
            end[line, : len(row)] = row.end
        tensors = [torch.from_numpy(values).to(device) for values in (ids, depth, end)]
        return cls(tensors[0], tensors[1], tensors[2], past_tokens)

    def visible_keys(self, window: int | None = None) -> Tensor:
        """Return which keys a query may attend to, (rows, 1, longest, before + longest); a window keeps the nearest."""
        import torch

        rows, longest = self.ids.shape
        index = torch.arange(longest, device=self.ids.device)
        among = (index[:, None] >= index) & (index[:, None] < self.end[:, None, :])
        visible = torch.cat((among.new_ones(rows, longest, self.past_tokens), among), dim=-1)
        if window is not None:
            past = torch.arange(self.past_tokens, device=self.ids.device).expand(rows, -1)
            positions = torch.cat((past, self.depth), dim=-1)
            visible &= self.depth[:, :, None] - positions[:, None, :] < window
        return visible[:, None]

    def leaking(self) -> View:
        """Return the view with a fault: every part of a row is seen by the one that follows it."""
        import torch

        last = self.end.shape[1] - 1
        following = self.end.gather(1, self.end.clamp(max=last))
        return replace(self, end=torch.where(self.end <= last, following, self.end))

    def mask(self, dtype: torch.dtype, window: int | None = None) -> Tensor:
        """Return the mask as numbers to be added to attention scores."""
        import torch

        visible = self.visible_keys(window)
        lowest = torch.finfo(dtype).min
        return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(~visible, lowest)


# The attention mask of a model for a view: one tensor, or one for each kind of layer.
Mask: TypeAlias = "Callable[[View, torch.dtype], Tensor | dict[str, Tensor]]"


@dataclass(frozen=True, slots=True)
class ReadStrategy:
    """A layout of texts with its masks. Texts of more than `reach` tokens were not tested and use plain rows."""

    name: str
    shape: RowShape
    build_mask: Mask | None = None
    reach: int | None = None
    faulty: bool = False

    def with_fault(self) -> ReadStrategy:
        """Return the strategy with a planted fault: parts of a row see others, or a row does not see its beginning."""
        return replace(self, faulty=True)

    def fit_to(self, config: PretrainedConfig) -> ReadStrategy:
        """Return the strategy with the masks of another config of the same class, whose windows are others."""
        (build_mask,) = (
            strategy.build_mask for strategy in strategies_for(config, self.shape) if strategy.name == self.name
        )
        return replace(self, build_mask=build_mask)

    def inputs(self, view: View, dtype: torch.dtype) -> JSON:
        """Return the arguments of the model, which computes in `dtype`."""
        if self.build_mask is None:  # unbranched rows, which need no mask of ours
            rows, longest = view.ids.shape
            real = view.ids.new_ones(rows, view.past_tokens + longest)
            if self.faulty:
                real[:, view.past_tokens // 2 : view.past_tokens] = 0
            return {"input_ids": view.ids, "attention_mask": real}
        mask = self.build_mask(view.leaking() if self.faulty else view, dtype)
        return {"input_ids": view.ids, "position_ids": view.depth, "attention_mask": mask}


def strategies_for(config: PretrainedConfig, shape: RowShape) -> Iterator[ReadStrategy]:
    """Yield the strategies to try on a model, best first; `shape` is that of packed trees."""
    config = config.get_text_config(decoder=True)
    window = getattr(config, "sliding_window", None)
    # Beyond a window that is longer than the sample, masks were not tested.
    reach = min((size for size in windows(config) if size > MAX_TESTED_TOKENS), default=None)
    kinds = set(getattr(config, "layer_types", None) or ())

    def full(view: View, dtype: torch.dtype) -> Tensor:
        return view.mask(dtype)

    def band(view: View, dtype: torch.dtype) -> Tensor:
        return view.mask(dtype, window)

    def per_layer(view: View, dtype: torch.dtype) -> dict[str, Tensor]:
        masks = {"full_attention": full, "sliding_attention": band}
        return {kind: masks[kind](view, dtype) for kind in kinds}

    if kinds and kinds <= {"full_attention", "sliding_attention"}:
        yield ReadStrategy("packed trees, a mask per kind of layer", shape, per_layer, reach)
    if window:
        yield ReadStrategy("packed trees, sliding window", shape, band, reach)
    else:
        yield ReadStrategy("packed trees", shape, full, reach)
    yield ReadStrategy("rows that share their beginning", replace(shape, trees=False), None, reach)


def windows(config: PretrainedConfig) -> list[int]:
    """Return all numbers of a config that limit how far a token attends."""
    return [getattr(config.get_text_config(decoder=True), name) for name in window_names(config)]


def window_names(config: PretrainedConfig) -> list[str]:
    """Return the names of the numbers of a config that limit how far a token attends."""
    config = config.get_text_config(decoder=True)
    limits = [name for name in vars(config) if "window" in name or "chunk" in name]
    names = [name for name in limits if not any(word in name for word in NO_LIMITS)]
    return [name for name in names if type(getattr(config, name)) is int and getattr(config, name) > 0]
