"""Causal models in vLLM. Capabilities: loglikelihood, generate.

Token ids, chat templates and stop texts are those of `causal`, so that both give the same answers up to the rounding of
floating-point numbers. Answers are stored as they finish.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from functools import cached_property
from typing import TYPE_CHECKING

from figeval.answers.reply_text import strip_reasoning
from figeval.errors import TaskError
from figeval.models.capabilities import OutputStream, Part
from figeval.models.progress import advance
from figeval.types import JSON, Continuation, Message, Prompt, Reply

from ..causal.chat import opening, rendered
from ..causal.engine.prefix_tree import TokenRequest
from ..causal.lm_eval_requests import CausalTokenizer, encode_pairs, fitted, is_cut
from ..encoders.checkpoint import Checkpoint
from .engine import Engine
from .loaded import VllmModel
from .scoring import Scorer
from .settings import VllmSettings

if TYPE_CHECKING:
    from vllm import RequestOutput, SamplingParams

UNREAD = 2  # vLLM takes one token less than its limit, and reads the last one of an option, which `causal` does not


class VllmLanguageModel(VllmModel):
    """A causal model that scores continuations and generates."""

    runner = "generate"
    constrains_answers = True
    min_batch_size = 256  # examples per call: the engine decides how many run at a time, and must never run dry

    def __init__(self, settings: VllmSettings, checkpoint: Checkpoint) -> None:
        super().__init__(settings, checkpoint)
        self.first_prompt: list[int] | None = None
        if settings.apply_chat_template:
            self.chat = self._chat  # defined only if it is wanted

    @cached_property
    def texts(self) -> CausalTokenizer:
        """Tokenizer with the rules of `causal`."""
        return CausalTokenizer(self.tokenizer, self.settings.add_bos_token, self.settings.prefix_token_id)

    @cached_property
    def scorer(self) -> Scorer:
        """The scorer of options, which measures on its first requests which way is fastest."""
        return Scorer(self.engine, self.dtype == "float32", self.settings.scoring)

    def loglikelihood(self, requests: Sequence[Continuation]) -> OutputStream[float]:
        """Return Σ log P(token) per request; a context that is too long loses its beginning.

        Raises:
            TaskError: a continuation is empty, or alone exceeds the model's limit.
        """
        ids = encode_pairs(self.texts, [(request.context, request.continuation) for request in requests])
        self._note(ids[0][0])
        limit = self.engine.limit - UNREAD
        asked = [fitted("causal", *pair, limit) for pair in ids]
        cut = frozenset(index for index, pair in enumerate(ids) if is_cut("causal", *pair, limit))
        return OutputStream(len(requests), self._scored(asked, cut))

    def _scored(self, requests: Sequence[TokenRequest], cut: Set[int]) -> Iterator[Part[float]]:
        for found in self.scorer.score(requests):
            advance(len(found) / len(requests))
            places = [index for index, _ in found]
            yield Part(places, [min(0.0, value) for _, value in found], cut & set(places))

    def generate(self, requests: Sequence[Prompt]) -> OutputStream[Reply]:
        """Return greedy answers up to a stop text, which is cut off; a prompt that is too long loses its beginning.

        Raises:
            TaskError: `max_new_tokens` leaves no room for a prompt.
        """
        limit = self.engine.limit
        room = [limit - request.max_new_tokens for request in requests]
        if min(room) <= 0:
            raise TaskError(f"--max_new_tokens leaves no room for a prompt: the model takes {limit} tokens")
        shown = [self._chat(request.messages) if hasattr(self, "chat") else request.plain for request in requests]
        prompts = [self.texts.tok_encode(text) or [self.texts.prefix_token_id] for text in shown]
        self._note(prompts[0])
        cut = frozenset(index for index, ids in enumerate(prompts) if len(ids) > room[index])
        kept = [ids[-most:] for ids, most in zip(prompts, room, strict=True)]
        return OutputStream(len(requests), self._written(requests, kept, cut))

    def _written(
        self, requests: Sequence[Prompt], prompts: Sequence[list[int]], cut: Set[int]
    ) -> Iterator[Part[Reply]]:
        for outputs in self.engine.finished(prompts, [decoding(request) for request in requests]):
            advance(len(outputs) / len(requests))
            places = [place for place, _ in outputs]
            replies = [self._reply(output, requests[place].stop) for place, output in outputs]
            yield Part(places, replies, cut & set(places))

    def _reply(self, output: RequestOutput, stops: Sequence[str]) -> Reply:
        """Return an answer, decoded like those of `causal`: without the prompt before it, which can change a blank."""
        written = output.outputs[0]
        text = self.tokenizer.decode(written.token_ids, skip_special_tokens=True)
        places = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
        ended = bool(places) or written.finish_reason != "length"
        is_answer = strip_reasoning(text) == text  # otherwise nobody knows how many tokens are thoughts
        return Reply(
            text=text[: min(places)] if places else text,
            finish="stop" if ended else "length",
            answer_tokens=len(written.token_ids) if is_answer else None,
            reasoning_tokens=0 if is_answer else None,
        )

    def _chat(self, messages: Sequence[Message]) -> str:
        """Return the turns rendered by the model's chat template, up to the beginning of the answer."""
        return rendered(self.tokenizer, messages, self.checkpoint.model, enable_thinking=self.settings.enable_thinking)

    def _note(self, ids: list[int]) -> None:
        """Record the first prompt, because unexpected tokens at its beginning cost points of accuracy."""
        if self.first_prompt is None:
            self.first_prompt = list(ids)

    def details(self, engine: Engine) -> JSON:
        """Return how log-likelihoods were computed, and the tokens of the first prompt."""
        del engine
        found: JSON = self.scorer.describe() if "scorer" in vars(self) else {}
        return found | opening(self.tokenizer, self.first_prompt, chat=hasattr(self, "chat"))

    def close(self) -> None:
        """End the engine; it is loaded again when needed."""
        vars(self).pop("scorer", None)
        super().close()


def decoding(request: Prompt) -> SamplingParams:
    """Return parameters for greedy decoding up to a stop text, and within the format of the answer if there is one."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    held = None
    if request.answer is not None:
        schema = request.answer.schema
        # Without a chat template, an answer continues the question after a blank, as in `causal`.
        choices = [blank + choice for blank in ("", " ") for choice in request.answer.choices]
        held = StructuredOutputsParams(json=schema) if schema else StructuredOutputsParams(choice=choices)
    return SamplingParams(
        temperature=0.0,
        max_tokens=request.max_new_tokens,
        stop=[text for text in request.stop if text],
        structured_outputs=held,
    )
