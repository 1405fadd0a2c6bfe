"""Any model of lm-eval: `--model lm_eval:NAME --model_args …`. Capabilities: loglikelihood, generate, as its class has.

Nothing is reimplemented: tokenization, batching and requests to servers are lm-eval's. The class is looked up at once,
so that a wrong name, an encoder or a missing key is known before any data is read; the model is loaded on first use.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from shlex import quote
from typing import TYPE_CHECKING, Any

from figeval.errors import ModelError
from figeval.io.files import expand_user, is_folder
from figeval.io.observer import report_loading, report_share
from figeval.io.text import pluralize
from figeval.models.capabilities import Outputs
from figeval.models.devices import release_memory
from figeval.types import JSON, Continuation, Message, Prompt, Reply

from ..causal.lm_eval_requests import count_tokens, decoding, reply, split_pair
from ..causal.prompting import opening_warnings
from ..torch_models.checkpoint import Checkpoint, backend_of, check_chat_template, locate
from ..torch_models.faults import load_errors, one_line
from ..torch_models.files import fingerprint
from ..torch_models.loading import choose_device, parameters, suppress_logging
from . import lm_eval_models
from .lm_eval_models import Rendered, find, lm_eval_version
from .releases import instances

if TYPE_CHECKING:
    from lm_eval.api.model import LM

ENCODERS = frozenset({"encoder", "masked", "pairs"})  # backends of bidirectional models
# Options that change the speed of an answer, but not its content.
PACE = frozenset({"batch_size", "device", "max_batch_size", "max_retries", "num_concurrent", "timeout", "verbose"})


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """The requested model, before anything is loaded."""

    name: str
    kind: type
    options: Mapping[str, object]
    templated: bool = False

    @property
    def is_local(self) -> bool:
        """True if the model's weights are loaded by transformers in this process."""
        return any(base.__name__ == "HFLM" for base in self.kind.__mro__)

    @property
    def has_template(self) -> bool:
        """True if the class can render conversations; the method that all classes inherit only raises."""
        owner = next(base for base in self.kind.__mro__ if "apply_chat_template" in vars(base))
        return owner.__name__ != "LM"

    @property
    def is_chat(self) -> bool:
        """True if the model's server accepts only conversations."""
        return self.has_template and "loglikelihood" not in self.offers and self.name != "openai-completions"

    @property
    def offers(self) -> frozenset[str]:
        return lm_eval_models.capabilities_of(self.name, self.kind, self.options)

    def checkpoint(self) -> Checkpoint | None:
        """Return the model's checkpoint if it is a transformers model with a folder or hub id, else None."""
        pretrained = self.options.get("pretrained")
        if not self.is_local or not isinstance(pretrained, str) or self.options.get("gguf_file"):
            return None
        revision = self.options.get("revision")
        return locate(pretrained, None if revision is None else str(revision))

    def check_checkpoint(self, apply_chat_template: bool | None) -> None:
        """Raise `ModelError` for a model that lm-eval would score wrongly without a warning.

        Raises:
            ModelError: an encoder, whose tokens would all see themselves, or a chat template without a choice to use
                it.
        """
        checkpoint = self.checkpoint()
        if checkpoint is None:
            return
        backend = backend_of(checkpoint)
        if backend in ENCODERS:
            raise ModelError(
                f"lm_eval:{self.name} cannot use {checkpoint.model!r}, which is a {checkpoint.architecture}: lm-eval "
                f"would read it from left to right; use --model {quote(f'{backend}:{checkpoint.model}')}"
            )
        check_chat_template(checkpoint, apply_chat_template)

    def build(self) -> LM:
        """Make the LM.

        Raises:
            ModelError: it cannot be made from these options.
        """
        unusable: tuple[type[Exception], ...] = (*load_errors(), AssertionError)
        try:
            with suppress_logging("lm_eval", errors=True):
                lm = self.kind.create_from_arg_obj(dict(self.options))  # type: ignore[attr-defined]
                _ = getattr(lm, "api_key", None)  # raises now if the key is missing
                return lm
        except ImportError as error:
            raise lm_eval_models.missing_module(self.name, error) from error
        except unusable as error:
            raise ModelError(
                f"lm_eval:{self.name} cannot be created with these --model_args: {one_line(error)}"
            ) from error

    def identity(self) -> JSON:
        """Return everything that can change an answer: folders by their contents, hub models by their files."""
        parts: JSON = {"model": self.name, "version": lm_eval_version(), "template": self.templated}
        checkpoint = self.checkpoint()
        for option, value in sorted(self.options.items()):
            if option == "pretrained" and checkpoint is not None:
                parts[option] = checkpoint.fingerprint()
            elif option not in PACE:
                folder = expand_user(value) if isinstance(value, str) and value else None
                parts[option] = fingerprint(folder) if folder is not None and is_folder(folder) else value
        return parts


def lm_eval(
    name: str = "",
    /,
    *,
    device: str | None = None,
    batch_size: int | str | None = None,
    apply_chat_template: bool | None = None,
    **options: object,
) -> LmEvalModel:
    """Open the lm-eval model of this name; `options` are those of its class, which may have one called `model`.

    Args:
        name: the model's name in lm-eval.
        device: passed to classes that have it.
        batch_size: passed to classes that have it; "auto" is the class's own default.
        apply_chat_template: whether conversations are rendered by the model's own template.
        options: options of the class.

    Raises:
        ModelError: no such model, an unknown option, a secret among the options, a missing key or package, an encoder,
            or a chat template without a choice on whether to use it.
    """
    report_loading()
    kind = find(name)
    lm_eval_models.check_options(name, kind, options)
    option_names, _ = lm_eval_models.parameters(kind)
    common = {"device": device, "batch_size": None if batch_size == "auto" else batch_size}
    supported = {option: value for option, value in common.items() if option in option_names and value is not None}
    request = ModelRequest(name, kind, {**supported, **options}, bool(apply_chat_template))
    request.check_checkpoint(apply_chat_template)
    if request.is_local and "device" not in request.options:  # lm-eval uses cuda without checking that it is available
        request = replace(request, options={**request.options, "device": choose_device(None)})
    return LmEvalModel(request)


@dataclass
class LmEvalModel:
    """An LM of lm-eval as a backend; it lacks the methods that its class does not support."""

    request: ModelRequest
    is_chat_model: bool = field(init=False)
    first_prompt: list[int] | None = field(init=False, default=None)  # token ids, if known
    joined: int = field(init=False, default=0)  # options that share a token with the prompt

    def __post_init__(self) -> None:
        self.is_chat_model = self.request.templated or self.request.is_chat
        if "loglikelihood" in self.request.offers:
            self.loglikelihood = self._loglikelihood
        if "generate" in self.request.offers:
            self.generate = self._generate
        if self.request.templated and not self.request.is_chat:
            if not self.request.has_template:
                raise ModelError(f"lm_eval:{self.request.name} has no chat template; leave apply_chat_template out")
            self.chat = self._chat

    @cached_property
    def lm(self) -> LM:
        """The LM, made on first use."""
        return self.request.build()

    def _loglikelihood(self, requests: Sequence[Continuation]) -> Outputs[float]:
        pairs = [split_pair(request.context, request.continuation) for request in requests]
        self._note(pairs[0][0])
        indexes = [index for index, pair in enumerate(pairs) if self._is_scored(*pair)]
        answers = self._ask("loglikelihood", [pairs[index] for index in indexes]) if indexes else []
        values = [math.nan] * len(pairs)
        for index, (logprob, _is_greedy) in zip(indexes, answers, strict=True):
            values[index] = float(logprob)
        return Outputs(values, frozenset(index for index in indexes if self._is_cut(*pairs[index])))

    def has_room(self, requests: Sequence[Continuation | Prompt]) -> bool:
        """Return whether all texts fit whole, with their answers; True for an LM that does not tell its limit."""
        return not any(map(self._exceeds_limit, requests))

    def _exceeds_limit(self, request: Continuation | Prompt) -> bool:
        if isinstance(request, Continuation):
            return self._is_cut(*split_pair(request.context, request.continuation))
        prompt = self._render_prompt(request)
        return isinstance(prompt, str) and self._is_long(prompt, request.max_new_tokens)

    def _generate(self, requests: Sequence[Prompt]) -> Outputs[Reply]:
        arguments = [(self._render_prompt(request), decoding(request)) for request in requests]
        self._note(arguments[0][0])
        texts = self._ask("generate_until", arguments)
        pairs = zip(requests, texts, strict=True)
        replies = [reply(self.lm, text, request.max_new_tokens) for request, text in pairs]
        truncated = (
            index
            for index, (request, (prompt, _)) in enumerate(zip(requests, arguments, strict=True))
            if isinstance(prompt, str) and self._is_long(prompt, request.max_new_tokens)
        )
        return Outputs(replies, frozenset(truncated))

    def _chat(self, messages: Sequence[Message]) -> str:
        """Return a conversation rendered by the model's own template, with the header of the answer."""
        return str(self._apply_template(messages))

    def _render_prompt(self, request: Prompt) -> Rendered:
        """Return a prompt as lm-eval takes it: text, or the conversation for a chat API, which it keeps as JSON."""
        return self._apply_template(request.messages) if self.is_chat_model else request.plain

    def _apply_template(self, messages: Sequence[Message]) -> Rendered:
        try:
            return self.lm.apply_chat_template([asdict(message) for message in messages])
        except (ValueError, TypeError, NotImplementedError) as error:
            raise ModelError(f"lm_eval:{self.request.name} has no usable chat template: {one_line(error)}") from error

    def _ask(self, method: str, arguments: Sequence[tuple[object, ...]]) -> list[Any]:
        """Return one answer per request from a method of the LM.

        Raises:
            ModelError: the LM does not support the method after all, or its server does not answer.
        """
        function = getattr(self.lm, method)
        self.lm.set_cache_hook(CountingHook(len(arguments)))
        quietly = {"disable_tqdm": True} if "disable_tqdm" in inspect.signature(function).parameters else {}
        try:
            with suppress_logging("lm_eval", errors=True):
                return list(function(instances(method, arguments), **quietly))
        except NotImplementedError as error:
            raise ModelError(f"lm_eval:{self.request.name} does not implement {method}: {one_line(error)}") from error
        except request_errors(self.request) as error:
            location = f" at {self.request.options['base_url']}" if "base_url" in self.request.options else ""
            raise ModelError(f"lm_eval:{self.request.name}{location} did not answer: {one_line(error)}") from error

    def _note(self, prompt: object) -> None:
        """Record the tokens of the first prompt, which show what a tokenizer or template put before it."""
        if self.first_prompt is None and isinstance(prompt, str) and count_tokens(self.lm, "") is not None:
            self.first_prompt = [int(token) for token in self.lm.tok_encode(prompt)]

    # ---- what did not fit, where the LM has its tokenizer at hand ----------------------------------------------------

    def _is_scored(self, context: str, continuation: str) -> bool:
        """Return whether lm-eval's encoding leaves a continuation a token; count those that lose one to the context."""
        if not continuation.strip():
            return False
        if not context or not self._encodes_pairs or getattr(self.lm, "backend", "causal") != "causal":
            return True
        context_ids, continuation_ids = self.lm._encode_pair(context, continuation)
        self.joined += self.lm.tok_encode(context + continuation)[: len(context_ids)] != context_ids
        return bool(continuation_ids)

    @property
    def _encodes_pairs(self) -> bool:
        return count_tokens(self.lm, "") is not None and hasattr(self.lm, "_encode_pair")

    def _is_cut(self, context: str, continuation: str) -> bool:
        """Return whether lm-eval cut off the beginning of a context."""
        limit = getattr(self.lm, "max_length", None)
        if limit is None or not context or not self._encodes_pairs:
            return False
        context_length, continuation_length = map(len, self.lm._encode_pair(context, continuation))
        if getattr(self.lm, "backend", "causal") != "causal":
            return bool(max(context_length, continuation_length) > limit)
        length = context_length + continuation_length - self.request.is_local  # transformers reads no last token
        return bool(length > limit)

    def _is_long(self, prompt: str, max_new_tokens: int) -> bool:
        """Return whether a prompt leaves too little room for an answer."""
        limit = getattr(self.lm, "max_length", None)
        tokens = None if count_tokens(self.lm, "") is None else len(self.lm.tok_encode(prompt))
        causal = getattr(self.lm, "backend", "causal") == "causal"
        return limit is not None and tokens is not None and tokens + max_new_tokens * causal > limit

    # ---- for the record ----------------------------------------------------------------------------------------------

    def fingerprint(self) -> str:
        """Return lm-eval's version, the model's name and options, and digests of local files."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        identity = self.request.identity()
        return " ".join(f"{key}={value}" for key, value in identity.items())

    def describe(self) -> JSON:
        """Return the model's description for the record, which has more details once the LM is made."""
        request = self.request
        description: JSON = {"library": f"lm-eval {lm_eval_version()}", "class": request.kind.__name__}
        if "loglikelihood" not in request.offers:
            description["no_loglikelihood"] = lm_eval_models.NO_LOGLIKELIHOOD.get(request.name, "its class has none")
        lm = vars(self).get("lm")
        limit = getattr(lm, "max_length", None)
        device = getattr(lm, "device", None)
        details = {"max_length": limit, "device": None if device is None else str(device)}
        if self.first_prompt is not None:
            description |= {"first_prompt_ids": self.first_prompt, "chat_template": hasattr(self, "chat")}
        if self.first_prompt is not None and hasattr(getattr(lm, "tokenizer", None), "bos_token"):
            description["warnings"] = opening_warnings(lm.tokenizer, self.first_prompt)  # type: ignore[union-attr]
        if self.joined:
            warning = (
                f"{pluralize(self.joined, 'option')} with a token across the border to the prompt, which lm-eval "
                "leaves out (NaN if it is the only one); --model hf:NAME scores all of an option"
            )
            description["warnings"] = [*description.get("warnings", ()), warning]
        if self.request.is_local and hasattr(network := getattr(lm, "model", None), "parameters"):
            details["parameters"] = parameters(network)
        return description | {key: value for key, value in details.items() if value is not None}

    def close(self) -> None:
        """Release the LM; it is made again when needed."""
        vars(self).pop("lm", None)
        release_memory()


@dataclass(frozen=True, slots=True)
class CountingHook:
    """Cache hook that stores nothing. An LM passes it each answer at once, long before a call returns."""

    requests: int

    def add_partial(self, _method: str, _request: object, _answer: object) -> None:
        """Report that one more request of the call is answered."""
        report_share(1 / self.requests)


def request_errors(request: ModelRequest) -> tuple[type[Exception], ...]:
    """Return the exceptions that lm-eval raises if a server is down, refuses, or sends something unexpected.

    There are none for a model in this process, where they would be bugs.
    """
    if request.name not in lm_eval_models.KEYS and "base_url" not in lm_eval_models.parameters(request.kind)[0]:
        return ()
    errors: tuple[type[Exception], ...] = (OSError, RuntimeError, ValueError, KeyError, AssertionError)
    try:
        from aiohttp import ClientError
    except ImportError:
        return errors
    return (*errors, ClientError)
