"""Keys and values of the rows of a batch, in one pair of buffers per layer in which rows come and go.

    column     0 1 2 3 4 5 6 7 8 9
    slot 0     . . a a a a a a . .      All texts end in the same column (`end`), as with padding on the left.
    slot 1     . . . . . b b b . .      A row that leaves gives its slot to the last row, and a pass only sees the
    slot 2     . . . c c c c c . .      columns from the first one of the longest row that remains.

A row that joins or leaves costs the copy of one row, and a token the copy of one column. A cache that grows by
concatenation, as those of transformers do, copies everything for every token. This module imports transformers, so it
is imported only when a model is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from transformers.cache_utils import Cache, DynamicLayer

from ..engine.bodies import KeyValues

if TYPE_CHECKING:
    from torch import Tensor

GROWTH_COLUMNS = 64  # columns by which the buffers grow


@dataclass(slots=True)
class CacheWindow:
    """The part of the buffers that a pass sees, and the column from which on it continues them."""

    slots: slice = field(default_factory=lambda: slice(0))
    first: int = 0
    end: int = 0


@dataclass(slots=True)
class RowCache:
    """A cache of rows.

    Attributes:
        layers: number of layers of the model.
        starts: for each row, the column of its first token.
        end: column after the last tokens of all rows.
        slots: number of rows that the buffers hold.
        columns: number of columns that the buffers hold.
        window: what the next pass sees.
    """

    layers: int
    starts: list[int] = field(default_factory=list)
    end: int = 0
    slots: int = 0
    columns: int = 0
    window: CacheWindow = field(default_factory=CacheWindow)
    _cache: Cache | None = None

    @property
    def cache(self) -> Cache:
        """The cache in the form that a model continues: the part that `window` describes."""
        if self._cache is None:
            self._cache = Cache(layers=[WindowLayer(self) for _ in range(self.layers)])
        return self._cache

    @property
    def width(self) -> int:
        """Number of tokens of the longest row."""
        return self.end - min(self.starts, default=self.end)

    def reserve(self, slots: int, longest: int = 0) -> None:
        """Make room for this number of rows, the new ones no longer than `longest`, and for a further column."""
        if slots <= self.slots and longest <= self.end < self.columns:
            return
        width = self.width
        end = max(width, longest)
        for layer in self.cache.layers:
            layer.move(
                (max(slots, self.slots), end + GROWTH_COLUMNS), len(self.starts), slice(self.end - width, self.end), end
            )
        self.slots, self.columns = max(slots, self.slots), end + GROWTH_COLUMNS
        self.starts = [start - self.end + end for start in self.starts]
        self.end = end

    def join(self, beginning: KeyValues, lengths: Sequence[int], unread: int) -> None:
        """Add rows, and open the window for a pass that reads their last `unread` columns.

        What comes before these columns is copied from `beginning`, keys and values that all of the rows begin with.
        A shorter row takes less of it, so that it reads the end of it anew where others read their own tokens.
        """
        slots = slice(len(self.starts), len(self.starts) + len(lengths))
        self.starts += [self.end - length for length in lengths]
        self.window = CacheWindow(slots, self.end - max(lengths), self.end - unread)
        for layer, key_values in zip(self.cache.layers, beginning, strict=False):
            for slot in range(slots.start, slots.stop):
                layer.begin(slot, self.starts[slot], self.window.end, key_values)

    def extend(self) -> None:
        """Open the window for a pass that reads a further column of all rows."""
        self.reserve(len(self.starts))
        self.window = CacheWindow(slice(0, len(self.starts)), self.end - self.width, self.end)
        self.end += 1

    def leave(self, slot: int) -> None:
        """Remove a row; the last one takes its slot."""
        last = len(self.starts) - 1
        for layer in self.cache.layers:
            layer.replace(slot, last)
        self.starts[slot] = self.starts[last]
        self.starts.pop()

    def positions(self, device: str) -> tuple[Tensor, Tensor]:
        """Return for each row and column of the window, up to `end`, whether it is a token, and its place in the text.

        Both have the shape (rows, columns) and are integers; the places of what is no token are 0.
        """
        import torch

        starts = torch.tensor(self.starts[self.window.slots], device=device)
        positions = torch.arange(self.window.first, self.end, device=device) - starts[:, None]
        return (positions >= 0).long(), positions.clamp_min(0)


class WindowLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of a layer, of which models see the window of `rows`."""

    def __init__(self, rows: RowCache) -> None:
        super().__init__()
        self.is_initialized: bool = False
        self.rows = rows

    def update(
        self, key_states: Tensor, value_states: Tensor, *_args: object, **_kwargs: object
    ) -> tuple[Tensor, Tensor]:
        self._allocate(key_states, value_states)
        window = self.rows.window
        end = window.end + key_states.shape[-2]
        for buffer, states in ((self.keys, key_states), (self.values, value_states)):
            buffer[window.slots, :, window.end : end] = states
        visible = window.slots, slice(None), slice(window.first, end)
        return self.keys[visible], self.values[visible]

    def get_seq_length(self, *_args: object) -> int:
        return self.rows.window.end - self.rows.window.first

    def _allocate(self, *like: Tensor) -> None:
        if self.is_initialized:
            return
        shape = self.rows.slots, self.rows.columns  # zeros, because what was never written may be no number
        self.keys, self.values = (
            states.new_zeros((shape[0], states.shape[1], shape[1], states.shape[-1])) for states in like
        )
        self.is_initialized = True

    def begin(self, slot: int, start: int, end: int, key_values: tuple[Tensor, Tensor]) -> None:
        """Fill the columns of a slot up to `end` with kept keys and values."""
        self._allocate(*key_values)
        for buffer, states in zip((self.keys, self.values), key_values, strict=True):
            buffer[slot, :, start:end] = states[0, :, : max(0, end - start)]

    def replace(self, slot: int, source: int) -> None:
        """Copy a slot into another one."""
        if self.is_initialized and slot != source:
            for buffer in (self.keys, self.values):
                buffer[slot] = buffer[source]

    def move(self, shape: tuple[int, int], slots: int, columns: slice, end: int) -> None:
        """Move what some slots and columns hold into larger buffers, so that it ends at a column."""
        if not self.is_initialized:
            return
        (rows, length), buffers = shape, (self.keys, self.values)
        self.keys, self.values = (
            buffer.new_zeros((rows, buffer.shape[1], length, buffer.shape[-1])) for buffer in buffers
        )
        target = slice(end - (columns.stop - columns.start), end)
        for source, destination in zip(buffers, (self.keys, self.values), strict=True):
            destination[:slots, :, target] = source[:slots, :, columns]
