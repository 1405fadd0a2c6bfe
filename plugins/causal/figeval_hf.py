"""lm-eval's `hf` with the packed engine and our generation: the model `figeval-hf`.

Loading, tokenization and chat templates are lm-eval's; our engine computes the log-likelihoods and the greedy texts,
which are the same. This module imports lm-eval, so it is imported only when a model is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

import torch
from lm_eval.models.huggingface import HFLM
from tqdm import tqdm

from figeval.io.observer import within

from ..torch_models.batching import TokenBudget
from ..torch_models.checkpoint import Checkpoint
from ..torch_models.loading import check_weights
from ..torch_models.merging import load_weights
from ..torch_models.tokens import pad
from .engine.encoder_decoder import EncoderDecoder
from .engine.packed import Answer, PackedEngine
from .engine.self_test import settle
from .generation.fastest import fastest_writer
from .generation.row import End, Row
from .generation.self_test import writer_for
from .generation.ways import Writer
from .lm_eval_requests import Ids, encode_pairs, fit_request
from .prompting import final_tokens
from .strategies import check_strategies

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from torch import Tensor
    from transformers import PreTrainedModel
    from transformers.models.auto.auto_factory import _BaseAutoModelClass

MASK = "attention_mask"
REQUESTS_PER_PART = 4_096  # requests at a time: shows progress and bounds memory
Encoded = tuple[tuple[str, str] | None, Ids, Ids]  # texts, context, continuation


class FigevalHF(HFLM):  # type: ignore[misc]
    """`hf` of lm-eval, several times faster if continuations share a context.

    Batches of log-likelihoods are sized by memory, regardless of `batch_size`; generation uses `batch_size`.
    """

    budget: TokenBudget | None = None  # figeval's own backend shares its budgets
    writing: TokenBudget | None = None

    def __init__(
        self,
        *arguments: object,
        scoring: str = "auto",
        writing: str = "auto",
        checkpoint: Checkpoint | None = None,
        **options: object,
    ) -> None:
        """Load a model as lm-eval does.

        Args:
            *arguments: those of `HFLM`.
            scoring: how texts are read to be scored (see `engine.self_test.settle`).
            writing: the way in which texts are written (see `generation.fastest`).
            checkpoint: the checkpoint of figeval's own backend, whose adapter is merged into the model.
            **options: those of `HFLM`.

        Raises:
            ModelError: `scoring` or `writing` is no such word, or the checkpoint does not match its config.
        """
        check_strategies(scoring, writing)
        self.scoring, self.way, self.checkpoint = scoring, writing, checkpoint
        super().__init__(*arguments, **options)

    @cached_property
    def engine(self) -> PackedEngine | EncoderDecoder:
        """Engine that computes log-likelihoods; it tests itself on first use.

        Raises:
            ModelError: `scoring` is "packed", and the architecture reads trees differently from rows.
        """
        budget = self.budget or TokenBudget.on(self.device.type)
        if self.backend == "seq2seq":
            return EncoderDecoder(self.model, self.device, budget)
        with within(None):  # its test is no progress of the call
            return settle(PackedEngine(self.model, self.device, budget), self.scoring)

    @cached_property
    def writer(self) -> Writer:
        """Writer of greedy texts; it tests itself on first use."""
        budget, padding = self.writing or TokenBudget.for_writing(self.device.type), self.tokenizer.pad_token_id
        with within(None):
            writer = writer_for(self.model, padding, budget, self.mixed_precision_dtype)
        return fastest_writer(writer, padding, self.way)

    @property
    def final(self) -> frozenset[int]:
        """Ids of the tokens that end a text."""
        return final_tokens(self.model.generation_config.eos_token_id, self.tokenizer)

    def write(self, rows: Sequence[Row]) -> Iterator[Row]:
        """Continue rows greedily up to their ends, and yield each when it has ended.

        Raises:
            ModelError: memory runs out and the batch cannot be halved, or transformers cannot follow the model's
                generation config.
        """
        if self.stops:
            for row in rows:
                row.end = replace(row.end, stop=(*row.end.stop, *self.stops))
        yield from self.writer.write(rows)

    @cached_property
    def stops(self) -> tuple[str, ...]:
        """Stop texts of the generation config; rows look for them, since transformers would need the tokenizer."""
        stop_strings = getattr(self.model.generation_config, "stop_strings", None) or ()
        self.model.generation_config.stop_strings = None
        return (stop_strings,) if isinstance(stop_strings, str) else tuple(stop_strings)

    def _create_model(self, *arguments: object, **options: object) -> None:
        """Load the model as lm-eval does, but reject missing or left-over weights.

        Raises:
            ModelError: the checkpoint does not match its config.
        """
        loader: Any = self  # lm-eval's types do not fit ours
        auto = loader.AUTO_MODEL_CLASS
        loader.AUTO_MODEL_CLASS = _CheckedAutoModel(auto, self.checkpoint)
        try:
            super()._create_model(*arguments, **options)
        finally:
            loader.AUTO_MODEL_CLASS = auto

    def loglikelihood(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[Answer]:
        """Return (Σ log P(token), is greedy) per request, in order."""
        texts = [request.args for request in requests]
        token_requests = [(text, *ids) for text, ids in zip(texts, encode_pairs(self, texts), strict=True)]
        return self._loglikelihood_tokens(token_requests, disable_tqdm)

    def _model_generate(self, context: Tensor, max_length: int, stop: list[str], **options: Any) -> Tensor:
        """Generate as lm-eval does, but let an encoder-decoder write as many tokens as requested.

        lm-eval 0.4 adds the length of the longest context in the batch, although the output of an encoder-decoder does
        not follow it: a text was longer than requested, and its end depended on the rest of the batch. Greedy texts of
        causal models are written by `writer`.
        """
        if self.backend == "seq2seq":
            max_length += 1 - context.shape[1]  # 1: the decoder's start token
        elif not any(options[name] for name in options.keys() - {MASK}):
            pairs = zip(context, options[MASK].bool(), strict=True)
            room, end = max_length - context.shape[1], End(self.tokenizer, self.final, tuple(stop))
            rows = [Row(ids[real].tolist(), room, end) for ids, real in pairs]
            for _ in self.write(rows):
                pass
            texts, _ = pad([row.written for row in rows], self.tokenizer.pad_token_id, context.device)
            return torch.cat([context, texts], 1)
        return super()._model_generate(context, max_length, stop, **options)

    def _loglikelihood_tokens(
        self, requests: Sequence[Encoded], disable_tqdm: bool = False, override_bs: int | None = None
    ) -> list[Answer]:
        del override_bs  # batches are sized by memory
        answers: list[Answer] = []
        bar = tqdm(total=len(requests), disable=disable_tqdm or self.rank != 0, desc="figeval: packed log-likelihoods")
        for part in parts(requests, REQUESTS_PER_PART):
            limit = self.max_length
            answers += self.engine.score(
                [fit_request(self.backend, ids, continuation, limit) for _, ids, continuation in part]
            )
            for (texts, _, _), answer in zip(part, answers[-len(part) :], strict=True):
                if texts is not None:  # the caller caches rolling log-likelihoods itself
                    self.cache_hook.add_partial("loglikelihood", texts, answer)
            bar.update(len(part))
        bar.close()
        return answers


@dataclass(frozen=True, slots=True)
class _CheckedAutoModel:
    """A transformers Auto class that checks that models have exactly the weights of their checkpoints."""

    auto: type[_BaseAutoModelClass]
    checkpoint: Checkpoint | None

    def from_pretrained(self, name: str, **options: object) -> PreTrainedModel:
        """Load the model. Raises `ModelError` if weights are missing or left over, or an adapter does not fit."""
        load = partial(self.auto.from_pretrained, name, output_loading_info=True, **options)
        if self.checkpoint is None:
            model, report = load()
        else:
            loaded, report = load_weights(self.checkpoint, load, loader=f"{self.auto.__name__} {options}")
            model, name = cast("PreTrainedModel", loaded), self.checkpoint.model
        check_weights(model, report, name, type(model).__name__)
        return model


def parts(requests: Sequence[Encoded], size: int) -> Iterator[Sequence[Encoded]]:
    """Yield consecutive requests, `size` at a time: those of one document mostly stay together."""
    for start in range(0, len(requests), size):
        yield requests[start : start + size]
