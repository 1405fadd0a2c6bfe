"""Causal and encoder-decoder models through lm-eval's `HFLM`. Capabilities: loglikelihood, generate.

Batches are ours (longest first, a budget of tokens, halved when memory runs out); tokenising and scoring are
lm-eval's, so numbers are those of its `hf` model. An encoder is refused: lm-eval would score RoBERTa from left to
right while every token sees itself.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from figeval.backends.capabilities import Outputs
from figeval.errors import ModelError
from figeval.hookspecs import hookimpl
from figeval.types import JSON, Continuation, Prompt

from ._batching import run_batches
from ._checkpoint import locate, require
from ._loading import load_errors, one_line, quiet
from ._neural import Neural, measures, prepare
from ._settings import Configured, Settings

if TYPE_CHECKING:
    from figeval.registry import BackendRegister

ONE_BATCH = 1 << 20  # rows: what one call hands to lm-eval is one batch


@hookimpl
def register_backends(register: BackendRegister) -> None:
    """One name."""
    target = "figeval.builtin.plugins.hf:hf"
    register("hf", target, "causal or encoder-decoder model on this machine, through lm-eval's HFLM")


@dataclass(frozen=True, slots=True, kw_only=True)
class HfSettings(Settings):
    """lm-eval's own options by lm-eval's names, None where lm-eval decides; its softmax is taken in float32.

    Those that exchange weights (peft, delta, quantised files) are not among them: the fingerprint would not know.
    """

    dtype: str = "auto"
    add_bos_token: bool | None = None
    prefix_token_id: int | None = None
    softmax_dtype: str = "float32"
    mixed_precision_dtype: str | None = None
    parallelize: bool | None = None
    attn_implementation: str | None = None
    enable_thinking: bool | None = None

    @property
    def passed_on(self) -> JSON:
        """The options that lm-eval is given as they are."""
        ours = {field.name for field in fields(Settings)} - {"max_length", "trust_remote_code"}
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ours}
        return {name: value for name, value in given.items() if value is not None}


@contextmanager
def hushed() -> Iterator[None]:
    """No reports from lm-eval and transformers meanwhile: what they warn of is in our records."""
    logger = logging.getLogger("lm_eval")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with quiet():
            yield
    finally:
        logger.setLevel(level)


class HfModel(Neural[HfSettings, Any]):
    """Scores continuations and writes, left to right. The network is an `HFLM`."""

    def loglikelihood(self, requests: Sequence[Continuation]) -> Outputs[float]:
        """Σ log P(token); a context that is too long loses its beginning.

        Raises:
            ModelError: a continuation is empty, or alone longer than the model takes.
        """
        lm = self.network
        arguments = [split(request) for request in requests]
        lengths = [self._length(*argument) for argument in arguments]
        answers = self._ask("loglikelihood", arguments, lengths)
        values = [float(logprob) for logprob, _is_greedy in answers]
        return Outputs(values, frozenset(i for i, length in enumerate(lengths) if length > lm.max_length))

    def generate(self, requests: Sequence[Prompt]) -> Outputs[str]:
        """Greedy continuations up to a stop text, which is left off; a prompt that is too long loses its beginning.

        Raises:
            ModelError: `max_new_tokens` leaves no room for a prompt.
        """
        lm = self.network
        causal = lm.backend == "causal"
        lengths, arguments = [], []
        for request in requests:
            if causal and request.max_new_tokens >= lm.max_length:
                raise ModelError(f"{request.max_new_tokens} new tokens do not fit a model that takes {lm.max_length}")
            lengths.append(len(lm.tok_encode(request.plain)) + (request.max_new_tokens if causal else 0))
            options = {"until": list(request.stop), "max_gen_toks": request.max_new_tokens, "do_sample": False}
            arguments.append((request.plain, options))
        answers = self._ask("generate_until", arguments, lengths)
        return Outputs(answers, frozenset(i for i, length in enumerate(lengths) if length > lm.max_length))

    def _length(self, context: str, continuation: str) -> int:
        """Tokens that the model has to read at once."""
        lm = self.network
        causal = lm.backend == "causal"
        before = len(lm.tok_encode(context)) if context else 1  # lm-eval begins an empty context with a token
        whole = len(lm.tok_encode(context + continuation))
        after = (whole - before if context else whole) if causal else len(lm.tok_encode(continuation))
        if after < 1 or not continuation.strip():
            raise ModelError(f"no token to score in {continuation!r}; is an option or a label word empty?")
        if after > lm.max_length:
            raise ModelError(f"an option of {after} tokens is longer than the model takes ({lm.max_length})")
        # A causal model reads all but the last token; an encoder-decoder reads the two apart.
        return before + after - 1 if causal else max(before, after)

    def _ask(self, kind: str, arguments: Sequence[tuple[Any, ...]], lengths: Sequence[int]) -> list[Any]:
        """One answer per request from a method of the LM, a batch at a time."""
        from lm_eval.api.instance import Instance

        instances = [Instance(kind, {}, args, index, metadata=("figeval", index, 1))
                     for index, args in enumerate(arguments)]  # fmt: skip
        method = getattr(self.network, kind)

        def forward(rows: list[int]) -> list[Any]:
            return list(method([instances[row] for row in rows], disable_tqdm=True))

        most = self.network.max_length
        with hushed():
            return run_batches([min(length, most) for length in lengths], forward, self.budget)

    def load(self) -> Any:
        """The `HFLM`.

        Raises:
            ModelError: lm-eval cannot load it, or its tokenizer knows no token to begin with.
        """
        from lm_eval.api.registry import get_model

        setup = self.setup
        arguments = {**setup.settings.passed_on, "pretrained": str(setup.checkpoint.folder_here())}
        ours = {"dtype": setup.dtype, "device": setup.device, "batch_size": ONE_BATCH}
        import_module("lm_eval.models")  # fills lm-eval's registry: in an empty one `hf` is unknown
        try:
            with hushed():
                lm = get_model("hf").create_from_arg_obj(arguments, ours)
        except load_errors() as error:
            raise ModelError(f"lm-eval cannot load {setup.checkpoint.model!r}: {one_line(error)}") from error
        if lm.prefix_token_id is None:
            raise ModelError(f"{setup.checkpoint.model!r} has no token to begin a text with; give prefix_token_id=")
        return lm

    def details(self, network: Any) -> JSON:
        """Size, limit, and which of lm-eval's two kinds it is."""
        return measures(network.model, network.max_length) | {"kind": network.backend}


def split(request: Continuation) -> tuple[str, str]:
    """Context and continuation; blanks between the two go to the continuation."""
    context = request.context.rstrip()
    return context, request.context[len(context) :] + request.continuation


def open_hf(settings: HfSettings) -> HfModel:
    """A causal or encoder-decoder model from a folder or hub id.

    Raises:
        ModelError: no such model, an encoder, a device that is not there, half precision on a CPU.
    """
    checkpoint = locate(settings.model, settings.revision)
    require(checkpoint, "hf")
    return HfModel(prepare(settings, checkpoint))


hf = Configured(HfSettings, open_hf)
