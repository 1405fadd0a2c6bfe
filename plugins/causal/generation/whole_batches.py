"""Generation by transformers' own loop, for models whose caches cannot lose or gain rows, and for unusual decoding.

State-space models and hybrids have caches of their own kind, and beam search has one row per beam. Rows that have ended
stay in the batch until all have. On an accelerator, it is also one of the `ways` that are tried on other models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from figeval.errors import ModelError
from figeval.types import JSON

from ...torch_models.batching import TokenBudget, finished_batches
from ...torch_models.faults import one_line
from ...torch_models.tokens import pad
from ..engine.bodies import cache_argument
from .attention import grouped_attention
from .row import Row
from .sampling import DrawProcessor

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache


# Options of a generation config that force or forbid tokens, which may leave none that a format allows: checkpoints of
# BART begin and end every text with a certain token, and those for summaries write no three words twice.
FORCING_OPTIONS = (
    *("bad_words_ids", "begin_suppress_tokens", "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty"),
    *("forced_bos_token_id", "forced_eos_token_id", "min_length", "min_new_tokens", "no_repeat_ngram_size"),
    *("sequence_bias", "suppress_tokens"),
)


@dataclass(slots=True)
class WholeBatches:
    """A writer of texts with any causal transformers model.

    Attributes:
        model: the model.
        writing: budget of a batch: rows x tokens of the longest row, with those that may follow.
        padding: id of the token that fills rows up.
        reason: why rows stay until the end of a batch.
        autocast: lower precision of the passes, if it is not that of the weights.
        grouped: whether attention is computed by groups (see `attention`).
        fixed: rows and columns of every batch, with the cache that holds them; None for batches of any shape.
    """

    model: PreTrainedModel
    writing: TokenBudget
    padding: int
    reason: str
    autocast: torch.dtype | None = None
    grouped: bool = False
    fixed: FixedShape | None = None

    def write(self, rows: Sequence[Row]) -> Iterator[Row]:
        """Continue rows up to their ends, and yield those of a batch when all of them have ended.

        Raises:
            ModelError: memory runs out and the batch cannot be halved.
        """
        costs = [len(row.prompt) + row.max_tokens for row in rows]
        for _, batch in finished_batches(costs, partial(self._write_batch, rows), self.writing):
            yield from batch

    def scores(self, rows: Sequence[Row], script: Sequence[int]) -> Tensor:
        """Return log-probabilities of the next tokens, (rows, tokens, vocabulary), while all rows write a script."""
        import torch
        from transformers import LogitsProcessorList

        inputs = self._inputs(rows)
        with self._context():
            output = self.model.generate(
                **inputs,
                min_new_tokens=len(script),
                max_new_tokens=len(script),
                do_sample=False,
                num_beams=1,
                num_return_sequences=1,
                pad_token_id=self.padding,
                output_logits=True,
                logits_processor=LogitsProcessorList([ScriptProcessor(script, inputs["input_ids"].shape[1])]),
                return_dict_in_generate=True,
            )
        return torch.stack(output.logits, 1).float().log_softmax(-1)

    def _write_batch(self, texts: Sequence[Row], indices: list[int]) -> list[Row]:
        from transformers import LogitsProcessorList, StoppingCriteriaList

        batch = [texts[index] for index in indices]
        for row in batch:  # an earlier attempt may have run out of memory
            row.restart()
        rows = batch if self.fixed is None else self.fixed.fill_up(batch)
        model = self.model
        inputs = self._inputs(rows)
        columns = 1 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
        has_formats = any(row.format is not None for row in rows)
        is_sampled = any(row.draws is not None for row in rows)
        processors: list[FormatProcessor | DrawProcessor] = [FormatProcessor(rows)] if has_formats else []
        processors += [DrawProcessor([row.draws for row in rows], columns)] if is_sampled else []
        # There is one row per beam, and the best of them is known at the end only.
        beams = not processors and (model.generation_config.num_beams or 1) > 1
        # A beam would need a format of its own, and draws.
        overrides: JSON = {"num_beams": 1} if processors else {}
        overrides |= dict.fromkeys(FORCING_OPTIONS) if has_formats else {}
        with self._context(), config_errors():
            output_ids = model.generate(
                **inputs,
                **({} if self.fixed is None else self.fixed.cache_of(model)),
                max_new_tokens=max(row.max_tokens for row in rows),
                do_sample=False,
                num_return_sequences=1,
                use_cache=True,
                pad_token_id=self.padding,
                stopping_criteria=StoppingCriteriaList([] if beams else [RowListener(rows)]),
                logits_processor=LogitsProcessorList(processors),
                **overrides,
            )
        if beams:
            for tokens in output_ids[:, columns:].T.tolist():
                take(rows, tokens)
        for row in rows:
            row.finish = row.finish or "length"  # cut off by the model's own generation config
        return batch

    @contextmanager
    def _context(self) -> Iterator[None]:
        """Enter the context of a pass: its precision and its attention, and no gradients."""
        import torch

        autocast = torch.autocast(self.model.device.type, self.autocast, enabled=self.autocast is not None)
        no_gradients = torch.no_grad() if self.fixed else torch.inference_mode()  # as transformers compiles a pass
        with no_gradients, autocast, grouped_attention(self.model, on=self.grouped):
            yield

    def _inputs(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        """Return the prompts, padded on the left unless a decoder of its own continues them."""
        device = str(self.model.device)
        if self.model.config.is_encoder_decoder:
            ids, mask = pad([row.prompt for row in rows], self.padding, device)
            return {"input_ids": ids, "attention_mask": mask}
        ids, mask = pad([row.prompt[::-1] for row in rows], self.padding, device)
        return {"input_ids": ids.flip(1), "attention_mask": mask.flip(1)}

    def describe(self) -> JSON:
        """Return the budget, and why no row leaves its batch."""
        return {"rows": "stay until all have ended", "because": self.reason, **self.writing.describe()}


@dataclass(slots=True)
class FixedShape:
    """Batches of one shape, which a pass that was compiled for it can read.

    Attributes:
        rows: number of rows of a batch; missing ones are filled up.
        read: most tokens of a prompt; prompts are padded to the longest one, and texts follow after it.
        written: most tokens of a text.
    """

    rows: int
    read: int
    written: int
    _cache: Cache | None = None

    def fits(self, row: Row) -> bool:
        """Return whether neither the prompt nor the text of a row is too long."""
        return len(row.prompt) <= self.read and row.max_tokens <= self.written

    def fill_up(self, rows: Sequence[Row]) -> list[Row]:
        """Return rows with others that fill the batch up: they end after a token, and nobody reads them."""
        spare = [Row(rows[-1].prompt[-1:], 1, replace(rows[-1].end, stop=())) for _ in range(self.rows - len(rows))]
        return [*rows, *spare]

    def cache_of(self, model: PreTrainedModel) -> JSON:
        """Return the empty cache as an argument of `generate`. Its addresses are compiled, so it stays the same."""
        from transformers import StaticCache

        if self._cache is None:
            config = model.config.get_text_config(decoder=True)
            self._cache = StaticCache(config=config, max_cache_len=self.read + self.written)
        self._cache.reset()
        return {cache_argument(model): self._cache}


@dataclass(frozen=True, slots=True)
class RowListener:
    """A stopping criterion of transformers that passes every token on to its row, and stops rows that have ended."""

    rows: Sequence[Row]

    def __call__(self, input_ids: Tensor, _scores: object, **_: object) -> Tensor:
        """Return for each row whether it has ended."""
        import torch

        take(self.rows, input_ids[:, -1].tolist())
        return torch.tensor([row.finish is not None for row in self.rows], device=input_ids.device)


@dataclass(frozen=True, slots=True)
class FormatProcessor:
    """A logits processor of transformers that holds rows to the formats of their answers."""

    rows: Sequence[Row]

    def __call__(self, _input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return scores with −∞ for tokens that may not follow."""
        import torch

        pairs = zip(self.rows, scores.split(1), strict=True)
        return torch.cat(
            [row_scores if row.finish is not None else row.mask_scores(row_scores) for row, row_scores in pairs]
        )


@dataclass(frozen=True, slots=True)
class ScriptProcessor:
    """A logits processor of transformers that lets all rows write the same tokens, after `columns` of prompt."""

    script: Sequence[int]
    columns: int

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return scores of which the next token of the script has the highest."""
        return force_token(self.script[input_ids.shape[1] - self.columns], scores)


def force_token(token: int, scores: Tensor) -> Tensor:
    """Return scores (rows, vocabulary) of which a token has the highest."""
    forced = scores.new_full(scores.shape, float("-inf"))
    forced[:, token] = 0
    return forced


@contextmanager
def config_errors() -> Iterator[None]:
    """Turn what transformers says of a generation config that it cannot follow into a `ModelError`."""
    try:
        yield
    except ValueError as error:
        raise ModelError(
            f"transformers cannot write texts as generation_config.json says: {one_line(error)}; correct that file"
        ) from error


def take(rows: Sequence[Row], tokens: Sequence[int]) -> None:
    """Continue each row that has not ended by its token."""
    for row, token in zip(rows, tokens, strict=True):
        if row.finish is None:
            row.take(token)
