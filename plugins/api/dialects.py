"""Request and response formats of two families of servers.

They are OpenAI's chat completions, which most servers support (vLLM, llama.cpp, `transformers serve`, OpenRouter …),
and Anthropic's messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from figeval.errors import ModelError
from figeval.jsonfile import JSONObject, JSONValue
from figeval.models.archive import Usage
from figeval.text import one_line, valid
from figeval.types import JSON, Finish, Message, Prompt, Reply

from .settings import ApiSettings, Endpoint

ENDINGS: dict[str, Finish] = {
    "length": "length",
    "content_filter": "refusal",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
LONGEST = 200  # characters of a model's own name
MOST = 10**8  # tokens of one request; no model reads or writes as many
STOPS = 4  # the most stop texts that OpenAI accepts; the others are applied here


class Unreadable(Exception):
    """A body that is no answer of this API: truncated, or an error with a status of success."""


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """A reply, the tokens that the server counted (None if it does not say), and the model's name by the server."""

    reply: Reply
    usage: Usage | None = None
    model: str = ""


class Dialect(Protocol):
    """The protocol of a family of servers."""

    url: ClassVar[str]
    variable: ClassVar[str]  # the environment variable with the key
    path: ClassVar[str]

    def headers(self, key: str) -> dict[str, str]: ...
    def body(self, prompt: Prompt) -> JSON: ...
    def read(self, answer: JSONObject) -> ApiAnswer: ...


# ---- OpenAI --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAISettings(ApiSettings):
    """Settings of OpenAI-compatible servers.

    Attributes:
        reasoning_effort: how long the model thinks, for models that accept it: `low`, `medium`, `high`.
        max_completion_tokens_key: the server's name for the limit of an answer: `max_completion_tokens` at OpenAI
            itself, whose newer models accept no other, `max_tokens` elsewhere.
    """

    reasoning_effort: str | None = None
    max_completion_tokens_key: str | None = None

    def __post_init__(self) -> None:
        ApiSettings.__post_init__(self)
        if self.max_completion_tokens_key not in (None, "max_tokens", "max_completion_tokens"):
            raise ModelError("max_completion_tokens_key is max_tokens or max_completion_tokens")


@dataclass(frozen=True, slots=True)
class OpenAI:
    """The dialect of https://platform.openai.com/docs/api-reference/chat, extended by other servers' reasoning."""

    settings: OpenAISettings
    url: ClassVar[str] = "https://api.openai.com/v1"
    variable: ClassVar[str] = "OPENAI_API_KEY"
    path: ClassVar[str] = "/chat/completions"

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers with the key, if there is one."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, prompt: Prompt) -> JSON:
        """Return the body of a request."""
        settings = self.settings
        ours = settings.base_url.rstrip("/") in ("", self.url)
        limit = settings.max_completion_tokens_key or ("max_completion_tokens" if ours else "max_tokens")
        optional: JSON = {
            "stop": list(prompt.stop[:STOPS]) if settings.send_stop else [],
            "seed": settings.seed if settings.sampled else None,  # some servers reject it
            "reasoning_effort": settings.reasoning_effort,
        }
        return {
            "model": settings.model,
            "messages": [turn(message) for message in prompt.messages],
            limit: prompt.max_new_tokens + settings.reasoning_tokens,
            **settings.decoding,
            **{name: value for name, value in optional.items() if value not in (None, [])},
            **settings.extra_body,
        }

    def read(self, answer: JSONObject) -> ApiAnswer:
        """Return the first choice. Raises `Unreadable`."""
        choice = first(answer.get("choices"))
        message = mapping(choice.get("message"))
        reason = str(choice.get("finish_reason") or "stop")
        if reason == "error":
            raise Unreadable("the server interrupted its answer")
        text, thoughts = parts(message.get("content"))
        refusal = message.get("refusal")
        reply = Reply(
            text=text or str(refusal or ""),
            finish="refusal" if refusal else ENDINGS.get(reason, "stop"),
            reasoning=str(message.get("reasoning_content") or message.get("reasoning") or thoughts),
        )
        used = counts_of(answer)
        return ApiAnswer(reply, usage(used, "prompt_tokens", "completion_tokens"), str(answer.get("model") or ""))


# ---- Anthropic -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Anthropic:
    """The dialect of https://docs.anthropic.com/en/api/messages. It has no seed, and no blank stop texts."""

    settings: ApiSettings
    url: ClassVar[str] = "https://api.anthropic.com/v1"
    variable: ClassVar[str] = "ANTHROPIC_API_KEY"
    path: ClassVar[str] = "/messages"

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers with the key, if there is one, and the version of the API."""
        return {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}

    def body(self, prompt: Prompt) -> JSON:
        """Return the body of a request; system turns are separate from the others."""
        settings = self.settings
        system = "\n\n".join(message.content for message in prompt.messages if message.role == "system")
        stops = [text for text in prompt.stop if text.strip()] if settings.send_stop else []
        return {
            "model": settings.model,
            "messages": [turn(message) for message in prompt.messages if message.role != "system"],
            "max_tokens": prompt.max_new_tokens + settings.reasoning_tokens,
            **({"system": system} if system else {}),
            **({"stop_sequences": stops} if stops else {}),
            **settings.decoding,
            **settings.extra_body,
        }

    def read(self, answer: JSONObject) -> ApiAnswer:
        """Return the text blocks. Raises `Unreadable`."""
        if not isinstance(answer.get("content"), list):
            raise Unreadable("no content in it")
        text, thoughts = parts(answer["content"])
        finish = ENDINGS.get(str(answer.get("stop_reason")), "stop")
        used = counts_of(answer)
        cached = ("cache_read_input_tokens", "cache_creation_input_tokens")
        spent = usage(used, "input_tokens", "output_tokens", *cached)
        return ApiAnswer(Reply(text=text, finish=finish, reasoning=thoughts), spent, str(answer.get("model") or ""))


# ---- both ----------------------------------------------------------------------------------------------------------


def turn(message: Message) -> JSON:
    """Return a turn in the format of both families. The blank before an example's answer belongs to plain text only."""
    content = message.content.strip() if message.role == "assistant" else message.content
    return {"role": message.role, "content": content}


def parts(content: JSONValue) -> tuple[str, str]:
    """Return the text and the thoughts of a message, whose content is a text, nothing, or a list of blocks."""
    blocks: list[JSONValue] = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    told = {kind: "".join(str(block.get(kind) or "") for block in map(mapping, blocks) if block.get("type") == kind)
            for kind in ("text", "thinking")}  # fmt: skip
    return told["text"], told["thinking"]


def usage(used: JSONObject, read: str, written: str, *also_read: str) -> Usage | None:
    """Return the tokens that the server counted, or None if it gives no counts or impossible ones.

    A budget holds only if nothing is refunded, and every request reads something, so such counts are not used.
    """
    wrote, *counts = used.get(written), *(used.get(name) or 0 for name in (read, *also_read))
    told = [count for count in (wrote, *counts) if type(count) is int and 0 <= count <= MOST]
    return Usage(sum(told[1:]), told[0]) if len(told) == len(counts) + 1 and any(told[1:]) else None


def counts_of(answer: JSONObject) -> JSONObject:
    """Return the server's counts, or {} if they are malformed, since the answer itself is already paid for."""
    used = answer.get("usage")
    return used if isinstance(used, dict) else {}


def first(value: JSONValue) -> JSONObject:
    """Return the first of a list of objects. Raises `Unreadable`."""
    if not isinstance(value, list) or not value:
        raise Unreadable("no answer in it")
    return mapping(value[0])


def mapping(value: JSONValue) -> JSONObject:
    """Return an object. Raises `Unreadable` for any other value."""
    if not isinstance(value, dict):
        raise Unreadable("not of the expected form")
    return value


def scrubbed(answer: ApiAnswer, endpoint: Endpoint) -> ApiAnswer:
    """Return the answer in a form that can be stored: without the key, if the server quoted it, and as valid text."""
    reply = answer.reply
    text, reasoning = (valid(endpoint.scrub(told)) for told in (reply.text, reply.reasoning))
    model = one_line(endpoint.scrub(answer.model), LONGEST)
    return ApiAnswer(Reply(text=text, finish=reply.finish, reasoning=reasoning), answer.usage, model)
