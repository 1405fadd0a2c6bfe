"""Options of models behind an API from `--model_args`, checked before anything is asked or paid for.

`ApiSettings` holds those of every provider, and each dialect adds its own. `Endpoint` is the address that they lead to,
with the key.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from figeval.errors import ModelError
from figeval.io.json_files import JSONObject, JSONValue, parse_json
from figeval.reasoning import Reasoning
from figeval.types import Prompt

from ..torch_models.settings import one_of, parse_integer, parse_number, parse_positive, positive
from .formats import ANTHROPIC, OPENAI, wrapping
from .secret import without_key
from .thinking import STYLES

LOOPBACK = re.compile(r"localhost|.*\.localhost|127(\.\d+){3}|::1")
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
MIN_THINKING_TOKENS = 1024  # tokens of the smallest budget for thinking at Anthropic
SWITCH = {"on": True, "off": False, "true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """Options that all models behind an API share.

    Attributes:
        base_url: address of the server, up to `/v1`; empty for the company's own.
        api_key_env: environment variable that holds the key; empty for the usual one.
        max_concurrent: number of requests that are under way at the same time.
        timeout: seconds for one attempt, from sending to the last byte.
        max_retries: number of further attempts after one that failed.
        temperature: sampling temperature; None for the server's default.
        top_p: share of the probability from which tokens are sampled; None for the server's default.
        reasoning: whether and how long the model thinks before it answers (--reasoning); None for its default.
        reasoning_tokens: tokens added to the limit of every answer, for models whose limit includes thinking; without
            it, those of `reasoning`.
        reasoning_style: how the server is asked to think, or not; empty for what fits it.
        structured: how the server is held to a format (`figeval.builtin.plugins.api.formats`); empty for what its
            provider has.
        send_stop: whether stop texts are also sent to the server, which then stops writing; they are always cut off
            here.
        extra_body: further fields of every request, as a JSON object.
        input_price: price per million tokens read; None for that of a file of prices (`prices`), if it has one.
        output_price: price per million tokens written.
        max_cost: limit of a run over all its sessions, in the currency of the prices.
        max_tokens: limit of a run over all its sessions, in tokens read and written.
        batch: whether requests go through the batch API (--batch).
        resubmit_lost: whether requests of a batch without results are submitted again (--resubmit_lost).
        memo: whether answers are remembered, so that the same question is not paid for twice.
        account: name that tells the spending of one run from that of others.
        seed: number that distinguishes samples.

    Raises:
        ModelError: a value of the wrong kind.
    """

    model: str = ""
    base_url: str = ""
    api_key_env: str = ""
    max_concurrent: int = 8
    timeout: float = 120.0
    max_retries: int = 6
    temperature: float | None = 0.0
    top_p: float | None = None
    seed: int | None = None
    reasoning: Reasoning | None = None
    reasoning_tokens: int = 0
    reasoning_style: str = ""
    structured: str = ""
    send_stop: bool = True
    extra_body: Mapping[str, JSONValue] = field(default_factory=dict)
    input_price: float | None = None
    output_price: float | None = None
    max_cost: float | None = None
    max_tokens: int | None = None
    batch: bool = False
    resubmit_lost: bool = False
    memo: bool = True
    account: str = ""

    def __post_init__(self) -> None:
        if not self.model:
            raise ModelError("no model is given; add it after a colon, e.g. --model openai:gpt-4o-mini")
        checks = {
            "max_concurrent": positive,
            "timeout": parse_positive,
            "max_retries": parse_integer,
            "temperature": parse_number,
            "top_p": parse_positive,
            "reasoning_tokens": parse_integer,
            "send_stop": parse_switch,
            "extra_body": parse_json_object,
            "input_price": parse_number,
            "output_price": parse_number,
            "max_cost": parse_positive,
            "max_tokens": positive,
            "memo": parse_switch,
        }
        for name, check in checks.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check(name, value))

        if self.resubmit_lost and not self.batch:
            raise ModelError("--resubmit_lost is for requests of --batch; give both, or leave it out")
        if self.batch and not self.memo:
            raise ModelError("--batch keeps answers in the memo until all have arrived; leave out memo=off")
        if self.reasoning_tokens and self.reasoning is not None and self.reasoning.budget is not None:
            raise ModelError("--reasoning budget=N and reasoning_tokens are the same; give only one of them")

    @property
    def thinking(self) -> Reasoning | None:
        """The setting `reasoning`, with `reasoning_tokens` as its budget if the user gave both."""
        if self.reasoning is not None and self.reasoning.on and self.reasoning_tokens:
            return Reasoning(on=True, budget=self.reasoning_tokens)
        return self.reasoning

    def room(self, prompt: Prompt, thinking: Reasoning | None) -> int:
        """Return the most tokens of a reply: those of the answer, of thinking, and of the object around a choice."""
        thoughts = self.reasoning_tokens if thinking is None else thinking.tokens
        return prompt.max_new_tokens + thoughts + wrapping(prompt.answer, self.structured)

    @property
    def sampled(self) -> bool:
        """True if the same question may get different answers."""
        return self.temperature != 0

    @property
    def may_vary(self) -> bool:
        """True if answers are sampled, as those of most models that think are at any temperature."""
        return self.sampled or (self.thinking is not None and self.thinking.on)

    def seed_of(self, prompt: Prompt) -> int | None:
        """Return the seed to send with a prompt, another one for each of its samples; None if it is not sampled."""
        if not self.sampled or self.seed is None or not prompt.sample:
            return self.seed if self.sampled else None
        digest = hashlib.sha256(f"{self.seed} {prompt.sample}".encode()).digest()
        return int.from_bytes(digest[:4]) >> 1  # servers accept 31 bits

    @property
    def decoding(self) -> dict[str, float]:
        """Options that every dialect sends under the same name; those that are None are left to the server."""
        options = {"temperature": self.temperature, "top_p": self.top_p}
        return {name: value for name, value in options.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAISettings(ApiSettings):
    """Settings of OpenAI-compatible servers.

    `reasoning_style` is effort, template, openrouter or qwen; empty for what fits the address (`thinking`).
    `structured` is response_format, json_object, structured_outputs or guided (`formats`).

    Attributes:
        reasoning_effort: how long the model thinks, for models that accept it: `low`, `medium`, `high`.
        max_completion_tokens_key: the server's name for the limit of an answer: `max_completion_tokens` at OpenAI
            itself, whose newer models accept no other, `max_tokens` elsewhere.
    """

    reasoning_effort: str | None = None
    max_completion_tokens_key: str | None = None

    def __post_init__(self) -> None:
        ApiSettings.__post_init__(self)
        one_of("reasoning_style", self.reasoning_style, ("", *STYLES))
        one_of("structured", self.structured, ("", *OPENAI))
        if self.reasoning_effort and self.reasoning is not None and not self.reasoning.on:
            raise ModelError("reasoning_effort and --reasoning off contradict each other; give only one of them")
        if self.max_completion_tokens_key not in (None, "max_tokens", "max_completion_tokens"):
            raise ModelError("max_completion_tokens_key is max_tokens or max_completion_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicSettings(ApiSettings):
    """Settings of Anthropic's models.

    `reasoning_style` is `adaptive`, with which models from Claude 4.6 on decide how long they think, or `enabled`, the
    budget of earlier ones; empty for `enabled` if there is a budget, and `adaptive` otherwise. `structured` is
    `output_config`, or `tool` for models before Claude 4.5.
    """

    def __post_init__(self) -> None:
        ApiSettings.__post_init__(self)
        one_of("reasoning_style", self.reasoning_style, ("", "adaptive", "enabled"))
        one_of("structured", self.structured, ("", *ANTHROPIC))
        thinking = self.thinking
        if thinking is not None and thinking.budget is not None and thinking.budget < MIN_THINKING_TOKENS:
            raise ModelError(
                f"--reasoning {thinking}: Anthropic's smallest budget is {MIN_THINKING_TOKENS:,} tokens; "
                "give that or more"
            )
        if thinking is not None and thinking.on and self.structured == "tool":
            raise ModelError(
                "a model that thinks cannot be made to call a tool; leave out structured=tool or --reasoning"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings(OpenAISettings):
    """Settings of a server that also computes log-likelihoods: those of `openai`, and the model's tokenizer.

    Attributes:
        tokenizer: folder or hub id with the tokenizer of the served model; empty if that is its name.
        revision: branch, tag or commit of the tokenizer on the hub; None for its main branch.
        max_length: most tokens of a text; None for what the server says, or else the tokenizer.
        apply_chat_template: whether conversations are rendered by the chat template; it must be True or False if the
            tokenizer has one. Answers in words need it, because servers render conversations themselves.
        add_bos_token: whether contexts begin with the token that begins a text.
        prefix_token_id: token that stands for an empty context; None for the one that begins a text, or else ends it.
        enable_thinking: passed to chat templates that can switch thinking on and off.

    Raises:
        ModelError: a value of the wrong kind.
    """

    tokenizer: str = ""
    revision: str | None = None
    max_length: int | None = None
    apply_chat_template: bool | None = None
    add_bos_token: bool | None = None
    prefix_token_id: int | None = None
    enable_thinking: bool | None = None

    def __post_init__(self) -> None:
        OpenAISettings.__post_init__(self)
        if self.max_length is not None:
            object.__setattr__(self, "max_length", positive("max_length", self.max_length))
        if self.sampled:
            raise ModelError("log-likelihoods are not sampled; leave temperature= out")
        if self.batch:
            raise ModelError("these servers have no batch API; leave --batch out")


def parse_switch(name: str, value: object) -> bool:
    """Return True for on and False for off. Raises `ModelError` for anything else."""
    if str(value).lower() not in SWITCH:
        raise ModelError(f"{name}={value} must be on or off")
    return SWITCH[str(value).lower()]


def parse_json_object(name: str, value: object) -> JSONObject:
    """Return a JSON object, given as such or as text. Raises `ModelError` for anything else."""
    try:
        content = parse_json(value) if isinstance(value, str) else value
    except ValueError:
        content = None
    if not isinstance(content, Mapping):
        raise ModelError(f"""{name} is not a JSON object; write --model_args '{{"{name}": {{"top_k": 1}}, …}}'""")
    return dict(content)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of requests, and the key for it. No text made from this object contains the key."""

    url: str  # without a trailing slash
    key: str = field(repr=False)
    key_variable: str = ""  # environment variable that holds the key

    @property
    def host(self) -> str:
        """Host without its port."""
        return urlsplit(self.url).hostname or ""

    @property
    def local(self) -> bool:
        """True if the host is this machine."""
        return LOOPBACK.fullmatch(self.host) is not None

    def scrub(self, text: str) -> str:
        """Return a text without the key, which a server may have quoted. A short one like `none` is no secret."""
        return without_key(text, self.key)


def resolve_endpoint(settings: ApiSettings, usual_url: str, usual_variable: str) -> Endpoint:
    """Return the address and its key.

    Raises:
        ModelError: an invalid address, one that contains a secret, or no key for a server on another machine.
    """
    url = plain_url(settings.base_url or usual_url)
    variable = settings.api_key_env or usual_variable
    if not VARIABLE.fullmatch(variable):  # it may be the key itself, so the message does not repeat it
        raise ModelError("api_key_env must be the name of an environment variable (capitals, digits, _), not the key")
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ModelError(f"{variable} contains blanks or other characters that cannot be in a key; set it again")
    endpoint = Endpoint(url, key, variable)
    if not key and not endpoint.local:
        raise ModelError(
            f"no key for {endpoint.host}: set the environment variable {variable} (any value where the server asks for "
            f"none), or name another one with --model_args api_key_env=NAME"
        )
    return endpoint


def plain_url(url: str) -> str:
    """Return an http(s) address without a trailing slash. Raises `ModelError` for an invalid address.

    The address must have no user, password or query. The message does not repeat what may be a secret.
    """
    try:
        parts = urlsplit(url)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        raise ModelError("base_url is not a valid address; write it like http://localhost:8000/v1") from None
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ModelError("base_url holds a user, password or query, which would be recorded; put the key into the "
                         "environment variable and leave them out")  # fmt: skip
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_fine:
        raise ModelError("base_url is not a valid address; write it like http://localhost:8000/v1")
    return url.rstrip("/")
