"""Providers of models, companies and kinds of servers, each a declared value, and the models that are opened for them.

A plugin's own protocol (`figeval.ChatApi`) is a provider like any other, with the same budget, archive and retries.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from figeval.errors import ModelError
from figeval.models.chat_api import ChatApi

from ..torch_models.settings import Configured
from .api_model import ApiModel
from .api_settings import AnthropicSettings, ApiSettings, OpenAISettings, resolve_endpoint
from .batch_api import AnthropicBatches, BatchApi, OpenAIBatches
from .batches import BatchedModel
from .client import Client
from .dialects import OPENAI_URL, Anthropic, ChatDialect, OpenAI, PublicDialect
from .prices import price_of, user_file
from .scoring_dialects import LlamaCpp, ScoringDialect, SGLang, VllmServer

# Options of `ApiSettings` that say how a dialect asks for what only some protocols have.
OF_DIALECTS = frozenset(
    ("batch", "resubmit_lost", "reasoning", "reasoning_style", "reasoning_tokens", "structured", "send_stop")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A company or a kind of server.

    Attributes:
        url: its own address, up to `/v1`; `base_url` replaces it.
        key_variable: environment variable with the key; `api_key_env` replaces it.
        dialect: how it is asked for an answer in words.
        batches: its batch API; None if it has none.
        structured: how it is held to a format, if the user does not say (`formats`).
        scoring: how it is asked for the log-probabilities of a text; None if it gives none.
        has_list_prices: whether the prices that figeval ships with hold at its own address.
    """

    url: str
    key_variable: str = "OPENAI_API_KEY"
    dialect: Callable[[Any], ChatDialect] = OpenAI
    batches: BatchApi | None = None
    structured: str = "response_format"
    scoring: type[ScoringDialect] | None = None
    has_list_prices: bool = False


OPENAI = Provider(url=OPENAI_URL, batches=OpenAIBatches(), has_list_prices=True)
ANTHROPIC = Provider(
    url="https://api.anthropic.com/v1",
    key_variable="ANTHROPIC_API_KEY",
    dialect=Anthropic,
    batches=AnthropicBatches(),
    structured="output_config",
    has_list_prices=True,
)
VLLM_SERVER = Provider(
    url="http://localhost:8000/v1",
    structured="structured_outputs",  # a bare letter; `guided` before release 0.11
    scoring=VllmServer,
)
SGLANG = Provider(url="http://localhost:30000/v1", scoring=SGLang)
LLAMA_CPP = Provider(url="http://localhost:8000/v1", structured="json_object", scoring=LlamaCpp)


def open_client(provider: Provider, settings: ApiSettings) -> Client[ChatDialect]:
    """Return a client that asks a provider for answers in words.

    Raises:
        ModelError: an invalid address, no key, or no price for --max_cost.
    """
    endpoint = resolve_endpoint(settings, provider.url, provider.key_variable)
    settings = replace(settings, base_url=endpoint.url, structured=settings.structured or provider.structured)
    is_official = provider.has_list_prices and endpoint.url == provider.url
    settings, price_source = add_prices(settings, official=is_official)
    return Client(provider.dialect(settings), endpoint, settings, price_source)


def open_model(provider: Provider, settings: ApiSettings) -> ApiModel:
    """Return a model that answers in words, one by one or in batches. Raises what `open_client` raises."""
    client = open_client(provider, settings)
    if settings.batch and provider.batches is not None:
        return BatchedModel(client, provider.batches)
    return ApiModel(client)


def add_prices(settings: ApiSettings, *, official: bool) -> tuple[ApiSettings, str]:
    """Return the settings with the prices of a file, and their source, unless the user gave one by hand.

    Raises:
        ModelError: --max_cost is given, and there is no price.
    """
    source = ""
    if settings.input_price is None and settings.output_price is None:
        known_price = price_of(settings.model, official=official)
        if known_price is not None:
            price, source = known_price.price, known_price.source
            settings = replace(settings, input_price=price.input, output_price=price.output)
    if settings.max_cost is not None and (settings.input_price is None or settings.output_price is None):
        raise ModelError(
            "--max_cost needs prices: --model_args input_price=…,output_price=… per million tokens, or an entry for "
            f"{settings.model!r} in {user_file()}"
        )
    return settings, source


openai = Configured(
    OpenAISettings, lambda settings: open_model(OPENAI, settings), constrains_answers=True, answers_in_parallel=True
)
anthropic = Configured(
    AnthropicSettings,
    lambda settings: open_model(ANTHROPIC, settings),
    constrains_answers=True,
    answers_in_parallel=True,
)


# ---- protocols of other plugins --------------------------------------------------------------------------------------


def signature() -> inspect.Signature:
    """Return the signature of a factory: the model, and the options that hold for every protocol."""
    options = dict(inspect.signature(ApiSettings).parameters)
    model = options.pop("model").replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return inspect.Signature([model, *(option for name, option in options.items() if name not in OF_DIALECTS)])


def open_chat_api(api: ChatApi, model: str, options: Mapping[str, Any]) -> ApiModel:
    """Return a model that is asked in a plugin's protocol.

    Raises:
        ModelError: an invalid option, and what `open_client` raises.
    """
    dialect = partial(PublicDialect, api)
    provider = Provider(url=api.url.rstrip("/"), key_variable=api.key_variable, dialect=dialect, structured="")
    opened = open_model(provider, ApiSettings(model=model, **options))
    opened.constrains_answers = api.constrains_answers
    return opened
