"""Greedy generation of a batch by a causal transformers model, whose rows leave the batch once their texts have ended.

transformers computes every row until the last one has ended, and one row that never ends keeps all others busy. Here,
generation pauses when half of the rows have ended, and goes on with the others and their keys and values. The rows that
remain get the tokens that they would have got (up to the rounding of floating-point numbers, which depends on the shape
of a batch in any case).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .engine.bodies import cache_argument

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import Cache, PreTrainedModel, PreTrainedTokenizerBase

LOOK_BACK = 2  # tokens more than the stop text has, since it may have been written with other tokens (as in lm-eval)
ROWS = 4  # a batch of fewer rows is not divided
UNPAUSED = (  # options of a generation config that refer to the prompt, which a pause changes, or stop rows themselves
    "max_new_tokens",
    "min_new_tokens",
    "max_time",
    "stop_strings",
    "begin_suppress_tokens",
    "exponential_decay_length_penalty",
    "prompt_lookup_num_tokens",
    "guidance_scale",
    "watermarking_config",
)


@dataclass(slots=True)
class Ending:
    """The ends of the texts of a batch: a token that ends texts, or a stop text.

    It is a stopping criterion of transformers, called after every token. It stops each row at its end, and all rows
    when `patience` of them have ended.

    Attributes:
        writer: what ends a text, and who hears of it.
        begin: number of tokens before the written ones.
        ended: for each row, whether it has ended.
        patience: number of ended rows that stops the batch.
    """

    writer: GreedyWriter
    begin: int
    ended: list[bool]
    patience: int

    def __call__(self, input_ids: Tensor, _scores: object, **_: object) -> Tensor:
        """Return for each row whether it has to stop."""
        import torch

        writer = self.writer
        last = input_ids[:, max(self.begin, input_ids.shape[1] - writer.look_back) :].tolist()
        texts = writer.tokenizer.batch_decode(last) if writer.stop else [""] * len(last)
        now = [
            before or ids[-1] in writer.final or any(one in text for one in writer.stop)
            for before, ids, text in zip(self.ended, last, texts, strict=True)
        ]
        writer.report(sum(now) - sum(self.ended))
        self.ended = now
        stopped = [True] * len(now) if sum(now) >= self.patience else now
        return torch.tensor(stopped, device=input_ids.device)


@dataclass(frozen=True)
class GreedyWriter:
    """Continues prompts by the likeliest token, up to the first stop text.

    Attributes:
        model: causal model.
        tokenizer: its tokenizer.
        stop: texts that end a text.
        on_end: function that is called with the number of texts that have just ended, or None.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    stop: Sequence[str]
    on_end: Callable[[int], None] | None = None

    @property
    def can_pause(self) -> bool:
        """True if the model's own generation config lets generation pause and go on."""
        own = self.model.generation_config
        return (own.num_beams or 1) == 1 and not any(getattr(own, name, None) for name in UNPAUSED)

    @cached_property
    def final(self) -> frozenset[int]:
        """The ids of the tokens that end a text according to the model's generation config."""
        known = self.model.generation_config.eos_token_id
        return frozenset(() if known is None else known if isinstance(known, list) else [known])

    @cached_property
    def look_back(self) -> int:
        """Number of the last tokens in which a stop text is looked for."""
        lengths = (len(self.tokenizer.encode(text, add_special_tokens=False)) for text in self.stop)
        return max(lengths, default=0) + LOOK_BACK

    def report(self, ended: int) -> None:
        """Report that further texts have ended."""
        if ended and self.on_end is not None:
            self.on_end(ended)

    def write(self, context: Tensor, mask: Tensor, max_length: int) -> Tensor:
        """Return prompts, padded on the left, with the texts that continue them, padded on the right.

        Args:
            context: token ids of the prompts, shape (rows, columns).
            mask: 1 for tokens, 0 for padding, of the same shape.
            max_length: most columns of the result.

        Returns:
            Token ids, shape (rows, columns). There may be tokens after a stop text.
        """
        import torch

        done = torch.full((len(context), max_length), self.tokenizer.pad_token_id).to(context)
        rows = torch.arange(len(context), device=context.device)
        ids, cache = context, None
        while True:
            half = (len(ids) + 1) // 2 if len(ids) >= ROWS else len(ids)
            ending = Ending(self, context.shape[1], [False] * len(ids), half)
            written = self._written(ids, mask, max_length, ending, cache)
            ids = written.sequences
            done[rows, : ids.shape[1]] = ids
            going_on = ~torch.tensor(ending.ended, device=ids.device)
            if ids.shape[1] >= max_length or not going_on.any():
                self.report(int(going_on.sum()))
                return done[:, : ids.shape[1]]
            mask = torch.cat([mask, mask.new_ones(len(mask), ids.shape[1] - mask.shape[1])], 1)[going_on]
            rows, ids = rows[going_on], ids[going_on]
            cache = written.get(cache_argument(self.model))
            if can_select(cache):
                cache.batch_select_indices(going_on.nonzero()[:, 0])
            else:  # what was written is read again
                cache = None

    def _written(self, ids: Tensor, mask: Tensor, max_length: int, ending: Ending, cache: Cache | None) -> Any:
        from transformers import StoppingCriteriaList

        return self.model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_length=max_length,
            do_sample=False,
            use_cache=True,
            pad_token_id=self.tokenizer.pad_token_id,
            stopping_criteria=StoppingCriteriaList([ending]),
            return_dict_in_generate=True,
            **({} if cache is None else {cache_argument(self.model): cache}),
        )


def can_select(cache: Any) -> bool:
    """Return whether rows of a cache can be kept alone; state-space models have caches, or layers, of another kind."""
    layers = getattr(cache, "layers", ())
    return bool(layers) and all(hasattr(layer, "batch_select_indices") for layer in layers)
