"""Options of servers that compute log-likelihoods: those of `openai`, and the model's tokenizer."""

from __future__ import annotations

from dataclasses import dataclass

from figeval.errors import ModelError

from ..api.dialects import OpenAISettings
from ..torch_models.settings import positive


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings(OpenAISettings):
    """Settings of a server.

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
