"""Extractive heads: any `…ForQuestionAnswering` checkpoint of transformers. Capability: find_spans.

The model reads the text together with "known SEP given" (the proverb, a span of it); the head gives every token of the
text one logit for being the start of the answer and one for being the end. The text comes second, as such checkpoints
are trained; `text=first` puts it first, as Ghosh and Srivastava (2022, section 5.2) describe the input. With
`question=given` the proverb is left out; with `question=none` the text is read alone, as in their released code, where
all spans of a text come out alike. A text that is too long is read in windows and never truncated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from figeval.errors import ModelError
from figeval.types import JSON, NO_SPAN, ScoredSpan, Span, SpanQuery

from ..torch_models.checkpoint import locate, require, with_declared
from ..torch_models.loading import LoadedModel, Neural, load_with_tokenizer, measures, prepare
from ..torch_models.overlapping import Copy, fetched_rows
from ..torch_models.settings import Configured, Settings, one_of, positive
from ..torch_models.tokens import Floats, Passages, passages

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


SECOND = "second"
FULL_QUESTION = "full"
# The question beside the text, from the query and the tokenizer's separator.
QUESTION_TEXTS: dict[str, Callable[[SpanQuery, str], str]] = {
    FULL_QUESTION: lambda query, separator: f"{query.known}{separator}{query.given}",
    "given": lambda query, _: query.given,
}
QUESTIONS = (*QUESTION_TEXTS, "none")
# The rule in words, for the record.
NULL_RULE = "; or no span, if the logits of the first token score higher"
RULE = "best log p(start) + log p(end), start <= end, over the tokens of the text; ties: the shortest, then the first"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanSettings(Settings):
    """Settings of span finders.

    Attributes:
        text: place of the text in the input, "first" or "second".
        question: content of the other text, "full", "given" or "none". None for both: as the checkpoint declares in
            figeval.json, else second and full.
        max_span: longest answer in tokens; None for any length.
        null_score: whether the first token's score means "no span is right", as in heads that were trained on SQuAD 2.0
            or with `--head_args null_score=true`.
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
            raise ModelError(f"null_score={self.null_score} must be true or false")
        if self.max_span is not None:
            object.__setattr__(self, "max_span", positive("max_span", self.max_span))

    @property
    def side(self) -> int:
        """Index of the text in the input pair."""
        return int((self.text or SECOND) == SECOND)


# ---- from logits for starts and ends to the best stretch of a text ---------------------------------------------------


def find_best_spans(
    passages: Passages,
    outputs: Sequence[Floats],
    texts: Sequence[str],
    longest: int | None,
    nulls: Sequence[Floats] | None = None,
) -> list[list[ScoredSpan]]:
    """Return the best span of every text; `outputs[w]` are start and end logits of the text's tokens in window w.

    `nulls` (windows, 2) are the logits of the token for "no span". Of several windows, the one where "no span" scores
    lowest counts, as in the SQuAD 2.0 code of BERT.
    """
    best_nulls: dict[int, Floats] = {}
    for window, null in zip(passages.windows, () if nulls is None else nulls, strict=nulls is not None):
        if window.owner not in best_nulls or sum(null) < sum(best_nulls[window.owner]):
            best_nulls[window.owner] = null
    outputs_by_text = enumerate(zip(texts, passages.offsets, passages.join(outputs), strict=True))
    return [best_span(*text_outputs, longest, best_nulls.get(owner)) for owner, text_outputs in outputs_by_text]


def best_span(
    text: str, offsets: Sequence[tuple[int, int]], logits: Floats, longest: int | None, null: Floats | None = None
) -> list[ScoredSpan]:
    """Return the span with the best log p(start) + log p(end), in characters and without white space at its ends.

    `logits` has shape (tokens, 2), `longest` is in tokens. Both distributions are over the tokens of the text only,
    because an answer is part of it. Logits of all windows share one normaliser, so that they are comparable (Clark and
    Gardner 2018, section 3.1). If all tokens are white space, there is no span. NaN among the logits makes the score
    NaN. `null` (2,) are start and end logits for "no span": then both distributions include it, and `NO_SPAN` is
    returned besides the span, the better one first.
    """
    import numpy as np

    solid = solid_tokens(text, offsets)
    if not solid:
        return [] if null is None else [ScoredSpan(NO_SPAN, 0.0)]
    text_logits = np.asarray(logits, dtype=np.float64)[solid]
    spare = 0 if null is None else 1
    starts, ends = log_softmax((text_logits if null is None else np.vstack((null, text_logits))).T)
    first, last, score = best_pair(starts[spare:], ends[spare:], longest)
    start, end = offsets[solid[first]][0], offsets[solid[last]][1]
    words = text[start:end]
    scored_spans = [ScoredSpan(Span(end - len(words.lstrip()), start + len(words.rstrip())), score)]
    if spare:
        scored_spans.append(ScoredSpan(NO_SPAN, float(starts[0] + ends[0])))
    return sorted(scored_spans, key=lambda span: -span.score)


def solid_tokens(text: str, offsets: Sequence[tuple[int, int]]) -> list[int]:
    """Return the indexes of the tokens that are not just white space; an answer begins and ends with one."""
    return [index for index, (start, end) in enumerate(offsets) if text[start:end].strip()]


def log_softmax(logits: Floats) -> Floats:
    """Return the log-probabilities over the last axis."""
    import numpy as np

    with np.errstate(invalid="ignore"):  # inf - inf
        shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def best_pair(starts: Floats, ends: Floats, longest: int | None = None) -> tuple[int, int, float]:
    """Return (start, end, score) with the best `starts[start] + ends[end]`, where 0 <= end - start < `longest`.

    Ties go to the shortest, then the first. Row e of a sliding window holds the possible starts for end e, nearest
    first, which covers all pairs without a matrix of them in memory.
    """
    import numpy as np

    n = len(starts)
    reach = min(n, longest or n)
    padded_starts = np.concatenate((np.full(reach - 1, -np.inf), starts))
    reachable = np.lib.stride_tricks.sliding_window_view(padded_starts, reach)[:, ::-1]  # (n, reach)
    back = reachable.argmax(axis=1)
    scores = reachable[np.arange(n), back] + ends
    best = scores.max()
    if np.isnan(best):
        return 0, n - 1, float("nan")
    ties = np.flatnonzero(scores == best)
    last = int(ties[back[ties].argmin()])
    return last - int(back[last]), last, float(best)


# ---- the backend -----------------------------------------------------------------------------------------------------


class SpanFinder(Neural[SpanSettings, LoadedModel]):
    """A model that finds the span of a text that corresponds to a given one."""

    def find_spans(self, requests: Sequence[SpanQuery]) -> list[list[ScoredSpan]]:
        """Return the best span per request by the rule of `best_span`; no span for a text without tokens.

        With `null_score` also return the empty span, which means that there is none.

        Raises:
            ModelError: known and given leave no room for a text that does not fit in one input.
        """
        settings, network = self.setup.settings, self.network
        windows = passages_of(requests, settings, network.tokenizer, network.limit)

        def start(batch: dict[str, Tensor], _rows: list[int]) -> Copy:
            import torch

            with torch.inference_mode():
                output = network.model(**batch)
                return Copy(torch.stack((output.start_logits, output.end_logits), dim=-1).float())

        def fetch(copy: Copy, rows: list[int]) -> list[tuple[Floats, Floats]]:
            logits = fetched_rows(copy, rows)
            return list(zip(windows.crop(logits, rows), logits[:, 0].astype(float), strict=True))

        outputs = self.read_batches(windows.tokens.lengths, windows.tokens.on_host, start, fetch)
        logits, nulls = [text_logits for text_logits, _ in outputs], [null for _, null in outputs]
        texts = [request.text for request in requests]
        return find_best_spans(windows, logits, texts, settings.max_span, nulls if settings.null_score else None)

    def load(self) -> LoadedModel:
        """Load the model with its head."""
        from transformers import AutoModelForQuestionAnswering

        return load_with_tokenizer(AutoModelForQuestionAnswering, self.setup)

    def details(self, network: LoadedModel) -> JSON:
        """Return the model's size and limit, the place of the text, and how the span is chosen."""
        settings = self.setup.settings
        inputs: JSON = {"text": ("first", SECOND)[settings.side], "question": settings.question or FULL_QUESTION}
        rule = RULE + NULL_RULE if settings.null_score else RULE
        span_settings: JSON = {"max_span": settings.max_span, "span": rule}
        return measures(network.model, network.limit) | inputs | span_settings


def passages_of(
    requests: Sequence[SpanQuery], settings: SpanSettings, tokenizer: PreTrainedTokenizerBase, limit: int | None
) -> Passages:
    """Return the texts and their questions as inputs of at most `limit` tokens.

    Raises:
        ModelError: a question leaves no room for its text, or inputs have no first token for `null_score`.
    """
    if settings.null_score and tokenizer("a")["input_ids"][0] != tokenizer.cls_token_id:
        raise ModelError("null_score=true: inputs of this model do not begin with a token of its own; leave it out")
    texts = [request.text for request in requests]
    question_text = QUESTION_TEXTS.get(settings.question or FULL_QUESTION)
    if question_text is None:
        return passages(tokenizer, [texts], 0, limit)
    separator = tokenizer.sep_token or tokenizer.eos_token or " "
    questions = [question_text(request, separator) for request in requests]
    return passages(tokenizer, (questions, texts) if settings.side else (texts, questions), settings.side, limit)


def open_spans(settings: SpanSettings) -> SpanFinder:
    """Open a span finder from a folder or hub id.

    Raises:
        ModelError: no such model, no span head, or a setting that `prepare` rejects.
    """
    checkpoint = locate(settings.model, settings.revision, settings.base)
    require(checkpoint, "spans")
    return SpanFinder(prepare(with_declared(settings, checkpoint), checkpoint))


spans = Configured(SpanSettings, open_spans)
