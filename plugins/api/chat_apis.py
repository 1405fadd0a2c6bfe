"""Models of other plugins' protocols (`figeval.ChatApi`), with the budget, archive and retries of this family."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from figeval.errors import PluginError
from figeval.io.json_files import JSONObject
from figeval.models.archive import Usage
from figeval.models.chat_api import ApiAnswer as PublicAnswer
from figeval.models.chat_api import ApiOptions, ChatApi
from figeval.reasoning import Reasoning
from figeval.registry import a_type
from figeval.types import JSON, Prompt, Reply

from .api_model import ApiModel
from .client import Client
from .dialects import MAX_TOKENS, DialectAnswer, Unreadable
from .model import add_prices
from .settings import ApiSettings, resolve_endpoint

# Options of `ApiSettings` that say how a dialect asks for what only some protocols have.
OF_DIALECTS = frozenset(("batch", "resubmit_lost", "reasoning", "reasoning_tokens", "structured", "send_stop"))


@dataclass(frozen=True, slots=True)
class PublicDialect:
    """A dialect that asks and reads as a `figeval.ChatApi` says."""

    api: ChatApi
    settings: ApiSettings

    @property
    def url(self) -> str:
        """Address of the server."""
        return self.api.url.rstrip("/")

    @property
    def variable(self) -> str:
        """Name of the environment variable with the key."""
        return self.api.key_variable

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
            seed=settings.seed if settings.sampled else None,
        )
        return {**self.api.body(prompt, options), **settings.extra_body}

    def read(self, answer: JSONObject) -> DialectAnswer:
        """Return the answer in a response. Raises `Unreadable`."""
        try:
            public_answer = self.api.read(answer)
        except (LookupError, TypeError, ValueError) as error:
            raise Unreadable(f"{type(self.api).__name__}.read raised {type(error).__name__}") from error
        if not isinstance(public_answer, PublicAnswer):
            raise PluginError(
                f"{type(self.api).__name__}.read returned {a_type(public_answer)}; return a figeval.ApiAnswer"
            )
        reply = Reply(text=public_answer.text, finish=public_answer.finish, reasoning=public_answer.reasoning)
        return DialectAnswer(reply, _usage(public_answer), public_answer.model)


def _usage(answer: PublicAnswer) -> Usage | None:
    """Return the tokens that the server counted, or None if one count is missing or impossible."""
    read, wrote = answer.tokens_in, answer.tokens_out
    if type(read) is not int or type(wrote) is not int or not (0 < read <= MAX_TOKENS and 0 <= wrote <= MAX_TOKENS):
        return None
    return Usage(read, wrote)


def signature() -> inspect.Signature:
    """Return the signature of a factory: the model, and the options that hold for every protocol."""
    options = dict(inspect.signature(ApiSettings).parameters)
    model = options.pop("model").replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return inspect.Signature([model, *(option for name, option in options.items() if name not in OF_DIALECTS)])


def open_chat_api(api: ChatApi, model: str, options: Mapping[str, Any]) -> ApiModel:
    """Return the model without sending anything.

    Raises:
        ModelError: an invalid option or address, no key, or no price for --max_cost.
    """
    settings = add_prices(ApiSettings(model=model, **options), official=False)
    dialect = PublicDialect(api, settings)
    client = Client(dialect, resolve_endpoint(settings, dialect.url, dialect.variable), settings)
    opened = ApiModel(dialect, client, settings)
    opened.constrains_answers = api.constrains_answers
    return opened
