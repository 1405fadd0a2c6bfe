"""Requests of servers for the log-probabilities of a given text, and what they answer.

A response becomes the list of (token, log-probability) of the text's last tokens, stored as a reply whose text is that
list in JSON. `token` is an id, or where a server gives none, the token's text.

| server | request | log-probabilities |
|---|---|---|
| vLLM | `/v1/completions` with ids and `prompt_logprobs=0` | of all tokens of the prompt, by id |
| SGLang | `/generate` with ids and `logprob_start_len`, the last token of the context | of the tokens after it, by id |
| llama-cpp-python | `/v1/completions` with text, `echo` and `logprobs=1` | of the third token on, by their text |
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from figeval.errors import ModelError
from figeval.io.json_files import JSONObject, JSONValue
from figeval.io.text import whole_number
from figeval.types import JSON, Reply

from .api_settings import ServerSettings
from .dialects import DialectAnswer, Unreadable, bearer, counts_of, first_object, mapping, read_usage

if TYPE_CHECKING:
    from ..causal.engine.prefix_tree import TokenRequest

ScoredTokens: TypeAlias = list[tuple[int | str, float]]
MAX_NATS = 1e9  # nats; no log-probability is as large
NO_BEGIN_TOKEN = (
    "llama-cpp-python gives log-probabilities only of what follows the token that begins a text (BOS) and another one; "
    "set --model_args add_bos_token=true if the tokenizer has it, raise max_length for long contexts, or use another "
    "server"
)


@dataclass(frozen=True, slots=True)
class ScoringDialect(ABC):
    """An interface that is asked for the log-probabilities of a text: by default the older of OpenAI's, extended."""

    settings: ServerSettings
    path: ClassVar[str] = "/completions"
    by_text: ClassVar[bool] = False  # whether texts are sent, and tokens come back, as text

    def address(self, url: str) -> str:
        """Return the address of this interface, given that of OpenAI's."""
        return url

    def headers(self, key: str) -> dict[str, str]:
        return bearer(key)

    @abstractmethod
    def scoring(self, request: TokenRequest, text: str) -> JSON:
        """Return the body of a request that scores a text, given as tokens and as text."""

    @abstractmethod
    def read(self, answer: JSONObject) -> DialectAnswer:
        """Return the log-probabilities of the last tokens, as a reply in JSON. Raises `Unreadable`."""

    def completion(self, prompt: list[int] | str, **options: object) -> JSON:
        """Return the body of a request at OpenAI's interface, for one token after a prompt."""
        body = {"model": self.settings.model, "prompt": prompt, "max_tokens": 1, "temperature": 0.0}
        return {**body, **options, **self.settings.extra_body}


class VllmServer(ScoringDialect):
    """`vllm serve`, https://docs.vllm.ai/en/stable/serving/online_serving/."""

    def scoring(self, request: TokenRequest, text: str) -> JSON:
        """Build the body of a request that scores a text."""
        del text
        return self.completion(list(request.ids), prompt_logprobs=0)

    def read(self, answer: JSONObject) -> DialectAnswer:
        """Return the log-probabilities of all tokens but the first. Raises `Unreadable`."""
        prompt_logprobs = require_list(first_object(answer.get("choices")).get("prompt_logprobs"))
        rows = [next(iter(mapping(row).items()), ("", {})) for row in prompt_logprobs[1:]]
        tokens = [whole_number(token) for token, _ in rows]
        if None in tokens:
            raise Unreadable("a token without an id")
        values = (mapping(entry).get("logprob") for _, entry in rows)
        return scored_reply(zip(tokens, values, strict=True), answer)


class SGLang(ScoringDialect):
    """SGLang's native interface, https://docs.sglang.io/basic_usage/native_api.html.

    Only the tokens after `logprob_start_len` cost logits, and what is before it comes from the cache.
    """

    path: ClassVar[str] = "/generate"

    def address(self, url: str) -> str:
        """Return the address of the native interface, which is beside OpenAI's."""
        return url.removesuffix("/v1")

    def scoring(self, request: TokenRequest, text: str) -> JSON:
        """Build the body of a request that scores a text."""
        del text
        start = len(request.ids) - request.predicted - 1
        options = {"input_ids": list(request.ids), "return_logprob": True, "logprob_start_len": start}
        return {**options, "sampling_params": {"temperature": 0, "max_new_tokens": 1}, **self.settings.extra_body}

    def read(self, answer: JSONObject) -> DialectAnswer:
        """Return the log-probabilities of the tokens after the start. Raises `Unreadable`."""
        meta_info = mapping(answer.get("meta_info"))
        rows = [require_list(row) for row in require_list(meta_info.get("input_token_logprobs"))]
        if any(len(row) < 2 for row in rows):
            raise Unreadable("a token without a log-probability")
        counts: JSONObject = {"usage": {name: meta_info.get(name) for name in ("prompt_tokens", "completion_tokens")}}
        return scored_reply(((row[1], row[0]) for row in rows[1:]), counts)  # the first has no log-probability


class LlamaCpp(ScoringDialect):
    """llama-cpp-python's server, https://llama-cpp-python.readthedocs.io/en/latest/server/."""

    by_text: ClassVar[bool] = True

    def scoring(self, request: TokenRequest, text: str) -> JSON:
        """Build the body of a request that scores a text."""
        del request
        return self.completion(text, echo=True, logprobs=1)

    def read(self, answer: JSONObject) -> DialectAnswer:
        """Return the log-probabilities of the prompt's tokens but the first two. Raises `Unreadable`.

        The server leaves out a token that begins texts. Only if it has left out the first one, its log-probabilities
        are those of the tokens beside them, and not of the tokens after (llama-cpp-python 0.3.36).

        Raises:
            ModelError: the text does not begin with such a token.
        """
        logprobs, counts = mapping(first_object(answer.get("choices")).get("logprobs")), counts_of(answer)
        tokens, values = require_list(logprobs.get("tokens")), require_list(logprobs.get("token_logprobs"))
        count, answer_tokens = counts.get("prompt_tokens"), counts.get("completion_tokens")
        if not isinstance(count, int) or not isinstance(answer_tokens, int) or len(tokens) != len(values):
            raise Unreadable("not as many log-probabilities as tokens")
        prompt_tokens = len(tokens) - answer_tokens
        if prompt_tokens == count:
            raise ModelError(NO_BEGIN_TOKEN)
        if not 0 < prompt_tokens < count <= 2 * len(tokens):  # few tokens are left out
            raise Unreadable("not as many log-probabilities as tokens")
        left_out = [("", 0.0)] * (count - prompt_tokens)  # so that there are as many as the server has read
        return scored_reply(
            [*left_out, *zip(map(str, tokens[1:prompt_tokens]), values[1:prompt_tokens], strict=True)], answer
        )


def require_list(value: JSONValue) -> list[JSONValue]:
    """Return a list. Raises `Unreadable` for any other value."""
    if not isinstance(value, list):
        raise Unreadable("no log-probabilities in it")
    return value


def scored_reply(scored_tokens: Iterable[tuple[JSONValue, JSONValue]], answer: JSONObject) -> DialectAnswer:
    """Return log-probabilities as a reply in JSON. Raises `Unreadable` for other values."""
    pairs = [[token, value] for token, value in scored_tokens]
    for token, value in pairs:
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MAX_NATS:
            raise Unreadable("a log-probability that is no number")
        if not isinstance(token, int | str):
            raise Unreadable("a token that is neither an id nor a text")
    usage = read_usage(counts_of(answer), "prompt_tokens", "completion_tokens")
    return DialectAnswer(Reply(text=json.dumps(pairs)), usage, str(answer.get("model") or ""))


def pairs_of(reply: Reply) -> ScoredTokens:
    """Return the tokens of a stored reply with their log-probabilities; none for a reply of another kind."""
    try:
        pairs: ScoredTokens = [(token, float(value)) for token, value in json.loads(reply.text)]
    except (TypeError, ValueError):
        return []
    return pairs


def sum_of(pairs: ScoredTokens, request: TokenRequest, words: Sequence[int | str | None]) -> float | None:
    """Return Σ log P of the last words of a text, or None if the server read another text.

    Args:
        pairs: tokens that the server read, with their log-probabilities.
        request: tokens of the text.
        words: the words as the server names them: ids or texts; None for one whose text is unknown. With texts, the
            server must have read as many tokens as were meant.
    """
    if len(pairs) < len(words) or (not isinstance(words[0], int) and len(pairs) != len(request.ids) - 1):
        return None
    tail = pairs[len(pairs) - len(words) :]
    is_same = all(word in (None, token) for (token, _), word in zip(tail, words, strict=True))
    return math.fsum(value for _, value in tail) if is_same else None
