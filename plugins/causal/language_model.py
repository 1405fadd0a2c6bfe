"""Causal and encoder-decoder models on this machine. Capabilities: loglikelihood, generate; causal also
score_words, token_scores.

Log-likelihoods come from the packed engine (`engine`), texts from `generation`. Loading, tokenization and chat
templates are lm-eval's, so that numbers match those of its `hf` model. An encoder is rejected: lm-eval would score
RoBERTa from left to right although every token sees itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeAlias

from figeval.errors import ModelError
from figeval.models.capabilities import Outputs, OutputStream, Part
from figeval.models.model import refuse_model_name
from figeval.reasoning import Reasoning
from figeval.types import JSON, Continuation, Message, Prompt, Reply

from ..torch_models.batching import TokenBudget, free_memory, run_batches
from ..torch_models.checkpoint import by_class, check_chat_template, locate, require
from ..torch_models.faults import load_errors, one_line
from ..torch_models.loading import ModelSetup, Neural, load_tokenizer, measures, prepare, suppress_logging
from ..torch_models.settings import Configured
from ..torch_models.tokens import pad
from .decoding import Decoding, WritingSettings, decoding_of
from .engine.bodies import cache_bytes_per_token, vocabulary
from .engine.packed import logits_at_once
from .generation.grammar import Grammars, check_installed
from .generation.row import Row
from .lm_eval_requests import CausalTokenizer, encode_pairs
from .packaged import SMOLLM2
from .prompting import Prompting, context_length
from .room import Room, longest_text
from .strategies import check_strategies
from .word_windows import WindowedTexts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerBase

    from ..surprisal.requests import WordScores
    from .figeval_hf import FigevalHF

Score: TypeAlias = "Callable[[FigevalHF, Sequence[list[int]], list[int]], list[NDArray[np.float64]]]"
MIN_LOGPROB = -1e4  # lowest log P of a token


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageSettings(WritingSettings):
    """lm-eval's own options under its names; None leaves a value to lm-eval.

    Options that replace weights (peft, delta, quantised files) are excluded, because the fingerprint would miss them.

    Attributes:
        apply_chat_template: whether conversations are rendered by the chat template; it must be True or False if the
            tokenizer has one.
        add_bos_token: whether contexts begin with the token that begins a text.
        prefix_token_id: token that stands for an empty context; None for the one that begins a text, or else ends it.
        mixed_precision_dtype: precision of the forward pass under autocast; None for that of the weights.
        parallelize: whether the layers are distributed over all GPUs.
        attn_implementation: implementation of attention in transformers, such as "eager" or "sdpa".
        writing: way of writing texts: "own" decoding, or transformers' "generate", "static" (generate with a compiled
            pass) or "continuous" batching; "auto" for the fastest one on a GPU, and own decoding on a CPU.
        enable_thinking: passed to chat templates that can switch thinking on and off; --reasoning does more.
        reasoning: whether and how long the model thinks (--reasoning); None for what its template does.
        scoring: how a causal model reads texts to score: "packed" in trees that share beginnings, or as "rows", one for
            each; "auto" for the fastest way that a test of the model finds right.

    Raises:
        ModelError: a value of the wrong kind.
    """

    dtype: str = "auto"
    apply_chat_template: bool | None = None
    add_bos_token: bool | None = None
    prefix_token_id: int | None = None
    mixed_precision_dtype: str | None = None
    parallelize: bool | None = None
    attn_implementation: str | None = None
    writing: str = "auto"
    enable_thinking: bool | None = None
    reasoning: Reasoning | None = None
    scoring: str = "auto"

    def __post_init__(self) -> None:
        # super() without arguments fails in a dataclass with slots, because the decorator creates a new class.
        WritingSettings.__post_init__(self)
        check_strategies(self.scoring, self.writing)

    @property
    def passed_on(self) -> JSON:
        """Options that are passed to lm-eval unchanged."""
        common = {field.name for field in fields(WritingSettings)} - {"max_length", "trust_remote_code"}
        excluded = common | {"apply_chat_template", "reasoning", "scoring", "writing"}
        options = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in excluded}
        return {name: value for name, value in options.items() if value is not None}


class LanguageModel(Neural[LanguageSettings, "FigevalHF"]):
    """A language model that scores continuations and generates. The network is an `HFLM` of lm-eval with our engine."""

    def __init__(self, setup: ModelSetup[LanguageSettings], kind: str, decoding: Decoding) -> None:
        super().__init__(setup)
        self.kind = kind
        self.decoding = decoding
        self.writing = TokenBudget.for_writing(setup.device.partition(":")[0], setup.settings.rows)
        self.wrote = False
        if setup.settings.apply_chat_template:
            self.chat = self._chat  # defined only if it is wanted
        if kind == "causal":
            self.token_scores = self._token_scores  # an encoder-decoder predicts no text from its own beginning
            self.score_words = self._score_words
            self.capabilities = ("score_words",)

    def loglikelihood(self, requests: Sequence[Continuation]) -> Outputs[float]:
        """Return Σ log P(token) per request; a context that is too long loses its beginning.

        A continuation without a token, or one that alone exceeds the model's limit, gets NaN.
        """
        lm = self.network
        batch = self.prompting.options.batch(lm, requests, lm.max_length)
        self.prompting.note(batch.first, scored=requests[0].context)
        answers = lm.engine.score(batch.requests) if batch.requests else []
        return batch.outputs([value for value, _is_greedy in answers])

    @property
    def context_length(self) -> int | None:
        """Number of tokens that a causal model reads and writes together; None if its config does not say it."""
        if self.kind != "causal":
            return None
        return self.setup.settings.max_length or context_length(self.setup.checkpoint.config)

    def has_room(self, requests: Sequence[Continuation | Prompt]) -> bool:
        """Return whether all texts fit whole, with their answers; no weights are loaded."""
        return self.room.fits(requests)

    @cached_property
    def room(self) -> Room:
        """The room for prompts, which the tokenizer and the config tell. Raises `ModelError` if they are damaged."""
        from transformers import AutoConfig

        setup, settings = self.setup, self.setup.settings
        try:
            folder = setup.checkpoint.folder_here()
            config = AutoConfig.from_pretrained(folder, trust_remote_code=settings.trust_remote_code).to_dict()
        except load_errors() as error:
            raise ModelError(f"{setup.checkpoint.model!r} cannot be loaded: {one_line(error)}") from error
        texts = CausalTokenizer(self.tokenizer, settings.add_bos_token, settings.prefix_token_id, self.kind)
        limit = settings.max_length or longest_text(config, self.tokenizer)
        answer_tokens = self.prompting.answer_tokens if self.kind == "causal" else lambda _request: 0
        return Room(self.prompting, texts, limit, limit, answer_tokens)

    def generate(self, requests: Sequence[Prompt]) -> OutputStream[Reply]:
        """Return answers up to a stop text, which is cut off; a prompt that is too long loses its beginning.

        Each comes as soon as it has ended. Thinking is set apart; with a budget of its own (--reasoning), it may take
        twice the budget, as far as the model's limit allows, before it counts as cut off.

        Raises:
            TaskError: `max_new_tokens` leaves no room for a prompt.
            ModelError: the budget of --reasoning leaves none.
        """
        lm = self.network
        rows, truncated = self.prompting.rows(requests, lm, lm.max_length, lm.final)
        for row, request in zip(rows, requests, strict=True):
            row.format = None if request.answer is None else self.grammars.of(request.answer)
            row.draws = self.decoding.draws(row.prompt, request.sample)
        return OutputStream(len(requests), self._stream_replies(rows, truncated))

    def _stream_replies(self, rows: Sequence[Row], truncated: Set[int]) -> Iterator[Part[Reply]]:
        """Yield the answers one by one; `truncated` are the indexes of prompts without their beginning."""
        self.wrote = True
        indexes = {id(row): index for index, row in enumerate(rows)}
        for row in self.network.write(rows):
            index = indexes[id(row)]
            yield Part([index], [row.reply], truncated & {index})

    @property
    def do_sample(self) -> bool:
        """True if texts are sampled."""
        return self.decoding.sampling is not None

    @property
    def constrains_answers(self) -> bool:
        """True. Raises `MissingPackage` if xgrammar is not installed, before any question is asked."""
        check_installed()
        return True

    @cached_property
    def grammars(self) -> Grammars:
        """Formats that answers are held to. Raises `MissingPackage` if xgrammar is not installed."""
        check_installed()
        lm = self.network
        return Grammars(lm.tokenizer, vocabulary(lm.model), lm.final)

    def _token_scores(self, texts: Sequence[str]) -> Outputs[NDArray[np.float64]]:
        """Return what `figeval.ScoresTokens` describes. Raises `TaskError` for an empty text."""
        lm = self.network
        rows = [[*start, *ids] for start, ids in encode_pairs(lm, [("", text) for text in texts])]
        scores = self._in_batches(token_scores, [row[: lm.max_length] for row in rows])
        return Outputs(scores, frozenset(index for index, row in enumerate(rows) if len(row) > lm.max_length))

    def _score_words(self, requests: Sequence[WordScores]) -> Outputs[list[float]]:
        """Return log P of each word, from all that precedes it or from at least half a window."""
        lm = self.network
        texts = WindowedTexts.of(requests, lm.tokenizer, lm.prefix_token_id, lm.max_length)
        return texts.outputs(self._in_batches(token_logprobs, texts.rows))

    def _in_batches(self, score: Score, rows: Sequence[list[int]]) -> list[NDArray[np.float64]]:
        """Return the scores of rows of token ids that fit the model, so few at once that their logits fit, too."""
        lm = self.network
        room = logits_at_once(lm.model, lm.device)
        budget = TokenBudget(min(self.budget.tokens, room), self.budget.rows)
        return run_batches(list(map(len, rows)), partial(score, lm, rows), budget)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Tokenizer, loaded before the weights because prompts are rendered first."""
        return load_tokenizer(self.setup.checkpoint, trust=self.setup.settings.trust_remote_code)

    @cached_property
    def prompting(self) -> Prompting:
        """The maker of prompts, which also knows the first of them."""
        settings = self.setup.settings
        name, chats = self.setup.checkpoint.model, hasattr(self, "chat")
        return Prompting(self.tokenizer, name, chats, settings.enable_thinking, settings.reasoning)

    def _chat(self, messages: Sequence[Message]) -> str:
        """Return the turns rendered by the model's chat template, up to the beginning of the answer.

        Raises:
            TaskError: the template rejects these turns (some have no system role).
        """
        return self.prompting.render(messages)

    def load(self) -> FigevalHF:
        """Load the `HFLM`.

        Raises:
            ModelError: it cannot be loaded, its tokenizer has no token to begin a text with, or its config lacks the
                first token of a decoder.
        """
        setup = self.setup
        arguments = {**setup.settings.passed_on, "pretrained": str(setup.checkpoint.folder_here())}
        try:
            with suppress_logging("lm_eval"):
                from .figeval_hf import FigevalHF

                strategies = {"scoring": setup.settings.scoring, "writing": setup.settings.writing}
                precision = {"dtype": setup.dtype, "device": setup.device}
                lm = FigevalHF(**arguments, **strategies, **precision, backend=self.kind, checkpoint=setup.checkpoint)
        except load_errors() as error:
            raise ModelError(f"{setup.checkpoint.model!r} cannot be loaded: {one_line(error)}") from error
        lm.budget, lm.writing = self.budget, self.writing
        self._check(lm)
        self.writing.limit(free_memory(setup.device), cache_bytes_per_token(lm.model))
        return lm

    def _check(self, lm: FigevalHF) -> None:
        name = self.setup.checkpoint.model
        if lm.prefix_token_id is None:
            raise ModelError(f"{name!r} has no token that begins a text; set --model_args prefix_token_id=…")
        if self.kind == "seq2seq" and getattr(lm.model.config, "decoder_start_token_id", None) is None:
            raise ModelError(f"the config.json of {name!r} has no decoder_start_token_id; add it (T5: pad_token_id)")

    def details(self, network: FigevalHF) -> JSON:
        """Return the model's size and limit, the method of log-likelihoods, and the tokens of the first prompt."""
        details = measures(network.model, network.max_length) | {"kind": network.backend}
        if "engine" in vars(network):
            details |= network.engine.describe()
        opening = self.prompting.opening()
        if not self.wrote:
            return details | opening
        dtype = self.setup.settings.mixed_precision_dtype or self.setup.dtype
        opening = self.decoding.add_to(opening, dtype, self.setup.device)
        return details | {"writing": network.writer.describe()} | opening


def token_logprobs(lm: FigevalHF, rows: Sequence[list[int]], indices: list[int]) -> list[NDArray[np.float64]]:
    """Return log P of each token after the first, for some rows."""
    import torch

    ids, mask = pad([rows[index] for index in indices], 0, lm.device)
    with torch.inference_mode():
        logits = lm.model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
        targets = logits.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
        logprobs = (targets.double() - logits.logsumexp(-1).double()).cpu().numpy()
    return [row_logprobs[: len(rows[index]) - 1] for index, row_logprobs in zip(indices, logprobs, strict=True)]


def token_scores(lm: FigevalHF, rows: Sequence[list[int]], indices: list[int]) -> list[NDArray[np.float64]]:
    """Return log P of each token after the first, and its mean and deviation over the vocabulary, for some rows."""
    import torch

    ids, mask = pad([rows[index] for index in indices], 0, lm.device)
    with torch.inference_mode():
        logits = lm.model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
        logprobs = logits.log_softmax(-1).clamp_min(MIN_LOGPROB)  # or 0 · −∞ would be NaN
        shares = logprobs.exp()
        mean = (shares * logprobs).sum(-1)
        deviation = (shares * (logprobs - mean.unsqueeze(-1)).square()).sum(-1).sqrt()
        token_logprobs = logprobs.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
        scores = torch.stack((token_logprobs, mean, deviation), dim=-1).double().cpu().numpy()
    return [row_scores[: len(rows[index]) - 1] for index, row_scores in zip(indices, scores, strict=True)]


def open_model(settings: LanguageSettings, *kinds: str) -> LanguageModel:
    """Open a causal or encoder-decoder model of one of these kinds from a folder or hub id.

    Raises:
        ModelError: no such model, an encoder, an unavailable device, half precision on a CPU, or a chat template
            without a choice on whether to use it; --reasoning for a model that is not known to think; `scoring` for
            an encoder-decoder; what `decoding_of` raises, and a way of writing that cannot sample.
    """
    checkpoint = locate(settings.model, settings.revision, settings.base)
    require(checkpoint, *kinds)
    check_chat_template(checkpoint, settings.apply_chat_template)
    kind = by_class(checkpoint) or kinds[0]
    if kind != "causal" and settings.scoring != "auto":
        raise ModelError(f"scoring={settings.scoring} is for causal models; {settings.model!r} is an encoder-decoder")
    decoding = decoding_of(settings, checkpoint)
    if decoding.sampling is not None and settings.writing == "continuous":
        raise ModelError("writing=continuous has no random numbers for each text; leave out writing, or temperature")
    model = LanguageModel(prepare(settings, checkpoint), kind, decoding)
    if settings.reasoning is not None:
        model.prompting.check()
    return model


def open_smollm2(settings: LanguageSettings) -> LanguageModel:
    """Open SmolLM2-135M-Instruct, with its 4-bit weights dequantised.

    It was tuned on conversations, so its chat template is used by default.

    Raises:
        ModelError: its package is not installed, there is no room to unpack it, or it is to think (--reasoning), which
            it has not learnt; see `open_model`.
    """
    refuse_model_name(SMOLLM2.name, settings.model)
    if settings.reasoning is not None and settings.reasoning.on:
        raise ModelError(f"{SMOLLM2.name!r} does not think before it answers; leave out --reasoning")
    use_template = settings.apply_chat_template is not False
    return open_model(replace(settings, model=str(SMOLLM2.folder()), apply_chat_template=use_template), "causal")


causal = Configured(LanguageSettings, lambda settings: open_model(settings, "causal"), constrains_answers=True)
seq2seq = Configured(LanguageSettings, lambda settings: open_model(settings, "seq2seq"), constrains_answers=True)
hf = Configured(LanguageSettings, lambda settings: open_model(settings, "causal", "seq2seq"), constrains_answers=True)
smollm2 = Configured(LanguageSettings, open_smollm2, constrains_answers=True)
