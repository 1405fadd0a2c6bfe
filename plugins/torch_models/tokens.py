"""Tokenized texts: truncated to the model's limit, or split into overlapping windows.

`tokenize` truncates texts that are too long and reports it. `passages` splits a long text into several inputs, each
overlapping its neighbour by half, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from figeval.errors import ModelError

from .rows import MASK, with_lengths

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

IDS = "input_ids"
TYPES = "token_type_ids"
Floats: TypeAlias = "NDArray[np.float32 | np.float64]"  # outputs of a model
MIN_WINDOW_TOKENS = 16  # least number of tokens of a longer text that a window must hold


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokenized inputs: `fields["input_ids"][i]` are the ids of input i; `truncated` are indexes of inputs."""

    fields: dict[str, list[Sequence[int]]]
    padding: int = 0
    truncated: frozenset[int] = field(default_factory=frozenset)

    @property
    def lengths(self) -> list[int]:
        """Tokens per input, including special ones."""
        return [len(ids) for ids in self.fields[IDS]]

    def on_host(self, rows: Sequence[int]) -> dict[str, Tensor]:
        """Return the rows as tensors on the CPU, as `tensors` does."""
        return self.tensors(rows, "cpu")

    def tensors(self, rows: Sequence[int], device: torch.device | str) -> dict[str, Tensor]:
        """Return the rows as tensors (rows, longest), padded on the right, with their attention mask."""
        batch: dict[str, Tensor] = {}
        for name, values in self.fields.items():
            filler = self.padding if name == IDS else 0
            batch[name], batch[MASK] = pad([values[row] for row in rows], filler, device)
        return batch


def pad(rows: Sequence[Sequence[int]], filler: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Return token values as a tensor (rows, longest), padded on the right, and the mask of non-padding values."""
    import numpy as np
    import torch

    lengths = np.array([len(row) for row in rows])
    mask = np.arange(lengths.max()) < lengths[:, None]
    values = np.full(mask.shape, filler, dtype=np.int64)
    values[mask] = np.concatenate(rows)
    on_device = torch.from_numpy(mask.astype(np.int64)).to(device)
    return torch.from_numpy(values).to(device), with_lengths(on_device, lengths.tolist())


def tokenize(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], limit: int | None, seconds: Sequence[str] | None = None
) -> Tokens:
    """Tokenize texts or pairs of texts, truncating and reporting those longer than `limit` tokens.

    In a pair, the longer text loses tokens first.
    """
    names = [name for name in (IDS, TYPES) if name == IDS or (seconds and name in tokenizer.model_input_names)]
    fields = _encode(tokenizer, names, texts, seconds)
    long_rows = [index for index, ids in enumerate(fields[IDS]) if limit is not None and len(ids) > limit]
    if long_rows:
        pairs = [seconds[index] for index in long_rows] if seconds else None
        long_texts = [texts[index] for index in long_rows]
        truncated = _encode(tokenizer, names, long_texts, pairs, truncation=True, max_length=limit)
        for name in names:
            for index, values in zip(long_rows, truncated[name], strict=True):
                fields[name][index] = values
    return Tokens(fields, padding_of(tokenizer), frozenset(long_rows))


def _encode(
    tokenizer: PreTrainedTokenizerBase,
    names: list[str],
    texts: Sequence[str],
    seconds: Sequence[str] | None,
    **options: bool | int | None,
) -> dict[str, list[Sequence[int]]]:
    encoding = tokenizer(
        list(texts),
        list(seconds) if seconds else None,
        return_attention_mask=False,
        return_token_type_ids=TYPES in names,
        verbose=False,
        **{"truncation": False, **options},
    )
    return {name: list(encoding[name]) for name in names}


def bare_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """Return texts as token ids without special tokens."""
    return list(tokenizer(list(texts), add_special_tokens=False, verbose=False)[IDS])


def padding_of(tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the padding id; any id will do for a tokenizer without one, because padding is masked."""
    return 0 if tokenizer.pad_token_id is None else int(tokenizer.pad_token_id)


# ---- long texts in windows -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TokenWindow:
    """One input: `count` tokens of the text `owner` from its token `first` on, at position `at` of the input."""

    owner: int
    at: int
    first: int
    count: int

    @property
    def token_slice(self) -> slice:
        """Slice of the text's tokens that the window shows."""
        return slice(self.first, self.first + self.count)


@dataclass(frozen=True, slots=True)
class Passages:
    """Texts as inputs of a model: input w is `windows[w]`; `offsets[i]` are the characters of the tokens of text i."""

    tokens: Tokens
    windows: list[TokenWindow]
    offsets: list[list[tuple[int, int]]]

    def crop(self, outputs: Floats, rows: Sequence[int]) -> list[Floats]:
        """Return the outputs for tokens of the text, (count, k) each, from those of inputs (rows, length, k)."""
        windows = [self.windows[row] for row in rows]
        return [output[w.at : w.at + w.count] for w, output in zip(windows, outputs, strict=True)]

    def join(self, outputs_by_window: Sequence[Floats]) -> list[Floats]:
        """Return per text the outputs for all its tokens, shape (tokens, k), joined from those of its windows.

        A token in several windows takes the output of the one with the most context on its shorter side, as in the
        SQuAD code of BERT (Devlin et al. 2019). So every token has one output, and a long text is searched as a whole.
        """
        import numpy as np

        width = outputs_by_window[0].shape[1] if outputs_by_window else 0
        outputs_by_text: list[Floats] = [np.empty((len(offsets), width)) for offsets in self.offsets]
        context = [np.full(len(offsets), -1) for offsets in self.offsets]
        for window, output in zip(self.windows, outputs_by_window, strict=True):
            order = np.arange(window.count)
            around = np.minimum(order, order[::-1])
            better = np.flatnonzero(around > context[window.owner][window.token_slice])
            outputs_by_text[window.owner][window.first + better] = output[better]
            context[window.owner][window.first + better] = around[better]
        return outputs_by_text


class NoRoom(ModelError):
    """An input has no room for its text beside what must not be cut."""


def passages(
    tokenizer: PreTrainedTokenizerBase, sides: Sequence[Sequence[str]], side: int, limit: int | None
) -> Passages:
    """Tokenize texts into inputs of at most `limit` tokens: alone, or as side 0 or 1 of pairs of texts.

    `sides` holds one list of texts, or two of the same length. Texts of `sides[side]` are split into windows if they
    are too long; their partners on the other side are repeated in every window.

    Raises:
        NoRoom: the other side leaves no room.
    """
    names = [name for name in (IDS, TYPES) if name == IDS or (len(sides) > 1 and name in tokenizer.model_input_names)]
    encoding = tokenizer(
        *map(list, sides),
        truncation=False,
        return_offsets_mapping=True,
        return_attention_mask=False,
        return_token_type_ids=TYPES in names,
        verbose=False,
    )
    fields: dict[str, list[Sequence[int]]] = {name: [] for name in names}
    windows: list[TokenWindow] = []
    offsets_by_text: list[list[tuple[int, int]]] = []
    for owner, offsets in enumerate(encoding["offset_mapping"]):
        positions = [position for position, sequence in enumerate(encoding.sequence_ids(owner)) if sequence == side]
        offsets_by_text.append([tuple(offsets[position]) for position in positions])
        for window in _windows(owner, positions, len(offsets) - len(positions), limit):
            windows.append(window)
            for name in names:
                fields[name].append(_cut_to_window(encoding[name][owner], window, positions))
    return Passages(Tokens(fields, padding_of(tokenizer)), windows, offsets_by_text)


def _windows(owner: int, positions: Sequence[int], other_count: int, limit: int | None) -> Iterator[TokenWindow]:
    """Yield the windows of one text, whose tokens are at `positions`, next to `other_count` other tokens.

    Neighbours overlap by half: any stretch of up to half a window is complete in one of them, with some context.
    """
    n = len(positions)
    room = n if limit is None else min(n, limit - other_count)
    if room < min(n, MIN_WINDOW_TOKENS):
        raise NoRoom(
            f"an input has {other_count} tokens beside its text, which leaves room for {max(0, room)} of the {n} of "
            f"the text in max_length={limit}; increase it, or use a model with a higher limit"
        )
    if n:
        for first in (*range(0, n - room, room - room // 2), n - room):
            yield TokenWindow(owner, positions[0], first, room)


def _cut_to_window(row: Sequence[int], window: TokenWindow, positions: Sequence[int]) -> Sequence[int]:
    text = row[positions[0] : positions[-1] + 1]
    return [*row[: positions[0]], *text[window.token_slice], *row[positions[-1] + 1 :]]
