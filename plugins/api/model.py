"""The factories of models behind an API, asked one by one or in batches."""

from __future__ import annotations

from ..encoders.settings import Configured
from .api_model import ApiModel
from .batch_api import AnthropicBatches, BatchApi, OpenAIBatches
from .batches import BatchedModel
from .client import Client
from .dialects import Anthropic, AnthropicSettings, Dialect, OpenAI, OpenAISettings
from .settings import ApiSettings, endpoint


def opened(dialect: Dialect, settings: ApiSettings, batches: BatchApi) -> ApiModel:
    """Return the model without sending anything. Raises `ModelError` if there is no key."""
    client = Client(dialect, endpoint(settings, dialect.url, dialect.variable), settings)
    if settings.batch:
        return BatchedModel(dialect, client, settings, batches)
    return ApiModel(dialect, client, settings)


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


openai = Configured(OpenAISettings, open_openai, constrains_answers=True)
anthropic = Configured(AnthropicSettings, open_anthropic, constrains_answers=True)
