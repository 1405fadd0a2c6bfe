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
from .prices import own_file, price_of
from .settings import ApiSettings, endpoint


def opened(dialect: Dialect, settings: ApiSettings, batches: BatchApi) -> ApiModel:
    """Return the model without sending anything.

    Raises:
        ModelError: there is no key, or no price for --max_cost.
    """
    found = endpoint(settings, dialect.url, dialect.variable)
    settings = priced(settings, official=found.url == dialect.url)
    client = Client(dialect, found, settings)
    if settings.batch:
        return BatchedModel(dialect, client, settings, batches)
    return ApiModel(dialect, client, settings)


def priced(settings: ApiSettings, *, official: bool) -> ApiSettings:
    """Return the settings with the prices of a file, unless the user gave one by hand. Raises `ModelError`."""
    if settings.input_price is None and settings.output_price is None:
        known = price_of(settings.model, official=official)
        if known is not None:
            price, source = known.price, known.source
            settings = replace(settings, input_price=price.input, output_price=price.output, price_source=source)
    if settings.max_cost is not None and (settings.input_price is None or settings.output_price is None):
        raise ModelError(
            "--max_cost needs prices: --model_args input_price=…,output_price=… per million tokens, or an entry for "
            f"{settings.model!r} in {own_file()}"
        )
    return settings


def open_openai(settings: OpenAISettings) -> ApiModel:
    """Open a chat model of OpenAI, or of a server with its protocol.

    Raises:
        ModelError: an invalid option or address, or no key.
    """
    return opened(OpenAI(settings), settings, OpenAIBatches())


def open_anthropic(settings: AnthropicSettings) -> ApiModel:
    """Open a chat model of Anthropic.

    Raises:
        ModelError: an invalid option or address, or no key.
    """
    return opened(Anthropic(settings), settings, AnthropicBatches())


openai = Configured(OpenAISettings, open_openai, constrains_answers=True, answers_in_parallel=True)
anthropic = Configured(AnthropicSettings, open_anthropic, constrains_answers=True, answers_in_parallel=True)
