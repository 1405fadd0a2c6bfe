"""Request and response formats of servers that answer in words.

They are OpenAI's chat completions, which most servers support (vLLM, llama.cpp, `transformers serve`, OpenRouter …),
Anthropic's messages, and those of other plugins (`figeval.ChatApi`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from figeval.answers.reply_text import strip_reasoning
from figeval.errors import PluginError
from figeval.io.json_files import JSONObject, JSONValue
from figeval.io.text import one_line, valid
from figeval.models.chat_api import ApiAnswer, ApiOptions, ChatApi
from figeval.reasoning import Reasoning
from figeval.registry import a_type
from figeval.types import JSON, Finish, Message, Prompt, Reply

from .api_settings import AnthropicSettings, ApiSettings, Endpoint, OpenAISettings
from .archive import Usage
from .faults import WITHHELD, block_reason
from .formats import ANTHROPIC, OPENAI, as_text
from .thinking import STYLES, style_at

OPENAI_URL = "https://api.openai.com/v1"
LENGTH_REASONS = {"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"}
INTERRUPTION_REASONS = {"error", "abort", "insufficient_system_resource"}  # OpenRouter; vLLM and SGLang; DeepSeek
MAX_LINE_CHARS = 200  # characters of a model's own name, and of its reason for a refusal
MAX_TOKENS = 10**8  # tokens of one request; no model reads or writes as many
MAX_STOPS = 4  # stop texts that OpenAI accepts; the others are applied here


class Unreadable(Exception):
    """A body that is no answer of this API: truncated, or an error with a status of success."""


@dataclass(frozen=True, slots=True)
class DialectAnswer:
    """A reply, the tokens that the server counted (None if it does not say), and the model's name by the server."""

    reply: Reply
    usage: Usage | None = None
    model: str = ""


class Dialect(Protocol):
    """An interface of a family of servers; `read` raises `Unreadable`."""

    @property
    def path(self) -> str: ...

    def headers(self, key: str) -> dict[str, str]: ...
    def read(self, answer: JSONObject) -> DialectAnswer: ...


class ChatDialect(Dialect, Protocol):
    """An interface that is asked for an answer in words."""

    def body(self, prompt: Prompt, thinking: Reasoning | None = None) -> JSON: ...


def bearer(key: str) -> dict[str, str]:
    """Return the usual header with the key, if there is one."""
    return {"Authorization": f"Bearer {key}"} if key else {}


# ---- OpenAI --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenAI:
    """The dialect of https://platform.openai.com/docs/api-reference/chat, extended by other servers' reasoning."""

    settings: OpenAISettings
    path: ClassVar[str] = "/chat/completions"

    def headers(self, key: str) -> dict[str, str]:
        return bearer(key)

    def body(self, prompt: Prompt, thinking: Reasoning | None = None) -> JSON:
        """Return the body of a request. OpenAI's own models take no temperature while they think."""
        settings = self.settings
        is_openai = settings.base_url == OPENAI_URL
        limit = settings.max_completion_tokens_key or ("max_completion_tokens" if is_openai else "max_tokens")
        thinks = thinking is not None and thinking.on
        optional: JSON = {
            # Within thoughts, a stop text would end the answer before it begins; it is applied here instead.
            "stop": list(prompt.stop[:MAX_STOPS]) if settings.send_stop and not thinks else [],
            "seed": settings.seed_of(prompt),  # some servers reject it
        }
        return {
            "model": settings.model,
            "messages": [turn(message) for message in prompt.messages],
            limit: settings.room(prompt, thinking),
            **({} if thinks and is_openai else settings.decoding),
            **{name: value for name, value in optional.items() if value not in (None, [])},
            **self._thinking(thinking),
            **({} if prompt.answer is None else OPENAI[settings.structured](prompt.answer)),
            **settings.extra_body,
        }

    def _thinking(self, thinking: Reasoning | None) -> JSON:
        settings = self.settings
        style = settings.reasoning_style or style_at(settings.base_url)
        fields = {} if thinking is None else STYLES[style](thinking)
        return fields | ({"reasoning_effort": settings.reasoning_effort} if settings.reasoning_effort else {})

    def read(self, answer: JSONObject) -> DialectAnswer:
        """Return the first choice, or a refusal if the answer was withheld. Raises `Unreadable`."""
        choices = answer.get("choices")
        is_empty = not (any(choices) if isinstance(choices, list) else choices)
        if is_empty and (cause := block_reason(answer)):
            return withheld_answer(answer, cause)
        choice = first_object(choices)
        reason = reason_of(choice)
        finish = finish_of(reason)
        if reason.lower() in INTERRUPTION_REASONS:
            raise Unreadable("the server interrupted its answer")
        message = choice.get("message")
        if message is None and is_complete(choice):
            if finish != "length":
                return withheld_answer(answer, reason if finish == "refusal" else "the server gave no message")
            message = {}
        message = mapping(message)
        text, thoughts, refusal_text = parts(message.get("content"))
        refusal = message.get("refusal") or refusal_text
        thoughts = str(message.get("reasoning_content") or message.get("reasoning") or thoughts)
        counts = counts_of(answer)
        usage = read_chat_usage(counts)
        details = counts.get("completion_tokens_details")
        reported_tokens = details.get("reasoning_tokens") if isinstance(details, dict) else None
        reply = counted_reply(text, finish, thoughts, usage, hidden_tokens(counts) or reported_tokens)
        if refusal:
            reply = replace(reply, text=text or str(refusal), finish="refusal")
        return DialectAnswer(reply, usage, str(answer.get("model") or ""))


# ---- Anthropic -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Anthropic:
    """The dialect of https://docs.anthropic.com/en/api/messages. It has no seed, and no blank stop texts."""

    settings: AnthropicSettings
    path: ClassVar[str] = "/messages"

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers with the key, if there is one, and the version of the API."""
        return {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}

    def body(self, prompt: Prompt, thinking: Reasoning | None = None) -> JSON:
        """Return the body of a request; system turns are separate, and a model that thinks takes no temperature."""
        settings = self.settings
        thinks = thinking is not None and thinking.on
        system = "\n\n".join(message.content for message in prompt.messages if message.role == "system")
        stops = [text for text in prompt.stop if text.strip()] if settings.send_stop and not thinks else []
        return {
            "model": settings.model,
            "messages": [turn(message) for message in prompt.messages if message.role != "system"],
            "max_tokens": settings.room(prompt, thinking),
            **({"system": system} if system else {}),
            **({"stop_sequences": stops} if stops else {}),
            **({} if thinks else settings.decoding),
            **({} if thinking is None else {"thinking": self._thinking(thinking)}),
            **({} if prompt.answer is None else ANTHROPIC[settings.structured](prompt.answer)),
            **settings.extra_body,
        }

    def _thinking(self, thinking: Reasoning) -> JSON:
        if not thinking.on:
            return {"type": "disabled"}
        has_budget = self.settings.thinking is not None and self.settings.thinking.budget is not None
        style = self.settings.reasoning_style or ("enabled" if has_budget else "adaptive")
        return {"type": style, **({"budget_tokens": thinking.tokens} if style == "enabled" else {})}

    def read(self, answer: JSONObject) -> DialectAnswer:
        """Return the text blocks. Raises `Unreadable`."""
        content = answer.get("content")
        finish = finish_of(str(answer.get("stop_reason") or ""))
        if finish == "refusal" and content is None:
            content = []
        if not isinstance(content, list):
            raise Unreadable("no content in it")
        text, thoughts, _ = parts(content)
        tool_calls = [block for block in map(mapping, content) if block.get("type") == "tool_use"]
        text = as_text(tool_calls[0].get("input")) if tool_calls and not text.strip() else text
        counts = counts_of(answer)
        cache_keys = ("cache_read_input_tokens", "cache_creation_input_tokens")
        usage = read_usage(counts, "input_tokens", "output_tokens", *cache_keys)
        details = counts.get("output_tokens_details")
        reported_tokens = details.get("thinking_tokens") if isinstance(details, dict) else None
        reply = counted_reply(text, finish, thoughts, usage, reported_tokens)
        return DialectAnswer(reply, usage, str(answer.get("model") or ""))


# ---- protocols of other plugins ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PublicDialect:
    """A dialect that asks and reads as a `figeval.ChatApi` says."""

    api: ChatApi
    settings: ApiSettings

    @property
    def path(self) -> str:
        return self.api.path

    def headers(self, key: str) -> dict[str, str]:
        return dict(self.api.headers(key))

    def body(self, prompt: Prompt, thinking: Reasoning | None = None) -> JSON:
        """Return the body of a request, with the user's `extra_body`."""
        settings = self.settings
        options = ApiOptions(
            model=settings.model,
            max_tokens=settings.room(prompt, thinking),
            temperature=settings.temperature,
            top_p=settings.top_p,
            seed=settings.seed_of(prompt),
        )
        return {**self.api.body(prompt, options), **settings.extra_body}

    def read(self, answer: JSONObject) -> DialectAnswer:
        """Return the answer in a response. Raises `Unreadable`."""
        try:
            public_answer = self.api.read(answer)
        except (LookupError, TypeError, ValueError) as error:
            raise Unreadable(f"{type(self.api).__name__}.read raised {type(error).__name__}") from error
        if not isinstance(public_answer, ApiAnswer):
            raise PluginError(
                f"{type(self.api).__name__}.read returned {a_type(public_answer)}; return a figeval.ApiAnswer"
            )
        reply = Reply(text=public_answer.text, finish=public_answer.finish, reasoning=public_answer.reasoning)
        counts: JSONObject = {"read": public_answer.tokens_in, "written": public_answer.tokens_out}
        return DialectAnswer(reply, read_usage(counts, "read", "written"), public_answer.model)


# ---- all -----------------------------------------------------------------------------------------------------------


def turn(message: Message) -> JSON:
    """Return a turn in the format of both families. The blank before an example's answer belongs to plain text only."""
    content = message.content.strip() if message.role == "assistant" else message.content
    return {"role": message.role, "content": content}


def parts(content: JSONValue) -> tuple[str, str, str]:
    """Return text, thoughts and refusal of a message, whose content is a text, nothing, a block or a list of blocks."""
    single_block: JSONValue = content if isinstance(content, dict) else {"type": "text", "text": content or ""}
    blocks: list[JSONValue] = content if isinstance(content, list) else [single_block]
    texts = {kind: "".join(str(block.get(kind) or "") for block in map(mapping, blocks) if block.get("type") == kind)
            for kind in ("text", "thinking", "refusal")}  # fmt: skip
    return texts["text"], texts["thinking"], texts["refusal"]


def read_usage(counts: JSONObject, input_key: str, output_key: str, *other_input_keys: str) -> Usage | None:
    """Return the tokens that the server counted, or None if it gives no counts or impossible ones.

    A budget holds only if nothing is refunded, and every request reads something, so such counts are not used.
    """
    tokens_out, *tokens_in = counts.get(output_key), *(counts.get(name) or 0 for name in (input_key, *other_input_keys))
    numbers = [count for count in (tokens_out, *tokens_in) if type(count) is int and 0 <= count <= MAX_TOKENS]
    return Usage(sum(numbers[1:]), numbers[0]) if len(numbers) == len(tokens_in) + 1 and any(numbers[1:]) else None


def read_chat_usage(counts: JSONObject) -> Usage | None:
    """Return the tokens of a chat completion that the server counted, or None as `read_usage` does.

    xAI and Gemini bill thoughts that they leave out of `completion_tokens`; the total contains them.
    """
    usage = read_usage(counts, "prompt_tokens", "completion_tokens")
    return None if usage is None else usage + Usage(0, hidden_tokens(counts))


def billed_usage(body: JSONObject) -> Usage | None:
    """Return the tokens that a server counted beside an error, or None if it gives no counts."""
    counts = counts_of(body)
    return read_chat_usage(counts) or read_usage(counts, "input_tokens", "output_tokens")


def hidden_tokens(counts: JSONObject) -> int:
    """Return how many more tokens the total of a chat completion has than its prompt and its answer."""
    usage, total = read_usage(counts, "prompt_tokens", "completion_tokens"), counts.get("total_tokens")
    return max(0, total - usage.total) if usage is not None and type(total) is int and total <= MAX_TOKENS else 0


def counted_reply(text: str, finish: Finish, thoughts: str, usage: Usage | None, reported_tokens: JSONValue) -> Reply:
    """Return a reply with the numbers of tokens of the answer and of the thoughts before it; None if they are unknown.

    Args:
        text: the text of the answer, in which there may be thoughts between marks.
        finish: how it ended.
        thoughts: the thoughts that the server sent apart from the text.
        usage: tokens that it counted.
        reported_tokens: its number of tokens of the thoughts, if any; some servers write 0 whatever they think.
    """
    reply = Reply(text=text, finish=finish, reasoning=thoughts)
    if usage is None:
        return reply
    visible = bool(thoughts.strip()) or strip_reasoning(text) != text
    if type(reported_tokens) is int and 0 <= reported_tokens <= usage.tokens_out and (reported_tokens or not visible):
        return replace(reply, answer_tokens=usage.tokens_out - reported_tokens, reasoning_tokens=reported_tokens)
    return reply if visible else replace(reply, answer_tokens=usage.tokens_out, reasoning_tokens=0)


def counts_of(answer: JSONObject) -> JSONObject:
    """Return the server's counts, or {} if they are malformed, since the answer itself is already paid for."""
    counts = answer.get("usage")
    return counts if isinstance(counts, dict) else {}


def reason_of(choice: JSONObject) -> str:
    """Return why a choice ended, or "" if that is not said; a provider's own word for a refusal wins (OpenRouter)."""
    native = str(choice.get("native_finish_reason") or choice.get("nativeFinishReason") or "")
    reason = str(choice.get("finish_reason") or choice.get("finishReason") or "")
    return native if WITHHELD.search(native) else reason


def finish_of(reason: str) -> Finish:
    """Return how an answer ended, by the reason that a server gives; one that is not known means by itself."""
    if WITHHELD.search(reason):
        return "refusal"
    return "length" if reason.lower() in LENGTH_REASONS else "stop"


def is_complete(choice: JSONObject) -> bool:
    """Return whether a choice without a message is what the server meant to send, and no answer of another API."""
    return ("message" in choice or bool(reason_of(choice))) and not {"text", "delta"} & choice.keys()


def withheld_answer(answer: JSONObject, reason: str) -> DialectAnswer:
    """Return an answer that the server did not give, with its reason."""
    usage = read_chat_usage(counts_of(answer))
    return DialectAnswer(Reply(text="", finish="refusal", error=reason), usage, str(answer.get("model") or ""))


def first_object(value: JSONValue) -> JSONObject:
    """Return the first of a list of objects. Raises `Unreadable`."""
    if not isinstance(value, list) or not value:
        raise Unreadable("no answer in it")
    return mapping(value[0])


def mapping(value: JSONValue) -> JSONObject:
    """Return an object. Raises `Unreadable` for any other value."""
    if not isinstance(value, dict):
        raise Unreadable("not of the expected form")
    return value


def scrub_answer(answer: DialectAnswer, endpoint: Endpoint) -> DialectAnswer:
    """Return the answer in a form that can be stored: without the key, if the server quoted it, and as valid text."""
    reply = answer.reply
    text, reasoning = (valid(endpoint.scrub(text)) for text in (reply.text, reply.reasoning))
    error, model = (one_line(endpoint.scrub(text), MAX_LINE_CHARS) for text in (reply.error, answer.model))
    return DialectAnswer(replace(reply, text=text, reasoning=reasoning, error=error), answer.usage, model)
