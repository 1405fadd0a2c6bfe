"""Extractive heads: any `…ForQuestionAnswering` checkpoint of transformers. Capability: find_spans.

The model reads the text beside "known SEP given" (the proverb, a stretch of it); the head gives every token of the
text a logit for being the start and one for being the end of the answer. The text stands second, as such checkpoints
are trained; `text=first` puts it first, as the input is described in Ghosh and Srivastava (2022, section 5.2). With
`question=given` the proverb is left out; with `question=none` the text is read alone, as in their released code, where
all spans of a text come out alike. A text that is too long is read in windows, none is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from figeval.errors import ModelError
from figeval.hooks import hookimpl
from figeval.types import JSON, ScoredSpan, SpanQuery

from ._batching import run_batches
from ._checkpoint import locate, require
from ._declared import with_declared
from ._loading import input_limit, load_model, load_tokenizer
from ._neural import Neural, measures, prepare
from ._passages import Passages, passages
from ._settings import Configured, Settings, one_of, positive
from ._span_search import NULL_RULE, RULE, found_spans

if TYPE_CHECKING:
    from figeval.hooks import BackendRegistrar

SECOND = "second"
FULL = "full"
# What stands beside the text, made of the query and the tokenizer's separator.
BESIDE: dict[str, Callable[[SpanQuery, str], str]] = {
    FULL: lambda query, separator: f"{query.known}{separator}{query.given}",
    "given": lambda query, _: query.given,
}
QUESTIONS = (*BESIDE, "none")


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """One name."""
    target = "figeval.builtin.plugins.spans:spans"
    register("spans", target, "extractive head: a question-answering checkpoint (text=first, max_span=)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanSettings(Settings):
    """`text` is the place of the text beside the question, "first" or "second"; `question` is what that is made of:
    "full", "given" or "none" (None: as the checkpoint declares in figeval.json, else second and full). `max_span` is
    the longest answer in tokens (None: any). With `null_score` the first token stands for "no span is right", as in
    heads that were trained on SQuAD 2.0 or with `--head_args null_score=true`.
    """

    text: str | None = None
    question: str | None = None
    max_span: int | None = None
    null_score: bool | None = None

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        if self.text is not None:
            one_of("text", self.text, ("first", SECOND))
        if self.question is not None:
            one_of("question", self.question, QUESTIONS)
        if self.null_score not in (None, True, False):
            raise ModelError(f"null_score={self.null_score} is neither true nor false")
        if self.max_span is not None:
            object.__setattr__(self, "max_span", positive("max_span", self.max_span))

    @property
    def side(self) -> int:
        """The place of the text in the pair."""
        return int((self.text or SECOND) == SECOND)


@dataclass(frozen=True, slots=True)
class SpanNetwork:
    """A loaded model with start and end logits."""

    model: Any
    tokenizer: Any
    limit: int | None


class SpanFinder(Neural[SpanSettings, SpanNetwork]):
    """Finds the stretch of a text that corresponds to a given one."""

    def find_spans(self, requests: Sequence[SpanQuery]) -> list[list[ScoredSpan]]:
        """Per request the best span, by the rule of `best_span`; none in a text without a token. With `null_score` also
        the empty span, which says that there is none.

        Raises:
            ModelError: known and given leave no room for a text that is too long to be read at once.
        """
        settings, network = self.setup.settings, self.network
        found = passages_of(requests, settings, network.tokenizer, network.limit)

        def forward(rows: list[int]) -> Any:
            import torch

            with torch.inference_mode():
                output = network.model(**found.tokens.tensors(rows, self.setup.device))
            logits = torch.stack((output.start_logits, output.end_logits), dim=-1).float().cpu().numpy()
            return list(zip(found.within(logits, rows), logits[:, 0].astype(float), strict=True))

        outputs = run_batches(found.tokens.lengths, forward, self.budget)
        logits, nulls = [own for own, _ in outputs], [null for _, null in outputs]
        texts = [one.text for one in requests]
        return found_spans(found, logits, texts, settings.max_span, nulls if settings.null_score else None)

    def load(self) -> SpanNetwork:
        """The model with its head."""
        from transformers import AutoModelForQuestionAnswering

        setup = self.setup
        tokenizer = load_tokenizer(setup.checkpoint, trust=setup.settings.trust_remote_code)
        model = load_model(AutoModelForQuestionAnswering, setup)
        limit = input_limit(setup.settings.max_length, tokenizer.model_max_length, model)
        return SpanNetwork(model, tokenizer, limit)

    def details(self, network: SpanNetwork) -> JSON:
        """Size, limit, where the text stands, and how the span is chosen."""
        settings = self.setup.settings
        read: JSON = {"text": ("first", SECOND)[settings.side], "question": settings.question or FULL}
        rule = RULE + NULL_RULE if settings.null_score else RULE
        chosen: JSON = {"max_span": settings.max_span, "span": rule}
        return measures(network.model, network.limit) | read | chosen


def passages_of(requests: Sequence[SpanQuery], settings: SpanSettings, tokenizer: Any, limit: int | None) -> Passages:
    """The texts with what stands beside them, as inputs of at most `limit` tokens.

    Raises:
        ModelError: what stands beside a text leaves no room for it, or `null_score` has no token to stand for it.
    """
    if settings.null_score and tokenizer("a")["input_ids"][0] != tokenizer.cls_token_id:
        raise ModelError("null_score=true: inputs of this model do not begin with a token of its own; leave it out")
    texts = [one.text for one in requests]
    beside = BESIDE.get(settings.question or FULL)
    if beside is None:
        return passages(tokenizer, [texts], 0, limit)
    separator = tokenizer.sep_token or tokenizer.eos_token or " "
    questions = [beside(one, separator) for one in requests]
    return passages(tokenizer, (questions, texts) if settings.side else (texts, questions), settings.side, limit)


def open_spans(settings: SpanSettings) -> SpanFinder:
    """A span head from a folder or hub id.

    Raises:
        ModelError: no such model, no span head, or what `prepare` refuses.
    """
    checkpoint = locate(settings.model, settings.revision)
    require(checkpoint, "spans")
    return SpanFinder(prepare(with_declared(settings, checkpoint), checkpoint))


spans = Configured(SpanSettings, open_spans)
