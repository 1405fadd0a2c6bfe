"""Texts to token ids once, all together; batches of them to tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

IDS = "input_ids"
TYPES = "token_type_ids"


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokenised inputs: `fields["input_ids"][i]` are the ids of input i; `truncated` are the inputs that were cut."""

    fields: dict[str, list[Sequence[int]]]
    padding: int = 0
    truncated: frozenset[int] = field(default_factory=frozenset)

    @property
    def lengths(self) -> list[int]:
        """Tokens per input, special ones included."""
        return [len(ids) for ids in self.fields[IDS]]

    def tensors(self, rows: Sequence[int], device: Any) -> dict[str, Any]:
        """The rows as tensors (rows, longest), padded on the right, and their attention mask."""
        batch: dict[str, Any] = {}
        for name, values in self.fields.items():
            filler = self.padding if name == IDS else 0
            batch[name], batch["attention_mask"] = padded([values[row] for row in rows], filler, device)
        return batch


def padded(rows: Sequence[Sequence[int]], filler: int, device: Any) -> tuple[Any, Any]:
    """Numbers per token as a tensor (rows, longest), filled up on the right, and the mask of what is no filling."""
    import numpy as np
    import torch

    lengths = np.array([len(row) for row in rows])
    mask = np.arange(lengths.max()) < lengths[:, None]
    whole = np.full(mask.shape, filler, dtype=np.int64)
    whole[mask] = np.concatenate(rows)
    return torch.from_numpy(whole).to(device), torch.from_numpy(mask.astype(np.int64)).to(device)


def tokenize(tokenizer: Any, texts: Sequence[str], limit: int | None, seconds: Sequence[str] | None = None) -> Tokens:
    """Tokenise texts, or pairs of texts, cutting what is longer than `limit` tokens and saying which that was.

    Of a pair the longer text loses tokens first.
    """
    names = [name for name in (IDS, TYPES) if name == IDS or (seconds and name in tokenizer.model_input_names)]
    fields = _encode(tokenizer, names, texts, seconds)
    over = [index for index, ids in enumerate(fields[IDS]) if limit is not None and len(ids) > limit]
    if over:
        pairs = [seconds[index] for index in over] if seconds else None
        cut = _encode(tokenizer, names, [texts[index] for index in over], pairs, truncation=True, max_length=limit)
        for name in names:
            for index, values in zip(over, cut[name], strict=True):
                fields[name][index] = values
    return Tokens(fields, padding_of(tokenizer), frozenset(over))


def _encode(
    tokenizer: Any, names: list[str], texts: Sequence[str], seconds: Sequence[str] | None, **options: Any
) -> dict[str, list[Sequence[int]]]:
    encoded = tokenizer(
        list(texts),
        list(seconds) if seconds else None,
        return_attention_mask=False,
        return_token_type_ids=TYPES in names,
        verbose=False,
        **{"truncation": False, **options},
    )
    return {name: list(encoded[name]) for name in names}


def padding_of(tokenizer: Any) -> int:
    """The id to pad with; the mask hides it, so a tokenizer without one may pad with anything."""
    return 0 if tokenizer.pad_token_id is None else int(tokenizer.pad_token_id)
