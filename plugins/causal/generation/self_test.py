"""The self-test: whether rows of a model may come and go, found out on a small sample before the first prompt.

Nothing is assumed about an architecture. Rows share a beginning, have different lengths, join one another and leave;
the scores of their next tokens must be those of one plain pass per row. A model that fails is asked in whole batches.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from ...encoders.batching import TokenBudget, free_memory
from ...encoders.loading import one_line, positions
from ..engine.bodies import bytes_per_token
from ..engine.self_test import REFUSALS, sample_for
from .attention import can_group
from .decoder import Decoder, Waiting
from .prefixes import Beginning, shared
from .row import End, Row
from .whole_batches import WholeBatches, config_errors

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import GenerationConfig, LogitsProcessorList, PreTrainedModel

TOLERANCE = 1e-3  # mean difference of log-probabilities over the vocabulary, in single precision
HALF_TOLERANCE = 0.1  # the same in half precision; a wrong mask costs more
ROOMS = (2, 5, 3, 4, 1)  # tokens that the rows of the sample write
STEPS = 3  # tokens that follow the rows of whole batches
# Options of a generation config that need the whole prompt or transformers' own loop.
UNUSUAL = (
    "min_length",
    "min_new_tokens",
    "max_time",
    "begin_suppress_tokens",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "exponential_decay_length_penalty",
    "sequence_bias",
    "prompt_lookup_num_tokens",
    "guidance_scale",
    "watermarking_config",
)


def writer_for(
    model: PreTrainedModel, padding: int, writing: TokenBudget, autocast: torch.dtype | None = None
) -> Decoder | WholeBatches:
    """Return the fastest writer of texts that gives a model's rows the texts that they get alone.

    Args:
        model: causal or encoder-decoder model.
        padding: id of a token that fills rows up.
        writing: budget of a batch: rows x tokens of the longest row, with those that may follow.
        autocast: lower precision of the passes, if it is not that of the weights.

    Raises:
        ModelError: transformers cannot follow the model's generation config.
    """
    reason = ""
    if model.config.is_encoder_decoder:
        reason = "an encoder-decoder"
    elif unusual := unusual_options(model.generation_config):
        reason = f"the generation config sets {unusual}"
    else:
        reading = TokenBudget.on(model.device.type)
        reading.limit(free_memory(str(model.device)), bytes_per_token(model))
        with config_errors():
            processors = processors_of(model.generation_config)
        decoder = Decoder(model, reading, writing, processors, autocast=autocast, grouped=can_group(model))
        reason = failure(decoder)
        if reason and decoder.grouped:
            decoder.grouped = False
            reason = failure(decoder)
        if not reason:
            return decoder
    whole = WholeBatches(model, writing, padding, reason, autocast)
    if not (model.config.is_encoder_decoder or keeps_rows_apart(whole)):
        whole.reason += "; rows of a batch differ from rows alone, so each is written alone"
        whole.writing = TokenBudget(writing.tokens, rows=1)
    return whole


def keeps_rows_apart(writer: WholeBatches) -> bool:
    """Return whether rows of different lengths get the scores in a batch that they get alone.

    Some models read the padding, and some mix up the rows that follow the first tokens.
    """
    import torch

    rows = [one.row for one in sample(writer.model)]
    rows += [Row(rows[0].prompt[:3], 1, rows[0].end), rows[1]]
    try:
        together = writer.scores(rows, STEPS)
        alone = torch.cat([writer.scores([row], STEPS) for row in rows])
    except REFUSALS:
        return False
    apart = (together - alone).abs().mean(-1).max().item()
    return bool(apart <= tolerance(writer))


def tolerance(writer: Decoder | WholeBatches) -> float:
    """Return the largest difference that is rounding, in the precision in which a writer computes."""
    import torch

    single = writer.autocast is None and writer.model.dtype in (torch.float32, torch.float64)
    return TOLERANCE if single else HALF_TOLERANCE


def unusual_options(config: GenerationConfig) -> str:
    """Return the names of options that only transformers' own loop knows, or "" if there are none."""
    names = [name for name in UNUSUAL if getattr(config, name, None)]
    return ", ".join([*names, *(["num_beams"] if (config.num_beams or 1) > 1 else [])])


def processors_of(config: GenerationConfig) -> LogitsProcessorList | None:
    """Return the changes of scores that a generation config asks for; None if it asks for none."""
    from transformers import (
        LogitsProcessorList,
        NoBadWordsLogitsProcessor,
        NoRepeatNGramLogitsProcessor,
        RepetitionPenaltyLogitsProcessor,
        SuppressTokensLogitsProcessor,
    )

    found = []
    if (config.repetition_penalty or 1.0) != 1.0:
        found.append(RepetitionPenaltyLogitsProcessor(config.repetition_penalty))
    if config.no_repeat_ngram_size:
        found.append(NoRepeatNGramLogitsProcessor(config.no_repeat_ngram_size))
    if config.bad_words_ids:
        found.append(NoBadWordsLogitsProcessor(config.bad_words_ids, config.eos_token_id))
    if config.suppress_tokens:
        found.append(SuppressTokensLogitsProcessor(config.suppress_tokens))
    return LogitsProcessorList(found) if found else None


def failure(decoder: Decoder) -> str:
    """Return what is wrong with the rows of a decoder, or "" if they may come and go."""
    import torch

    try:
        with torch.inference_mode():
            apart = difference(decoder)
    except REFUSALS as error:
        return f"{type(error).__name__}: {one_line(error)[:120]}"
    return "" if apart <= tolerance(decoder) else f"differs by {apart:.2g} nats"


def difference(decoder: Decoder) -> float:
    """Return the largest mean difference between log-probabilities in a batch and alone; infinite if one is NaN."""
    import torch

    model = decoder.model
    seen: list[tuple[list[int], Tensor]] = []

    def listen(ids: Tensor, scores: Tensor) -> Tensor:
        seen.append((ids[0].tolist(), scores[0]))
        return scores

    tried = replace(decoder, processors=listen, writing=TokenBudget(decoder.writing.tokens, rows=3))
    apart = 0.0
    for row in list(tried.continued(deque(sample(model)))):
        alone = model(input_ids=torch.tensor([row.ids], device=model.device)).logits[0].float().log_softmax(-1)
        for ids, scores in seen:
            if ids == row.ids[: len(ids)]:
                gap = (scores.log_softmax(-1) - alone[len(ids) - 1]).abs().mean().item()
                apart = max(apart, math.inf if math.isnan(gap) else gap)
    return apart


def sample(model: PreTrainedModel) -> list[Waiting]:
    """Return rows for a batch of three: some share a beginning, or a part of it, and they end one after the other."""
    texts = [list(one.ids) for one in sample_for(model.config, positions(model))]
    length = shared(texts[0], texts[-1])
    short = Beginning(tuple(texts[0][: length // 2]))
    whole = Beginning(tuple(texts[0][:length]), short)
    begin = (whole, whole, short, whole, None)
    never = End(None, frozenset())
    chosen = zip(begin, texts[::3], ROOMS, strict=True)
    return [Waiting(Row(ids, room, never), beginning) for beginning, ids, room in chosen]
