"""Texts that a model reads: tokenized, and read in batches, with one result each.

On a CPU, all texts are tokenized first, so that they can be sorted by length. On an accelerator, a thread tokenizes
them in slices, those of the most characters first, while the device reads the slices before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Generic, TypeVar

from .batching import TokenBudget
from .overlapping import Fetch, Start, Started, on_device, run_steps
from .tokens import Tokens, padding_of, tokenize

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SLICE_TEXTS = 512  # enough for the threads of a tokenizer, few enough that the device starts soon

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ModelTexts:
    """Texts or pairs of texts to be tokenized, as `tokenize` does; one of more than `limit` tokens is truncated.

    With `skip_empty`, an input without a token is not read. A tokenizer that adds special tokens makes none.
    """

    tokenizer: PreTrainedTokenizerBase
    texts: Sequence[str]
    limit: int | None
    seconds: Sequence[str] | None = None
    skip_empty: bool = False

    def tokens(self, rows: Sequence[int]) -> Tokens:
        """Tokenize some of the inputs."""
        seconds = [self.seconds[row] for row in rows] if self.seconds else None
        return tokenize(self.tokenizer, [self.texts[row] for row in rows], self.limit, seconds)

    @property
    def characters(self) -> list[int]:
        """Characters per input."""
        return [len(first) + len(second) for first, second in zip(self.texts, self.seconds or repeat(""), strict=False)]


@dataclass(slots=True)
class Tokenizing:
    """Inputs that become tokens slice by slice, those of the most characters first; or all at once, in their order.

    Attributes:
        inputs: the texts.
        size: inputs per slice; None for all.
        tokens: the inputs that are tokenized so far.
        lengths: their numbers of tokens, 0 for the others.
        truncated: indexes of those that were too long.
    """

    inputs: ModelTexts
    size: int | None
    tokens: Tokens = field(init=False)
    lengths: list[int] = field(init=False)
    truncated: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.tokens = Tokens({}, padding_of(self.inputs.tokenizer))
        self.lengths = [0] * len(self.inputs.texts)

    def slices(self) -> Iterator[list[int]]:
        """Tokenize a slice at a time, and yield the indexes of its inputs that are read."""
        order = list(range(len(self.lengths)))
        if self.size is not None:
            order.sort(key=self.inputs.characters.__getitem__, reverse=True)
        size = self.size or max(1, len(order))
        for first in range(0, len(order), size):
            rows = order[first : first + size]
            self._tokenize(rows)
            yield [row for row in rows if self.lengths[row] or not self.inputs.skip_empty]

    def _tokenize(self, rows: list[int]) -> None:
        part = self.inputs.tokens(rows)
        for name, values in part.fields.items():
            column = self.tokens.fields.setdefault(name, [()] * len(self.lengths))
            for row, value in zip(rows, values, strict=True):
                column[row] = value
        for row, length in zip(rows, part.lengths, strict=True):
            self.lengths[row] = length
        self.truncated |= {rows[index] for index in part.truncated}


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """Results of inputs in their order, None for those that were not read; `truncated` are indexes of inputs."""

    values: list[T | None]
    truncated: frozenset[int]


def read_texts(
    inputs: ModelTexts,
    start: Start[Started],
    fetch: Fetch[Started, T],
    budget: TokenBudget,
    device: str,
    *,
    overlap: bool,
) -> Read[T]:
    """Tokenize texts and read them in batches.

    Args:
        inputs: the texts.
        start: starts the computation for a batch: input_ids, attention_mask … (rows, length), on the device, and the
            indexes of its inputs.
        fetch: waits for what was started and returns one result per input, given their indexes.
        budget: size of a batch.
        device: device of the model.
        overlap: whether texts are tokenized, read and fetched at the same time.

    Raises:
        ModelError: memory runs out and the budget cannot be halved.
    """
    tokenizing = Tokenizing(inputs, SLICE_TEXTS if overlap else None)
    steps = on_device(tokenizing.tokens.on_host, start, fetch, device)
    # The lengths are all known before the first batch only if nothing overlaps; an empty text takes some time, too.
    weights = [count + 1 for count in inputs.characters] if overlap else tokenizing.lengths
    values = run_steps(tokenizing.lengths, steps, budget, overlap=overlap, slices=tokenizing.slices(), weights=weights)
    return Read(values, frozenset(tokenizing.truncated))
