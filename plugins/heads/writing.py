"""Heads for generation from named inputs: encoder-decoders (`seq2seq`) and causal models (`causal`).

As in Ghosh and Srivastava (2022, Table 11), the inputs are joined by the tokenizer's separator, and the loss is the
cross-entropy of the text's tokens, each predicted from the right ones before it. Unlike in their code, the decoder
starts with the same token in training and in decoding, that of the model's configuration (they train from </s> and
decode from <pad>), and T5 does not read an unknown token at the beginning. A causal model has a loss only on the text
it writes, not on its inputs. The loss is the mean over the target tokens of a step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from figeval.errors import TrainError
from figeval.models.capabilities import capabilities
from figeval.task_types.generation import GenerationExample
from figeval.types import JSON, Example

from ..causal.decoding import check_filters, decoding_of, refuse_beams, refuse_filters
from ..causal.engine.encoder_decoder import IGNORED
from ..causal.writer import (
    MAX_TEXT_TOKENS,
    NUM_BEAMS,
    Form,
    Values,
    WriterModel,
    WriterNetwork,
    WriterSettings,
    causal_prompts,
    causal_room,
    encoder_prompts,
    form_of,
    names_of,
)
from ..torch_models.checkpoint import Checkpoint, by_class
from ..torch_models.settings import positive
from ..torch_models.tokens import IDS, Tokens, bare_ids, padding_of, tokenize
from .base_model import Base, base_of, options_of
from .language import LABELS, Row, batch_of, encoder_decoder_row, length, weight

if TYPE_CHECKING:
    from torch import Tensor
    from transformers.models.auto.auto_factory import _BaseAutoModelClass

    from figeval.models.learner import Batch, Setup

    from .language import LanguageNetwork


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingOptions:
    """Options of generation.

    Attributes:
        separator: text between the inputs; None for the tokenizer's own separator.
        marker: text after the inputs of a causal model; None for two separators.
        inputs: names of the inputs to read, a+b; None for all.
        max_target: longest text in tokens; longer ones are truncated.
        num_beams: number of beams when the trained model decodes; 4, or 1 where texts are sampled.
        temperature: divisor of the scores of tokens, of which one is drawn; None or 0 for texts that are not sampled.
        top_k: number of the likeliest tokens from which one is drawn; None for all.
        top_p: share of the probability that the likeliest tokens must reach, from which one is drawn; None for all.
        max_new_tokens: longest text that the trained model decodes.
    """

    separator: str | None = None
    marker: str | None = None
    inputs: str | None = None
    max_target: int | None = None
    num_beams: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    max_new_tokens: int = MAX_TEXT_TOKENS

    def __post_init__(self) -> None:
        for name in ("max_target", "num_beams", "max_new_tokens"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        check_filters(self)
        if self.temperature:
            refuse_beams(self.num_beams)
        elif self.temperature is None:  # 0 also turns off the filters of a preset
            refuse_filters([name for name in ("top_k", "top_p") if getattr(self, name) is not None])

    @property
    def decoding(self) -> JSON:
        """The decoding of the trained model, as figeval.json holds it."""
        if not self.temperature:
            return {"num_beams": self.num_beams or NUM_BEAMS, "max_new_tokens": self.max_new_tokens}
        filters = {"top_k": self.top_k, "top_p": self.top_p}
        options = {"num_beams": 1, "max_new_tokens": self.max_new_tokens, "temperature": self.temperature}
        return options | {name: value for name, value in filters.items() if value is not None}


class FixedFeatures:
    """Rows that are the same in every epoch."""

    def __init__(self, rows: Sequence[Row], padding: int, truncated: int) -> None:
        self.rows, self.padding, self.truncated = rows, padding, truncated
        self.lengths = list(map(length, rows))
        self.weights = list(map(weight, rows))

    def batch(self, rows: Sequence[int], draw: int) -> Batch:  # noqa: ARG002 - nothing is drawn
        """Return input_ids, attention_mask, labels …"""
        return batch_of([self.rows[row] for row in rows], self.padding)

    def beside(self, rows: Sequence[int]) -> list[Batch]:  # noqa: ARG002
        return []


@dataclass
class Writing(ABC):
    """Base class of both learners. The input names are taken from the first examples passed to `features`."""

    base: Base
    options: WritingOptions
    form: Form
    select_by: ClassVar[str] = "loss"  # decoding takes longer than an epoch
    offers: ClassVar[frozenset[str]] = capabilities(WriterModel)

    @property
    @abstractmethod
    def auto(self) -> type[_BaseAutoModelClass]:
        """Auto class of transformers that loads the model."""

    @property
    @abstractmethod
    def room(self) -> int | None:
        """Longest text that the model can write, in tokens; None if nothing bounds it."""

    @abstractmethod
    def prompts(self, values: Sequence[Values]) -> Tokens:
        """Tokenize the inputs."""

    @abstractmethod
    def targets(self, texts: Sequence[str], limit: int | None) -> Tokens:
        """Tokenize texts with their end token, truncated to a limit."""

    @abstractmethod
    def row(self, prompt: Sequence[int], target: Sequence[int]) -> Row:
        """Return the row to train on for one example."""

    def network(self) -> LanguageNetwork:
        """Return the model without a cache of earlier tokens, which only decoding needs."""
        from .language import LanguageNetwork

        return LanguageNetwork(self.base.load(self.auto), use_cache=False)

    def features(self, examples: Sequence[Example]) -> FixedFeatures:
        """Return the inputs and first references, tokenized."""
        generation_examples = cast("Sequence[GenerationExample]", examples)
        self.form = replace(self.form, inputs=self.form.inputs or tuple(generation_examples[0].inputs))
        limit = min((limit for limit in (self.room, self.options.max_target) if limit is not None), default=None)
        prompts = self.prompts([example.inputs for example in generation_examples])
        targets = self.targets([example.references[0] for example in generation_examples], limit)
        rows = list(map(self.row, prompts.fields[IDS], targets.fields[IDS]))
        return FixedFeatures(rows, prompts.padding, len(prompts.truncated | targets.truncated))

    def backend(self, network: LanguageNetwork) -> WriterModel:
        """Return the model as a backend of `figeval run`."""
        settings = WriterSettings(**self.options.decoding)
        model = WriterNetwork(network.model, self.base.tokenizer, self.base.limit, self.form)
        decoding = decoding_of(settings, self.base.checkpoint)
        return WriterModel(self.base.setup_of(settings, network), decoding).with_network(model)

    def save(self, network: LanguageNetwork, weights: Mapping[str, Tensor], folder: Path) -> JSON:
        """Save the model as transformers does, with its tokenizer, and return its form and decoding options."""
        self.base.save(network.model, weights, "model.", folder)
        return {"kind": "writer", **self.form_record()}

    def form_record(self) -> JSON:
        """Return form and decoding options as figeval.json holds them."""
        form = self.form
        record: JSON = {"inputs": list(form.inputs), "separator": form.separator}
        record |= {"marker": form.marker} if form.marker else {}
        return record | self.options.decoding

    def describe(self) -> JSON:
        """Return the form, decoding options and length limits."""
        return self.form_record() | {"max_length": self.base.limit, "max_target": self.options.max_target}


class Seq2Seq(Writing):
    """Learner of an encoder-decoder, whose encoder reads the inputs and whose decoder writes the text."""

    @property
    def auto(self) -> type[_BaseAutoModelClass]:
        from transformers import AutoModelForSeq2SeqLM

        auto: type[_BaseAutoModelClass] = AutoModelForSeq2SeqLM
        return auto

    @property
    def room(self) -> int | None:
        """Number of the decoder's positions, or None if the configuration gives none."""
        return getattr(self.base.config, "max_position_embeddings", None)

    def prompts(self, values: Sequence[Values]) -> Tokens:
        return encoder_prompts(self.base.tokenizer, self.form, values, self.base.limit)

    def targets(self, texts: Sequence[str], limit: int | None) -> Tokens:
        """Tokenize texts. Raises `TrainError` if the tokenizer adds no end token: the model would never stop."""
        tokenizer = self.base.tokenizer
        tokens = tokenize(tokenizer, texts, limit)
        if any(ids[-1] != tokenizer.eos_token_id for ids in tokens.fields[IDS]):
            name = self.base.setup.model
            raise TrainError(f"the tokenizer of {name!r} does not end texts with its end token; use another model")
        return tokens

    def row(self, prompt: Sequence[int], target: Sequence[int]) -> Row:
        return encoder_decoder_row(prompt, target, decoder_start(self.base))


class Causal(Writing):
    """Learner of a causal model, which continues the inputs."""

    @property
    def auto(self) -> type[_BaseAutoModelClass]:
        from transformers import AutoModelForCausalLM

        auto: type[_BaseAutoModelClass] = AutoModelForCausalLM
        return auto

    @property
    def room(self) -> int | None:
        """Room that the inputs leave, as in evaluation."""
        limit = self.base.limit
        return None if limit is None else causal_room(limit, limit)

    def prompts(self, values: Sequence[Values]) -> Tokens:
        return causal_prompts(self.base.tokenizer, self.form, values, self.base.limit)

    def targets(self, texts: Sequence[str], limit: int | None) -> Tokens:
        """Tokenize texts without special tokens, followed by the end token."""
        tokenizer = self.base.tokenizer
        token_ids = bare_ids(tokenizer, texts)
        room = None if limit is None else limit - 1
        cut = frozenset(row for row, ids in enumerate(token_ids) if room is not None and len(ids) > room)
        return Tokens({IDS: [[*ids[:room], tokenizer.eos_token_id] for ids in token_ids]}, padding_of(tokenizer), cut)

    def row(self, prompt: Sequence[int], target: Sequence[int]) -> Row:
        """Return a row that predicts the next token at every position, except within the inputs."""
        ids = [*prompt, *target]
        return {IDS: ids[:-1], LABELS: [IGNORED] * (len(prompt) - 1) + ids[len(prompt) :]}


def seq2seq(setup: Setup) -> Seq2Seq:
    """Make a learner for encoder-decoders.

    Raises:
        ModelError: no such model, an invalid value of an option, or a tokenizer without a separator.
        TrainError: an unknown option, a model that is no encoder-decoder, or a configuration without a first token of
            the decoder.
    """
    options, base, form = open_base(setup, "seq2seq")
    decoder_start(base)
    return Seq2Seq(base, options, form)


def causal(setup: Setup) -> Causal:
    """Make a learner for causal models.

    Raises:
        ModelError: no such model, an invalid value of an option, or a tokenizer without a separator.
        TrainError: an unknown option, a model that is not causal, or a tokenizer without an end token.
    """
    options, base, form = open_base(setup, "causal")
    if base.tokenizer.eos_token_id is None:
        raise TrainError(f"the tokenizer of {setup.model!r} has no token that ends a text; set its eos_token")
    return Causal(base, options, form)


def open_base(setup: Setup, head: str) -> tuple[WritingOptions, Base, Form]:
    """Return options, base and form of a head. Raises `TrainError`, naming the right head, for other models."""
    options = options_of(WritingOptions, setup.options)
    base = base_of(setup)
    kind = writing_head(base.checkpoint)
    if kind != head:
        cure = f"use --head {kind}" if kind else "begin with an encoder-decoder (T5, BART) or a causal model (GPT-2)"
        raise TrainError(f"{setup.model!r} is a {base.checkpoint.architecture or 'model without a head'}; {cure}")
    names = None if options.inputs is None else names_of(options.inputs)
    causal = head == "causal"
    return options, base, form_of(base.tokenizer, options.separator, names, causal=causal, marker=options.marker)


def writing_head(checkpoint: Checkpoint) -> str | None:
    """Return the head that writes with a checkpoint, whatever it was trained for since; None if neither can."""
    kind = by_class(checkpoint)
    return kind if kind in ("seq2seq", "causal") else None


def decoder_start(base: Base) -> int:
    """Return the token that the decoder begins with. Raises `TrainError` if the configuration gives none."""
    start = getattr(base.config, "decoder_start_token_id", None)
    if start is None:
        name = base.setup.model
        raise TrainError(f"the config.json of {name!r} has no decoder_start_token_id; add it (T5: pad_token_id)")
    return int(start)
