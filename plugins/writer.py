"""Models that were trained to write a text from named inputs. Capability: write.

A checkpoint is what transformers saves of an encoder-decoder or a causal model, and a `figeval.json`:

    {"kind": "writer", "inputs": ["proverb", "keywords"], "separator": "</s>"}

A causal model has a `marker` beside these. How inputs become tokens is in `_form`. Texts are decoded by beam search
without sampling (4 beams, at most 250 tokens, as in Ghosh and Srivastava 2022). An encoder-decoder begins with
the decoder start token of its configuration, as it did in training; in the authors' code the two differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from figeval.hooks import hookimpl
from figeval.models.capabilities import Outputs
from figeval.types import JSON, Inputs, Reply

from ._batching import run_batches
from ._checkpoint import locate, require
from ._declared import with_declared
from ._form import Form, causal_prompts, causal_room, encoder_prompts, form_of, names_of
from ._loading import input_limit, load_model, load_tokenizer, positions, quiet
from ._neural import Neural, measures, prepare
from ._settings import Configured, Settings, positive
from ._tokens import IDS, Tokens, padded, padding_of

if TYPE_CHECKING:
    from figeval.hooks import BackendRegistrar

BEAMS = 4
LONGEST = 250  # tokens of a text


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """One name."""
    target = "figeval.builtin.plugins.writer:writer"
    register("writer", target, "trained to write from named inputs: beam search (num_beams=, max_new_tokens=)")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSettings(Settings):
    """`inputs`, `separator` and `marker` are the form, `num_beams` and `max_new_tokens` the decoding.

    None: as the checkpoint declares them, else what the tokenizer has, 4 and 250.
    """

    inputs: tuple[str, ...] | None = None
    separator: str | None = None
    marker: str | None = None
    num_beams: int | None = None
    max_new_tokens: int | None = None

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        if self.inputs is not None:
            object.__setattr__(self, "inputs", names_of(self.inputs))
        for name in ("num_beams", "max_new_tokens"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, positive(name, getattr(self, name)))

    @property
    def beams(self) -> int:
        """How many beginnings of a text are kept."""
        return self.num_beams or BEAMS

    @property
    def longest(self) -> int:
        """How many tokens a text may have, if the model can write as many."""
        return self.max_new_tokens or LONGEST


@dataclass(frozen=True, slots=True)
class WriterNetwork:
    """A loaded model, and the form of its inputs."""

    model: Any
    tokenizer: Any
    limit: int | None
    form: Form

    @property
    def causal(self) -> bool:
        """Whether the text goes on where the inputs end."""
        return not self.model.config.is_encoder_decoder

    def prompts(self, requests: Sequence[Inputs]) -> Tokens:
        """The inputs as token ids."""
        read = causal_prompts if self.causal else encoder_prompts
        return read(self.tokenizer, self.form, [dict(request.values) for request in requests], self.limit)

    def batch(self, tokens: Tokens, rows: list[int], device: str) -> dict[str, Any]:
        """Rows as tensors. A causal model's are padded on the left: a text goes on where its prompt ends."""
        if not self.causal:
            return tokens.tensors(rows, device)
        ids, mask = padded([tokens.fields[IDS][row][::-1] for row in rows], tokens.padding, device)
        return {IDS: ids.flip(1), "attention_mask": mask.flip(1)}

    def room(self, asked: int) -> int:
        """How many tokens it may write."""
        if self.causal:
            return causal_room(self.limit, asked)
        most = positions(self.model)
        return asked if most is None else min(asked, most - 1)


class Writer(Neural[WriterSettings, WriterNetwork]):
    """Writes texts."""

    def write(self, requests: Sequence[Inputs]) -> Outputs[Reply]:
        """The best text of each beam search; one without an end is a reply that was cut off.

        Raises:
            ModelError: an input is not there that the model was trained with.
        """
        network, settings = self.network, self.setup.settings
        tokens = network.prompts(requests)
        room = network.room(settings.longest)
        decoding = self._decoding(network, room)

        def forward(rows: list[int]) -> list[Reply]:
            return self._written(network, network.batch(tokens, rows, self.setup.device), decoding)

        costs = [length + room for length in tokens.lengths]
        return Outputs(run_batches(costs, forward, self.budget), tokens.truncated)

    def _written(self, network: WriterNetwork, batch: dict[str, Any], decoding: Any) -> list[Reply]:
        import torch

        with torch.inference_mode(), quiet():
            written = network.model.generate(**batch, generation_config=decoding)
        before = batch[IDS].shape[1] if network.causal else 1
        return [self._reply(network.tokenizer, ids) for ids in written[:, before:].tolist()]

    def _reply(self, tokenizer: Any, ids: list[int]) -> Reply:
        text = tokenizer.decode(ids, skip_special_tokens=True).strip()
        return Reply(text=text, finish="stop" if tokenizer.eos_token_id in ids else "length")

    def _decoding(self, network: WriterNetwork, room: int) -> Any:
        """How texts are decoded; what is not said here is as the checkpoint's own generation config has it."""
        from transformers import GenerationConfig

        beams, tokenizer = self.setup.settings.beams, network.tokenizer
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
        """The model.

        Raises:
            ModelError: its weights do not fit its configuration, or its tokenizer knows no token that ends a text.
        """
        from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

        setup = self.setup
        settings, config = setup.settings, setup.checkpoint.config
        tokenizer = load_tokenizer(setup.checkpoint, trust=settings.trust_remote_code)
        causal = not config.get("is_encoder_decoder")
        auto = AutoModelForCausalLM if causal else AutoModelForSeq2SeqLM
        model = load_model(auto, setup)
        limit = input_limit(settings.max_length, tokenizer.model_max_length, model)
        form = form_of(tokenizer, settings.separator, settings.inputs, causal=causal, marker=settings.marker)
        return WriterNetwork(model, tokenizer, limit, form)

    def details(self, network: WriterNetwork) -> JSON:
        """Size, limit, form and decoding."""
        settings, form = self.setup.settings, network.form
        said = {"inputs": list(form.inputs), "separator": form.separator} | (
            {"marker": form.marker} if network.causal else {}
        )
        return (
            measures(network.model, network.limit)
            | said
            | {
                "num_beams": settings.beams,
                "max_new_tokens": network.room(settings.longest),
                "no_repeat_ngram_size": network.model.generation_config.no_repeat_ngram_size or 0,
            }
        )


def open_writer(settings: WriterSettings) -> Writer:
    """A model that was trained to write, from a folder or hub id.

    Raises:
        ModelError: no such model, none that declares how it was trained, or what `prepare` refuses.
    """
    checkpoint = locate(settings.model, settings.revision)
    require(checkpoint, "writer")
    return Writer(prepare(with_declared(settings, checkpoint), checkpoint))


writer = Configured(WriterSettings, open_writer)
