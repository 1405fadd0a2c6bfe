"""The loop that writes texts: waiting prompts join a batch, each pass writes a token of every row, ended rows leave.

Prompts are read in small batches, and after each of them the rows that are there already write a token; the first texts
are therefore finished early. What prompts begin with in common is read once. A row of the batch sees what it would see
alone: padding is masked, and positions in the text are counted from the row's own first token.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from figeval.io.observer import report_share
from figeval.models.devices import is_exhausted, release_memory
from figeval.types import JSON

from ...torch_models.batching import TokenBudget
from ..engine.bodies import KeyValues, arguments_of, cache_argument, growing_cache
from .attention import grouped_attention
from .prefixes import Beginning, by_beginning, shared_prompt_length
from .row import Row
from .row_cache import RowCache
from .sampling import choose_tokens

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache

ROWS_PER_JOIN = 8  # rows join a batch when they are at least one in this many of its rows


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A row that is not in the batch, and the beginning that it shares with others."""

    row: Row
    beginning: Beginning | None


@dataclass(slots=True)
class Decoder:
    """A writer of texts with a causal transformers model whose rows may come and go (see `self_test`).

    Attributes:
        model: the model.
        reading: budget of the batches in which prompts are read, in tokens.
        writing: budget of the batch that is written: rows x tokens of the longest row, with those that may follow.
        processors: function of a row's tokens, (1, tokens), and the scores of the next one, (1, vocabulary), that
            returns the scores to use instead; None for the scores as they are.
        refill: whether prompts join before all rows of the batch have ended.
        autocast: lower precision of the passes, if it is not that of the weights.
        grouped: whether attention is computed by groups (see `attention`).
    """

    model: PreTrainedModel
    reading: TokenBudget
    writing: TokenBudget
    processors: Callable[[Tensor, Tensor], Tensor] | None = None
    refill: bool = True
    autocast: torch.dtype | None = None
    grouped: bool = False
    _key_values: dict[Beginning, KeyValues] = field(default_factory=dict)  # of the last beginning, and its parents

    def write(self, rows: Sequence[Row]) -> Iterator[Row]:
        """Continue rows up to their ends, and yield each as soon as it has ended.

        Raises:
            ModelError: memory runs out and the batch cannot be halved.
        """
        pairs = by_beginning([row.prompt for row in rows])
        return self.continue_rows(deque(WaitingRow(rows[index], beginning) for index, beginning in pairs))

    def continue_rows(self, waiting: deque[WaitingRow]) -> Iterator[Row]:
        """Continue rows like `write`; those with the same beginning are neighbours."""
        batch = Batch(self)
        half = 0.5 / max(1, len(waiting))  # of a row's progress: reading its prompt, and writing its text
        while waiting or batch.rows:
            for part in (partial(batch.join, waiting), batch.step):  # what the first has ended survives the second
                unread = len(waiting)
                rows = self._attempt(part)
                if rows is None:
                    batch = self._retreat(batch, waiting)
                    break
                if count := unread - len(waiting) + len(rows):
                    report_share(half * count)
                yield from rows

    def _attempt(self, part: Callable[[], list[Row]]) -> list[Row] | None:
        """Return the rows that a part of a pass has ended, or None if memory ran out.

        The caller acts on None outside of the handler, whose traceback keeps the tensors of the pass alive.
        """
        import torch

        try:
            with torch.inference_mode():
                return part()
        except (RuntimeError, MemoryError) as error:
            if not is_exhausted(error):
                raise
        return None

    def _retreat(self, batch: Batch, waiting: deque[WaitingRow]) -> Batch:
        """Halve the batch that did not fit: all of its rows wait again, with what they have written."""
        rows = [*batch.rows, *batch.joining]
        longest = max(len(member.row.prompt) + member.row.max_tokens for member in rows)
        waiting.extendleft(reversed(batch.rows))
        self.writing.halve(len(rows), longest)
        self.reading.tokens = max(1, self.reading.tokens // 2)
        self._key_values.clear()
        release_memory()
        return Batch(self)

    def keys_of(self, beginning: Beginning | None) -> KeyValues:
        """Return the keys and values of a shared beginning, which is read if it is not the one that was read last."""
        if beginning is None:
            return []
        if beginning not in self._key_values:
            past = self.keys_of(beginning.parent) if beginning.parent is not None else self._recall(beginning)
            cache = growing_cache(past)
            self._read_on(beginning, past[0][0].shape[-2] if past else 0, cache)
            path = {parent: key_values for parent, key_values in self._key_values.items() if parent.leads_to(beginning)}
            self._key_values = {**path, beginning: [(layer.keys, layer.values) for layer in cache.layers]}
        return self._key_values[beginning]

    def _recall(self, beginning: Beginning) -> KeyValues:
        """Return what is known of a beginning from the one that was read last, such as that of an earlier call."""
        for previous, key_values in self._key_values.items():
            if previous.parent is None:
                length = min(shared_prompt_length(previous.ids, beginning.ids), len(beginning.ids) - 1)
                return (
                    [(keys[..., :length, :], values[..., :length, :]) for keys, values in key_values] if length else []
                )
        return []

    def _read_on(self, beginning: Beginning, start: int, cache: Cache) -> None:
        import torch

        ids = torch.tensor([beginning.ids], device=self.model.device)
        self.scores(ids[:, start:], torch.ones_like(ids), torch.arange(ids.shape[1], device=ids.device)[None], cache)

    def scores(self, ids: Tensor, mask: Tensor, positions: Tensor, cache: Cache) -> Tensor:
        """Return the scores of the next token of each row, (rows, vocabulary), in single precision or better.

        Args:
            ids: tokens to read, (rows, columns).
            mask: 1 for tokens and 0 for padding, of those in the cache and those to read.
            positions: number of tokens before each of them in its text, of the same shape.
            cache: keys and values of the tokens before; it is continued.
        """
        import torch

        arguments = arguments_of(type(self.model).forward)
        inputs: JSON = {"input_ids": ids, "attention_mask": mask, cache_argument(self.model): cache, "use_cache": True}
        if "position_ids" in arguments:
            inputs["position_ids"] = positions[:, -ids.shape[1] :]
        if "logits_to_keep" in arguments:
            inputs["logits_to_keep"] = 1
        autocast = torch.autocast(ids.device.type, self.autocast, enabled=self.autocast is not None)
        with autocast, grouped_attention(self.model, on=self.grouped):
            return self.model(**inputs).logits[:, -1].float()

    def describe(self) -> JSON:
        """Return the budget, and how rows are written."""
        return {"rows": "come and go", **self.writing.describe()}


class Batch:
    """The rows that are being written, and their keys and values."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.rows: list[WaitingRow] = []  # in the order of the cache's slots
        self.joining: list[WaitingRow] = []  # rows that are being read; they still wait
        config = decoder.model.config.get_text_config(decoder=True)
        self.cache = RowCache(config.num_hidden_layers)

    def join(self, waiting: deque[WaitingRow]) -> list[Row]:
        """Read some of the prompts that wait, if there is room for them, and return the rows that have ended by that.

        They are those that have the beginning of the first one and fit into a batch for reading.
        """
        room = self._room(waiting)
        if room < max(1, len(self.rows) // ROWS_PER_JOIN) or (self.rows and not self.decoder.refill):
            return []
        beginning = waiting[0].beginning
        start = 0 if beginning is None else len(beginning.ids)
        self.joining = []
        joining = self.joining
        unread = 1  # columns that are read; a text of the beginning alone reads its last token
        for candidate in list(waiting)[:room]:
            columns = max(unread, len(candidate.row.ids) - start)
            if candidate.beginning is not beginning or (
                joining and len(joining) >= self.decoder.reading.fitting(columns)
            ):
                break
            joining.append(candidate)
            unread = columns
        self.cache.reserve(len(self.rows) + room, max(len(candidate.row.ids) for candidate in joining))
        scores = self._read(joining, beginning, unread)
        for _ in joining:
            waiting.popleft()
        self.rows, self.joining = [*self.rows, *joining], []
        return self._take(len(self.rows) - len(joining), scores)

    def _room(self, waiting: deque[WaitingRow]) -> int:
        """Return the number of waiting rows that may join; at least 1 if the batch is empty."""
        budget, width = self.decoder.writing, self.cache.width
        remaining = max((member.row.remaining for member in self.rows), default=0)
        count = 0
        for candidate in waiting:
            width, remaining = max(width, len(candidate.row.ids)), max(remaining, candidate.row.remaining)
            if len(self.rows) + count >= budget.fitting(width + remaining):
                break
            count += 1
        return count

    def _read(self, joining: Sequence[WaitingRow], beginning: Beginning | None, unread: int) -> Tensor:
        import torch

        key_values = self.decoder.keys_of(beginning)
        texts = [candidate.row.ids for candidate in joining]
        self.cache.join(key_values, list(map(len, texts)), unread)
        rows = [[0] * (unread - len(ids)) + ids[-unread:] for ids in texts]
        return self._scores(torch.tensor(rows, device=self.decoder.model.device))

    def step(self) -> list[Row]:
        """Write a token of every row, and return the rows that have ended."""
        import torch

        if not self.rows:
            return []
        self.cache.extend()
        last_tokens = [[member.row.written[-1]] for member in self.rows]
        return self._take(0, self._scores(torch.tensor(last_tokens, device=self.decoder.model.device)))

    def _scores(self, ids: Tensor) -> Tensor:
        return self.decoder.scores(ids, *self.cache.positions(ids.device), self.cache.cache)

    def _take(self, first: int, scores: Tensor) -> list[Row]:
        """Continue the rows from `first` on by a token each; those that have ended leave and are returned."""
        import torch

        rows = [member.row for member in self.rows[first:]]
        if self.decoder.processors or any(row.format is not None for row in rows):
            scores = torch.cat(
                [self._adjust_scores(row, row_scores) for row, row_scores in zip(rows, scores.split(1), strict=True)]
            )
        tokens = choose_tokens(scores, [row.draws for row in rows], [len(row.written) for row in rows])
        for row, token in zip(rows, tokens.tolist(), strict=True):
            row.take(token)
        for slot in reversed(range(first, len(self.rows))):
            if self.rows[slot].row.finish is not None:
                self.cache.leave(slot)
                self.rows[slot] = self.rows[-1]
                self.rows.pop()
        return [row for row in rows if row.finish is not None]

    def _adjust_scores(self, row: Row, scores: Tensor) -> Tensor:
        """Return the scores of a row's next token, (1, vocabulary), with what its format and the decoder change."""
        import torch

        if not self.decoder.processors:
            return row.mask_scores(scores)
        adjusted = row.mask_scores(self.decoder.processors(torch.tensor([row.ids], device=scores.device), scores))
        return adjusted if adjusted.isfinite().any() else row.mask_scores(scores)  # or all that may follow is forbidden
