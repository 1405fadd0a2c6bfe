"""The factories of models behind an API, asked one by one or in batches."""

from __future__ import annotations

from dataclasses import replace

from figeval.errors import ModelError

from ..torch_models.settings import Configured
from .api_model import ApiModel
from .batch_api import AnthropicBatches, BatchApi, OpenAIBatches
from .batches import BatchedModel
from .client import Client
from .dialects import Anthropic, AnthropicSettings, Dialect, OpenAI, OpenAISettings
from .prices import price_of, user_file
from .settings import ApiSettings, resolve_endpoint


def open_model(dialect: Dialect, settings: ApiSettings, batches: BatchApi) -> ApiModel:
    """Return the model without sending anything.

    Raises:
        ModelError: there is no key, or no price for --max_cost.
    """
    endpoint = resolve_endpoint(settings, dialect.url, dialect.variable)
    settings = add_prices(settings, official=endpoint.url == dialect.url)
    client = Client(dialect, endpoint, settings)
    if settings.batch:
        return BatchedModel(dialect, client, settings, batches)
    return ApiModel(dialect, client, settings)


def add_prices(settings: ApiSettings, *, official: bool) -> ApiSettings:
    """Return the settings with the prices of a file, unless the user gave one by hand. Raises `ModelError`."""
    if settings.input_price is None and settings.output_price is None:
        known_price = price_of(settings.model, official=official)
        if known_price is not None:
            price, source = known_price.price, known_price.source
            settings = replace(settings, input_price=price.input, output_price=price.output, price_source=source)
    if settings.max_cost is not None and (settings.input_price is None or settings.output_price is None):
        raise ModelError(
            "--max_cost needs prices: --model_args input_price=…,output_price=… per million tokens, or an entry for "
            f"{settings.model!r} in {user_file()}"
        )
    return settings


def open_openai(settings: OpenAISettings) -> ApiModel:
    """Open a chat model of OpenAI, or of a server with its protocol.

    Raises:
        ModelError: an invalid option or address, or no key.
    """
    return open_model(OpenAI(settings), settings, OpenAIBatches())


def open_anthropic(settings: AnthropicSettings) -> ApiModel:
    """Open a chat model of Anthropic.

    Raises:
        ModelError: an invalid option or address, or no key.
    """
    return open_model(Anthropic(settings), settings, AnthropicBatches())


openai = Configured(OpenAISettings, open_openai, constrains_answers=True, answers_in_parallel=True)
anthropic = Configured(AnthropicSettings, open_anthropic, constrains_answers=True, answers_in_parallel=True)
