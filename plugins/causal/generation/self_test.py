"""The self-test: which writer gives a model's rows the texts that they get alone, found out before the first prompt.

Nothing is assumed about an architecture. The scores of the next tokens of rows that come and go must be those of plain
passes (`trials`). A model that fails is asked in whole batches, or row by row if they fail, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...torch_models.batching import TokenBudget, free_memory
from ..engine.bodies import bytes_per_token
from .attention import can_group
from .decoder import Decoder
from .trials import BatchTrial, DecoderTrial, failure
from .whole_batches import WholeBatches, config_errors

if TYPE_CHECKING:
    import torch
    from transformers import GenerationConfig, LogitsProcessorList, PreTrainedModel

# Options of a generation config that need the whole prompt or transformers' own loop.
UNUSUAL_OPTIONS = (
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
        reason = failure(DecoderTrial(decoder))
        if reason and decoder.grouped:
            decoder.grouped = False
            reason = failure(DecoderTrial(decoder))
        if not reason:
            return decoder
    writer = WholeBatches(model, writing, padding, reason, autocast)
    if not model.config.is_encoder_decoder and (difference := failure(BatchTrial(writer))):
        writer.reason += f"; rows of a batch differ from rows alone ({difference}), so each is written alone"
        writer.writing = TokenBudget(writing.tokens, rows=1)
    return writer


def unusual_options(config: GenerationConfig) -> str:
    """Return the names of options that only transformers' own loop knows, or "" if there are none."""
    names = [name for name in UNUSUAL_OPTIONS if getattr(config, name, None)]
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

    processors = []
    if (config.repetition_penalty or 1.0) != 1.0:
        processors.append(RepetitionPenaltyLogitsProcessor(config.repetition_penalty))
    if config.no_repeat_ngram_size:
        processors.append(NoRepeatNGramLogitsProcessor(config.no_repeat_ngram_size))
    if config.bad_words_ids:
        processors.append(NoBadWordsLogitsProcessor(config.bad_words_ids, config.eos_token_id))
    if config.suppress_tokens:
        processors.append(SuppressTokensLogitsProcessor(config.suppress_tokens))
    return LogitsProcessorList(processors) if processors else None
