"""Causal models in vLLM. Capabilities: loglikelihood, generate.

Token ids, chat templates, thinking and stop texts are those of `causal`, so that both give the same answers up to the
rounding of floating-point numbers. Answers are stored as they finish.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from figeval.models.capabilities import OutputStream, Part
from figeval.types import JSON, AnswerFormat, Continuation, Finish, Message, Prompt, Reply

from ..causal.decoding import decoding_of
from ..causal.generation.grammar import grammar_of
from ..causal.generation.row import Row
from ..causal.lm_eval_requests import CausalTokenizer
from ..causal.option_tokens import ScoringBatch
from ..causal.plausible import check_certainty, check_signs
from ..causal.prompting import Prompting, context_length, final_tokens
from ..causal.room import Room
from ..torch_models.checkpoint import Checkpoint
from .engine import VllmEngine
from .scoring import Scorer
from .vllm_model import VllmModel, VllmSettings

if TYPE_CHECKING:
    from vllm import CompletionOutput, RequestOutput, SamplingParams

    from .engine import Request

ENDINGS: dict[str | None, Finish] = {"length": "length", "abort": "error", "error": "error"}
COMPARE_HINT = "nothing was scored; run the model with causal:NAME, or in another release of vLLM"
# vLLM takes one token less than its limit, and reads the last one of an option, which `causal` does not.
RESERVED_TOKENS = 2
MAX_SEED = 2**63  # vLLM's seeds are signed numbers of 64 bits, and a negative one has a meaning of its own


class VllmLanguageModel(VllmModel):
    """A causal model that scores continuations and generates."""

    runner = "generate"
    constrains_answers = True
    min_batch_size = 256  # examples per call: the engine decides how many run at a time, and must never run dry

    def __init__(self, settings: VllmSettings, checkpoint: Checkpoint) -> None:
        super().__init__(settings, checkpoint)
        self.decoding = decoding_of(settings, checkpoint)
        self.wrote = False
        if settings.apply_chat_template:
            self.chat = self._chat  # defined only if it is wanted

    @property
    def do_sample(self) -> bool:
        """True if texts are sampled."""
        return self.decoding.sampling is not None

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

        A continuation without a token, or one that alone exceeds the model's limit, gets NaN.
        """
        batch = self.prompting.options.batch(self.texts, requests, self.engine.limit - RESERVED_TOKENS)
        self.prompting.note(batch.first, scored=requests[0].context)
        return OutputStream(len(requests), self._stream_scores(batch))

    def _stream_scores(self, batch: ScoringBatch) -> Iterator[Part[float]]:
        """Yield the log-likelihoods as they are computed; while all are 0, none, since they may have no meaning.

        Raises:
            ModelError: they are no logarithms of probabilities.
        """
        if unscored := batch.unscored:
            yield batch.part(unscored, [math.nan] * len(unscored))
        certain: list[tuple[int, float]] | None = []
        for scores in self.scorer.score(batch.requests) if batch.requests else ():
            check_signs("vLLM", (value for _, value in scores), COMPARE_HINT)
            ready = scores
            if certain is not None:
                certain += scores
                if not any(value for _, value in certain):
                    continue
                ready, certain = certain, None
            yield part_of(batch, ready)
        if certain:
            check_certainty("vLLM", batch.requests, [0.0] * len(batch.requests), COMPARE_HINT)
            yield part_of(batch, certain)

    @property
    def context_length(self) -> int | None:
        """Number of tokens that the model reads and writes together; None if its config does not say it."""
        limit = self.settings.engine.get("max_model_len")
        return limit if isinstance(limit, int) and limit > 0 else context_length(self.checkpoint.config)

    def has_room(self, requests: Sequence[Continuation | Prompt]) -> bool:
        """Return whether all texts fit whole, with their answers; the engine is loaded if no file says that."""
        return self.room.fits(requests)

    @cached_property
    def room(self) -> Room:
        """The room for prompts."""
        limit = self.context_length or self.engine.limit
        return Room(self.prompting, self.texts, limit, limit - RESERVED_TOKENS, self.prompting.answer_tokens)

    def generate(self, requests: Sequence[Prompt]) -> OutputStream[Reply]:
        """Return answers up to a stop text, which is cut off; a prompt that is too long loses its beginning.

        Thinking is set apart; with a budget of its own (--reasoning), it may take twice the budget, as far as the
        model's limit allows, before it counts as cut off.

        Raises:
            TaskError: `max_new_tokens` leaves no room for a prompt.
            ModelError: the budget of --reasoning leaves none.
        """
        final = final_tokens(self.engine.generation.get("eos_token_id"), self.tokenizer)
        rows, truncated = self.prompting.rows(requests, self.texts, self.engine.limit, final)
        self.wrote = True
        for row, request in zip(rows, requests, strict=True):
            row.draws = self.decoding.draws(row.prompt, request.sample)
        return OutputStream(
            len(requests), self._stream_replies(rows, [request.answer for request in requests], truncated)
        )

    def _stream_replies(
        self, rows: Sequence[Row], formats: Sequence[AnswerFormat | None], truncated: Set[int]
    ) -> Iterator[Part[Reply]]:
        """Yield the answers as they end. A row that has not is sent again at once; the prefix cache knows it."""
        penalty = self.engine.generation.get("repetition_penalty") or 1.0

        def next_request(index: int, output: RequestOutput) -> Request | None:
            row, answer = rows[index], formats[index]
            continue_row(row, output.outputs[0], answer)
            return None if row.finish is not None else (row.ids, decoding(row, answer, penalty))

        engine_requests = [(row.ids, decoding(row, answer, penalty)) for row, answer in zip(rows, formats, strict=True)]
        for outputs in self.engine.stream_outputs(engine_requests, next_request):
            indexes = [index for index, _ in outputs]
            replies = (rows[index].reply for index in indexes)
            checked_replies = [
                replace(reply, error="vLLM broke it off") if reply.finish == "error" else reply for reply in replies
            ]
            yield Part(indexes, checked_replies, truncated & set(indexes))

    @cached_property
    def prompting(self) -> Prompting:
        """The maker of prompts, which also knows the first of them."""
        settings = self.settings
        name, chats = self.checkpoint.model, hasattr(self, "chat")
        return Prompting(self.tokenizer, name, chats, settings.enable_thinking, settings.reasoning)

    def _chat(self, messages: Sequence[Message]) -> str:
        """Return the turns rendered by the model's chat template, up to the beginning of the answer."""
        return self.prompting.render(messages)

    def details(self, engine: VllmEngine) -> JSON:
        """Return how log-likelihoods were computed, and the tokens of the first prompt."""
        del engine
        details: JSON = self.scorer.describe() if "scorer" in vars(self) else {}
        opening = self.prompting.opening()
        return details | (self.decoding.add_to(opening, self.dtype, "vLLM") if self.wrote else opening)

    def close(self) -> None:
        """End the engine; it is loaded again when needed."""
        vars(self).pop("scorer", None)
        super().close()


def part_of(batch: ScoringBatch, scores: Sequence[tuple[int, float]]) -> Part[float]:
    """Return values by the index of their request in the batch as a part of the answers."""
    # NaN must stay: `min(0.0, nan)` is 0, a certain option
    return batch.part([batch.rows[index] for index, _ in scores], [min(value, 0.0) for _, value in scores])


def decoding(row: Row, answer: AnswerFormat | None, penalty: float = 1.0) -> SamplingParams:
    """Return parameters for decoding the rest of a row.

    While it may think, the mark that closes the thinking ends the request. Stop texts and the format hold for the
    answer.

    Args:
        row: the row.
        answer: format of the answer; None for any.
        penalty: of tokens that are in the text already, 1 for none; some checkpoints ask for it, such as Qwen2.5's.
    """
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    stop, structure = list(row.end.stop), None
    if row.thinking is not None and row.thinks:
        stop = [row.thinking.marks.closing, *([] if row.thinking.begun else stop)]
    elif answer is not None:
        structure = StructuredOutputsParams(grammar=grammar_of(answer))
    return SamplingParams(
        **sampling_arguments(row),
        max_tokens=row.remaining,
        repetition_penalty=penalty,
        stop=stop,
        skip_special_tokens=False,  # a mark may be one, and would not be found
        structured_outputs=structure,
    )


def sampling_arguments(row: Row) -> JSON:
    """Return vLLM's arguments for the next tokens of a row. Its random numbers are others than those of `causal`."""
    if row.draws is None:
        return {"temperature": 0.0}
    sampling = row.draws.sampling
    options = {"temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p}
    seed = row.draws.key(len(row.written)) % MAX_SEED
    return {name: value for name, value in options.items() if value is not None} | {"seed": seed}


def continue_row(row: Row, output: CompletionOutput, answer: AnswerFormat | None) -> None:
    """Continue a row by what vLLM has written, as far as it was asked for with the parameters that hold there."""
    was_thinking = row.thinks
    for token in output.token_ids:
        row.take(token)
        is_beyond_format = answer is not None and was_thinking and not row.thinks  # as is what follows
        if row.finish is not None or is_beyond_format:
            break
    # A format holds for one request, and would begin anew in the next.
    is_complete = answer is not None and not was_thinking
    if row.finish is None and (is_complete or not output.token_ids):
        row.finish = ENDINGS.get(output.finish_reason, "stop")
