"""The backend of servers that score given texts. Capabilities: loglikelihood; generate if the chat template is on.

Token ids are those of `causal`, from the tokenizer of the served model, so that the numbers are the same. Requests are
sent in an order in which texts with a common beginning are neighbours, since servers keep it in their caches. Every
answer is stored on disk at once, under the exact request: nothing is computed twice, whatever is killed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from figeval.errors import ModelError
from figeval.models.capabilities import Outputs
from figeval.types import JSON, Continuation, Message, Prompt, Reply

from ..causal.engine.prefix_tree import TokenRequest
from ..causal.lm_eval_requests import CausalTokenizer
from ..causal.option_tokens import OptionEncoder
from ..causal.plausible import check_certainty, check_signs
from ..causal.prompting import Prompting
from ..causal.room import Room
from ..torch_models.checkpoint import Checkpoint, check_chat_template, locate
from ..torch_models.loading import MAX_LIMIT, load_tokenizer
from ..torch_models.settings import Configured
from .api_model import ApiModel
from .api_settings import ServerSettings
from .archive import Usage, key_of
from .budget import ApiCall
from .client import Client
from .providers import LLAMA_CPP, SGLANG, VLLM_SERVER, Provider, open_client
from .scoring_dialects import NO_BEGIN_TOKEN, ScoringDialect, pairs_of, sum_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ANSWER_TOKENS = 2  # tokens of the server's limit that a text leaves for the one token that it must be allowed to write
NO_SCORES = (
    "it does not score the texts of a prompt, so nothing was scored; use a server that does (docs/engines.md), or "
    "openai:NAME for answers in words"
)
UNDECODABLE = "\N{REPLACEMENT CHARACTER}"


class ServedModel:
    """A causal model behind a server that scores given texts."""

    constrains_answers = True

    def __init__(self, api: ApiModel, dialect: ScoringDialect, checkpoint: Checkpoint) -> None:
        self.api = api
        self.dialect = dialect
        self.settings = dialect.settings
        self.checkpoint = checkpoint
        endpoint = api.client.endpoint
        self.client = Client(dialect, replace(endpoint, url=dialect.address(endpoint.url)), dialect.settings)
        self.min_batch_size = api.min_batch_size
        if self.settings.apply_chat_template:
            self.chat = self._chat
            self.generate = self._generate  # servers render conversations, so answers are those of a chat model
        else:
            self.capability_hint = "give --apply_chat_template to have answers written"

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        return load_tokenizer(self.checkpoint, trust=False)

    @cached_property
    def texts(self) -> CausalTokenizer:
        """Tokenizer with the rules of `causal`."""
        return CausalTokenizer(self.tokenizer, self.settings.add_bos_token, self.settings.prefix_token_id)

    @cached_property
    def prompting(self) -> Prompting:
        """The maker of prompts, which also knows the first of them."""
        name, chats, thinking = self.checkpoint.model, hasattr(self, "chat"), self.settings.enable_thinking
        return Prompting(self.tokenizer, name, chats, thinking, options=OptionEncoder(by_text=self.dialect.by_text))

    @cached_property
    def limit(self) -> int:
        """Most tokens of a text: as set, as the server says, or as the tokenizer does.

        Raises:
            ModelError: none of them says.
        """
        limits = (self.settings.max_length, self.api.context_length, self.tokenizer.model_max_length)
        limit = next((int(limit) for limit in limits if isinstance(limit, int) and 0 < limit < MAX_LIMIT), None)
        if limit is None:
            raise ModelError(
                "neither the server nor the tokenizer says how long a text may be; set --model_args max_length=…"
            )
        return limit - ANSWER_TOKENS

    def has_room(self, requests: Sequence[Continuation | Prompt]) -> bool:
        """Return whether all texts fit whole, with their answers. Raises what `limit` raises."""
        settings, limit = self.api.settings, self.limit
        room = Room(
            self.prompting,
            self.texts,
            limit + ANSWER_TOKENS,
            limit,
            lambda request: settings.room(request, settings.thinking),
        )
        return room.fits(requests)

    def loglikelihood(self, requests: Sequence[Continuation]) -> Outputs[float]:
        """Return Σ log P(token) per request; a context that is too long loses its beginning.

        A continuation without a token, or one that alone exceeds the model's limit, gets NaN.

        Raises:
            ModelError: the server does not answer, or its model has another tokenizer.
        """
        batch = self.prompting.options.batch(self.texts, requests, self.limit)
        if self.prompting.first is None:
            self.prompting.note(batch.first, scored=requests[0].context)
        token_requests = batch.requests
        if self.dialect.by_text and not all(map(self._is_begun, token_requests)):
            raise ModelError(NO_BEGIN_TOKEN)
        calls = {
            request: self._call(request) for request in sorted(set(token_requests), key=lambda request: request.ids)
        }
        replies = self.api.answer_calls(self.client, list(calls.values())) if calls else {}
        value_of = {request: self._value(request, replies[call.key]) for request, call in calls.items()}
        values = [value_of[request] for request in token_requests]
        check_certainty(self.client.url, token_requests, values, NO_SCORES)
        return batch.outputs(values)

    def _is_begun(self, request: TokenRequest) -> bool:
        """Return whether a text begins with the token for that, and another token before what is scored."""
        return request.ids[0] == self.tokenizer.bos_token_id and len(request.ids) - request.predicted >= 2

    @cached_property
    def _begins_texts(self) -> bool:
        """True if the tokenizer begins every text with a token for that, as the server's then does, too."""
        bos = self.tokenizer.bos_token_id
        return bos is not None and list(self.tokenizer("")["input_ids"])[:1] == [bos]

    def _call(self, request: TokenRequest) -> ApiCall:
        ids = request.ids[1:] if self._begins_texts else request.ids  # or the server would add a second such token
        text = self.tokenizer.decode(ids, clean_up_tokenization_spaces=False) if self.dialect.by_text else ""
        body = json.dumps(self.dialect.scoring(request, text), separators=(",", ":")).encode("ascii")
        key = key_of(self.client.url, self.api.client.served_models(), body, self.settings)
        return ApiCall(key, body, Usage(len(request.ids), 1), may_keep=partial(self._may_keep, request))

    def _value(self, request: TokenRequest, reply: Reply) -> float:
        """Return Σ log P of a request.

        Raises:
            ModelError: there is no answer, one about other tokens, or one that is no logarithm of a probability.
        """
        address = self.client.url
        if reply.finish in ("error", "refusal"):
            raise ModelError(
                f"{address} gave no log-likelihood ({reply.error or 'the text was refused'}); answers so far are kept, "
                "and the same command continues"
            )
        pairs = pairs_of(reply)
        if len(pairs) < request.predicted and not self.dialect.by_text:
            raise ModelError(
                f"{address} gave no log-probabilities of the text that it was sent ({len(pairs)} of at least "
                f"{request.predicted} tokens); {NO_SCORES}"
            )
        check_signs(address, (value for _, value in pairs), NO_SCORES)
        value = sum_of(pairs, request, self._name_words(request.ids[-request.predicted :]))
        if value is None:
            raise ModelError(
                f"the model at {address} splits texts into other tokens than the tokenizer of "
                f"{self.checkpoint.model!r}; set --model_args tokenizer= to that of the served model"
            )
        return min(value, 0.0)

    def _may_keep(self, request: TokenRequest, reply: Reply) -> bool:
        """Return whether a reply is worth storing, which one of zeros is not. Raises what `_value` raises."""
        self._value(request, reply)
        return any(value for _, value in pairs_of(reply))

    def _name_words(self, words: Sequence[int]) -> list[int | str | None]:
        """Return tokens as the server names them; None for one that is no text by itself, such as half a letter."""
        if not self.dialect.by_text:
            return list(words)
        texts = [str(self.tokenizer.decode([word])) for word in words]
        return [None if UNDECODABLE in text else text for text in texts]

    @property
    def do_sample(self) -> bool:
        """True if the same question may get different answers."""
        return self.api.do_sample

    def _generate(self, requests: Sequence[Prompt]) -> list[Reply]:
        return self.api.generate(requests)

    def _chat(self, messages: Sequence[Message]) -> str:
        """Return the turns rendered by the model's chat template, up to the beginning of the answer."""
        return self.prompting.render(messages)

    def fingerprint(self) -> str:
        """Return the server's model and options, and the tokenizer's name, which fix the requests."""
        settings = self.settings
        options = (settings.tokenizer, settings.revision, settings.add_bos_token, settings.prefix_token_id)
        return (
            f"{self.api.fingerprint()} {json.dumps([type(self.dialect).__name__, *options, settings.enable_thinking])}"
        )

    def describe(self) -> JSON:
        """Return the address, options and statistics of the server, and the tokens of the first prompt."""
        description = self.api.describe()
        if self.prompting.first is not None:
            description |= {"max_length": self.limit}
        return description | self.prompting.opening()


def open_served(provider: Provider, settings: ServerSettings) -> ServedModel:
    """Open a model behind a server without asking it anything.

    Raises:
        ModelError: no tokenizer, a chat template without a choice on whether to use it, or what `open_client` raises.
    """
    assert provider.scoring is not None
    name = settings.tokenizer or settings.model
    try:
        checkpoint = locate(name, settings.revision)
    except ModelError as error:
        if settings.tokenizer:
            raise
        raise ModelError(
            f"the tokenizer of {name!r} is needed to score texts; set --model_args tokenizer= to a folder or hub id "
            f"({error})"
        ) from error
    check_chat_template(checkpoint, settings.apply_chat_template)
    return ServedModel(ApiModel(open_client(provider, settings)), provider.scoring(settings), checkpoint)


def make_backend(provider: Provider) -> Configured[ServerSettings, ServedModel]:
    """Return the factory of models behind a kind of server."""
    return Configured(
        ServerSettings,
        lambda settings: open_served(provider, settings),
        constrains_answers=True,
        answers_in_parallel=True,
    )


vllm_server, sglang, llama_cpp = map(make_backend, (VLLM_SERVER, SGLANG, LLAMA_CPP))
