"""Interface of a plugin for a model behind an API: how a request looks, and where the answer is in the response.

All else is done for it by the built-in family of API models (`figeval.builtin.plugins.api`), which is loaded when such
a model is opened: concurrent requests, retries, the budget of a run, and the archive of replies.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from figeval.registry import load_target
from figeval.types import JSON, Finish, Prompt

FAMILY = "figeval.builtin.plugins.api.providers"  # a plugin, which the core knows by its name alone


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOptions:
    """Options of one request, from `--model` and `--model_args`.

    Attributes:
        model: name of the model, the part after the colon of `--model`.
        max_tokens: most tokens of the answer.
        temperature: sampling temperature; None for the server's default.
        top_p: share of the probability from which tokens are sampled; None for the server's default.
        seed: seed of the sample; None if the answer is not sampled.
    """

    model: str
    max_tokens: int
    temperature: float | None = 0.0
    top_p: float | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAnswer:
    """The answer in a response.

    Attributes:
        text: what the model wrote.
        finish: how it ended: `stop`, `length` (cut off at the limit), or `refusal`.
        reasoning: what it thought before, if the server sends that apart.
        tokens_in: tokens that the server counted in the request; None if it does not say.
        tokens_out: tokens that it counted in the answer, with those of the reasoning.
        model: the server's name of the model that answered.
    """

    text: str
    finish: Finish = "stop"
    reasoning: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    model: str = ""


class ChatApi(ABC):
    """The protocol of a server with chat models. `figeval.api_backend` makes a model of it.

    Attributes:
        url: address of the server, without a slash at its end; `--model_args base_url=…` replaces it.
        path: path of the requests below the address, such as `/chat`.
        key_variable: name of the environment variable that holds the key. The key is never recorded.
        constrains_answers: True if `body` passes on `Prompt.answer`, the format of `--constrain`.
    """

    url: ClassVar[str]
    path: ClassVar[str]
    key_variable: ClassVar[str]
    constrains_answers: ClassVar[bool] = False

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers with the key, which is empty if there is none: by default as a bearer token."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    @abstractmethod
    def body(self, prompt: Prompt, options: ApiOptions) -> Mapping[str, Any]:
        """Return the body of a request, as JSON values. The same prompt and options give the same body."""

    @abstractmethod
    def read(self, response: JSON) -> ApiAnswer:
        """Return the answer in the body of a response with a status of success.

        A `KeyError`, `IndexError`, `TypeError` or `ValueError` means that it holds no answer, and the request is sent
        again.
        """


class ApiBackend:
    """A factory of models that speak one protocol (see `api_backend`)."""

    answers_in_parallel = True

    def __init__(self, api: type[ChatApi]) -> None:
        self.api = api
        self.constrains_answers = api.constrains_answers
        self.__name__ = api.__name__

    @property
    def __signature__(self) -> inspect.Signature:
        """Signature with the options that `--model_args` may set."""
        signature: inspect.Signature = load_target(f"{FAMILY}:signature")()
        return signature

    def __call__(self, model: str = "", **options: Any) -> Any:
        """Return the model without sending anything."""
        return load_target(f"{FAMILY}:open_chat_api")(self.api(), model, options)


def api_backend(api: type[ChatApi]) -> ApiBackend:
    """Return a factory of models behind an API, for `register_backends`.

    These models have what the built-in ones have:

    * up to `max_concurrent` requests at once, fewer while the server answers 429;
    * retries of 408, 429, 5xx, timeouts and broken connections, with exponential back-off and jitter, or after the
      seconds of a `Retry-After` header;
    * `--max_cost` and `--max_tokens`: the run ends before a request that could exceed them, also after it was
      interrupted and continued;
    * an archive of replies: a reply is kept as soon as it arrives, and neither a killed run nor another run of the same
      questions pays for it again;
    * keys from environment variables, which no record, message or error repeats.

    Users set `base_url`, `max_concurrent`, `timeout`, `max_retries`, `temperature`, `top_p`, `extra_body`, `memo`,
    `input_price` and `output_price` with `--model_args`.

    Example:
        ```python
        backend = figeval.api_backend(AcmeChat)  # a subclass of figeval.ChatApi, in acme/chat.py

        @figeval.hookimpl
        def register_backends(register):
            register("acme_chat", "acme.chat:backend", "chat models of Acme")
        ```
    """
    return ApiBackend(api)
