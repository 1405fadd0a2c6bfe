"""Models that were trained to write a text from named inputs. Capability: write.

A checkpoint is an encoder-decoder or a causal model as transformers saves it, and a `figeval.json`:

    {"kind": "writer", "inputs": ["proverb", "keywords"], "separator": "</s>"}

A causal model also has a `marker`. `Form` defines how inputs become tokens. Texts are decoded by beam search without
sampling (4 beams, at most 250 tokens, as in Ghosh and Srivastava 2022), or sampled if there is a `temperature`. An
encoder-decoder begins with the decoder start token of its configuration, as in training; in the authors' code the two
differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from figeval.errors import ModelError
from figeval.models.capabilities import OutputStream, Part
from figeval.types import JSON, Input, Inputs, Reply

from ..torch_models.batching import TokenBudget, finished_batches, free_memory
from ..torch_models.checkpoint import locate, require, with_declared
from ..torch_models.loading import (
    LoadedModel,
    ModelSetup,
    Neural,
    load_with_tokenizer,
    measures,
    positions,
    prepare,
    suppress_logging,
)
from ..torch_models.settings import Configured, positive
from ..torch_models.tokens import IDS, Tokens, bare_ids, pad, padding_of, tokenize
from .decoding import Decoding, WritingSettings, decoding_of, refuse_beams
from .engine.bodies import cache_bytes_per_token
from .generation.sampling import DrawProcessor, Draws

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import GenerationConfig, PreTrainedTokenizerBase

NUM_BEAMS = 4
MAX_TEXT_TOKENS = 250  # tokens of a text


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSettings(WritingSettings):
    """Settings of writers: the form of the inputs, and the decoding. None means what the checkpoint declares.

    Attributes:
        inputs: names of the inputs, in their order.
        separator: text between the inputs; by default the tokenizer's separator.
        marker: text after the inputs of a causal model; by default two separators.
        num_beams: number of beams, 4 unless declared; 1 where texts are sampled.
        max_new_tokens: longest text in tokens, 250 unless declared.
    """

    inputs: tuple[str, ...] | None = None
    separator: str | None = None
    marker: str | None = None
    num_beams: int | None = None
    max_new_tokens: int | None = None

    def __post_init__(self) -> None:
        WritingSettings.__post_init__(self)
        if self.inputs is not None:
            object.__setattr__(self, "inputs", names_of(self.inputs))
        for name in ("num_beams", "max_new_tokens"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, positive(name, getattr(self, name)))

    @property
    def longest(self) -> int:
        """Longest text in tokens, if the model can write as many."""
        return self.max_new_tokens or MAX_TEXT_TOKENS


# ---- the form of the inputs ------------------------------------------------------------------------------------------

Values = Mapping[str, Input]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The form of a model's inputs, the same in training and in evaluation, which both use this class.

        encoder-decoder    proverb SEP keyword SEP keyword …, and what its tokenizer puts around every text
        causal             proverb SEP keyword SEP keyword … MARKER, and the text comes after it

    It is the form of Ghosh and Srivastava (2022, Table 11) with the tokenizer's own separator. Their code puts "<s>"
    before all inputs, which is not in T5's vocabulary, so that T5 read its unknown token there. That is not repeated.

    Attributes:
        separator: text between the inputs.
        marker: text after the inputs of a causal model.
        inputs: names of the inputs to read, in order; empty for all, in their own order.
    """

    separator: str
    marker: str = ""
    inputs: tuple[str, ...] = ()

    def text(self, values: Values) -> str:
        """Return inputs as one text. Raises `ModelError` if an input that the model was trained with is missing."""
        for name in self.inputs:
            if name not in values:
                raise ModelError(f"the model writes from {', '.join(self.inputs)}, but the task has no {name!r}")
        inputs = (values[name] for name in self.inputs or values)
        return self.separator.join(text for value in inputs for text in ((value,) if isinstance(value, str) else value))


def names_of(inputs: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of inputs, listed or as a+b."""
    return tuple(inputs.split("+") if isinstance(inputs, str) else inputs)


def form_of(
    tokenizer: PreTrainedTokenizerBase,
    separator: str | None,
    inputs: Sequence[str] | None,
    *,
    causal: bool,
    marker: str | None,
) -> Form:
    """Return a form; by default the separator is the tokenizer's own, and the marker of a causal model two of them.

    Raises:
        ModelError: neither the tokenizer nor the arguments give a separator.
    """
    sep_token = separator or tokenizer.sep_token or tokenizer.eos_token
    if sep_token is None:
        raise ModelError("the tokenizer has no separator token; set separator=…")
    ending = (2 * sep_token if marker is None else marker) if causal else ""
    return Form(separator=sep_token, marker=ending, inputs=tuple(inputs or ()))


def encoder_prompts(
    tokenizer: PreTrainedTokenizerBase, form: Form, values: Sequence[Values], limit: int | None
) -> Tokens:
    """Return the inputs of an encoder; what is too long loses its end."""
    return tokenize(tokenizer, [form.text(inputs) for inputs in values], limit)


def causal_prompts(
    tokenizer: PreTrainedTokenizerBase, form: Form, values: Sequence[Values], limit: int | None
) -> Tokens:
    """Return the prompts of a causal model, up to and including the marker.

    They take at most half of `limit`, so that there is room for a text; inputs lose their end. Raises `ModelError` for
    a marker that makes no token.
    """
    opening_ids, marker_ids = opening(tokenizer), bare_ids(tokenizer, [form.marker])[0]
    if not marker_ids:
        raise ModelError(f"marker={form.marker!r} has no tokens in this tokenizer; choose another one")
    room = None if limit is None else limit // 2 - len(opening_ids) - len(marker_ids)
    bodies = bare_ids(tokenizer, [form.text(inputs) for inputs in values])
    truncated = frozenset(row for row, ids in enumerate(bodies) if room is not None and len(ids) > room)
    return Tokens({IDS: [[*opening_ids, *ids[:room], *marker_ids] for ids in bodies]}, padding_of(tokenizer), truncated)


def opening(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the tokens with which the tokenizer begins every text."""
    return [token for token in tokenizer("", verbose=False)[IDS] if token != tokenizer.eos_token_id]


def causal_room(limit: int | None, max_new_tokens: int) -> int:
    """Return the number of tokens that a causal model may write after any prompt."""
    return max_new_tokens if limit is None else min(max_new_tokens, limit - limit // 2)


# ---- the backend -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WriterNetwork(LoadedModel):
    """A loaded model, and the form of its inputs."""

    form: Form

    @property
    def causal(self) -> bool:
        """True if the text continues the inputs."""
        return not self.model.config.is_encoder_decoder

    def prompts(self, requests: Sequence[Inputs]) -> Tokens:
        make_prompts = causal_prompts if self.causal else encoder_prompts
        return make_prompts(self.tokenizer, self.form, [dict(request.values) for request in requests], self.limit)

    def batch(self, tokens: Tokens, rows: list[int], device: str) -> dict[str, Tensor]:
        """Return rows as tensors, padded on the left for a causal model, because a text continues its prompt."""
        if not self.causal:
            return tokens.tensors(rows, device)
        ids, mask = pad([tokens.fields[IDS][row][::-1] for row in rows], tokens.padding, device)
        return {IDS: ids.flip(1), "attention_mask": mask.flip(1)}

    def room(self, max_new_tokens: int) -> int:
        """Return the number of tokens that the model may write."""
        if self.causal:
            return causal_room(self.limit, max_new_tokens)
        limit = positions(self.model)
        return max_new_tokens if limit is None else min(max_new_tokens, limit - 1)


class WriterModel(Neural[WriterSettings, WriterNetwork]):
    """A model that writes texts."""

    def __init__(self, setup: ModelSetup[WriterSettings], decoding: Decoding) -> None:
        super().__init__(setup)
        self.decoding = decoding
        self.beams = 1 if decoding.sampling is not None else setup.settings.num_beams or NUM_BEAMS
        self.budget = TokenBudget.for_writing(setup.device.partition(":")[0], setup.settings.rows)

    @property
    def do_sample(self) -> bool:
        """True if texts are sampled."""
        return self.decoding.sampling is not None

    def write(self, requests: Sequence[Inputs]) -> OutputStream[Reply]:
        """Return the texts, batch by batch; one without an end is a reply that was cut off.

        Raises:
            ModelError: an input that the model was trained with is missing.
        """
        network, settings = self.network, self.setup.settings
        tokens = network.prompts(requests)
        room = network.room(settings.longest)
        decoding = self._decoding(network, room)

        def forward(rows: list[int]) -> list[Reply]:
            draws = [self.decoding.draws(tokens.fields[IDS][row], requests[row].sample) for row in rows]
            return self._generate(network, network.batch(tokens, rows, self.setup.device), decoding, draws)

        costs = [self.beams * (length + room) for length in tokens.lengths]
        batches = finished_batches(costs, forward, self.budget)
        truncated = tokens.truncated
        return OutputStream(len(costs), (Part(rows, list(replies), truncated & set(rows)) for rows, replies in batches))

    def _generate(
        self,
        network: WriterNetwork,
        batch: dict[str, Tensor],
        decoding: GenerationConfig,
        draws: Sequence[Draws | None],
    ) -> list[Reply]:
        import torch
        from transformers import LogitsProcessorList

        prompt_length = batch[IDS].shape[1] if network.causal else 1
        processors = LogitsProcessorList()
        if self.decoding.sampling is not None:
            processors.append(DrawProcessor(draws, prompt_length))
        with torch.inference_mode(), suppress_logging():
            output_ids = network.model.generate(**batch, generation_config=decoding, logits_processor=processors)
        return [self._reply(network.tokenizer, ids) for ids in output_ids[:, prompt_length:].tolist()]

    def _reply(self, tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> Reply:
        text = tokenizer.decode(ids, skip_special_tokens=True).strip()
        return Reply(text=text, finish="stop" if tokenizer.eos_token_id in ids else "length")

    def _decoding(self, network: WriterNetwork, room: int) -> GenerationConfig:
        """Return the decoding options; all others are those of the checkpoint's own generation config."""
        from transformers import GenerationConfig

        beams, tokenizer = self.beams, network.tokenizer
        start = {} if network.causal else {"decoder_start_token_id": network.model.config.decoder_start_token_id}
        return GenerationConfig(
            num_beams=beams,
            early_stopping=beams > 1,
            do_sample=False,
            max_new_tokens=room,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=padding_of(tokenizer),
            **start,
        )

    def load(self) -> WriterNetwork:
        """Load the model.

        Raises:
            ModelError: its weights do not fit its configuration, or its tokenizer has no end-of-text token.
        """
        from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

        setup = self.setup
        settings, config = setup.settings, setup.checkpoint.config
        causal = not config.get("is_encoder_decoder")
        network = load_with_tokenizer(AutoModelForCausalLM if causal else AutoModelForSeq2SeqLM, setup)
        model, tokenizer = network.model, network.tokenizer
        form = form_of(tokenizer, settings.separator, settings.inputs, causal=causal, marker=settings.marker)
        self.budget.limit(free_memory(setup.device), cache_bytes_per_token(model))
        return WriterNetwork(model, tokenizer, network.limit, form)

    def details(self, network: WriterNetwork) -> JSON:
        """Return the model's size, limit, form and decoding options."""
        settings, form = self.setup.settings, network.form
        form_options = {"inputs": list(form.inputs), "separator": form.separator} | (
            {"marker": form.marker} if network.causal else {}
        )
        return (
            measures(network.model, network.limit)
            | form_options
            | {
                "num_beams": self.beams,
                "max_new_tokens": network.room(settings.longest),
                "no_repeat_ngram_size": network.model.generation_config.no_repeat_ngram_size or 0,
            }
            | self.decoding.record(self.setup.dtype, self.setup.device)
        )


def open_writer(settings: WriterSettings) -> WriterModel:
    """Open a model that was trained to write from a folder or hub id.

    Raises:
        ModelError: no such model, one without a declared training, a setting that `prepare` or `decoding_of` rejects,
            or beams and sampling together.
    """
    checkpoint = locate(settings.model, settings.revision, settings.base)
    require(checkpoint, "writer")
    declared = with_declared(settings, checkpoint)
    has_beams = (settings.num_beams or 1) > 1  # which outrank what is declared
    decoding = decoding_of(settings, checkpoint, None if has_beams else declared)
    if decoding.sampling is not None:
        refuse_beams(settings.num_beams)
    return WriterModel(prepare(declared, checkpoint), decoding)


writer = Configured(WriterSettings, open_writer)
