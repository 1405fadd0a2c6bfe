"""Span head: predicts start and end of the span that corresponds to a given one (Ghosh and Srivastava 2022, 5.2).

The loss is the sum of the cross-entropies of start and end, each over the tokens of the text alone, because the best
span is later searched there. If a text is too long, training reads the one window that shows most of the right span,
and among several that show all of it the one with most context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import torch
from torch.nn import functional

from figeval.errors import TrainError
from figeval.models.capabilities import capabilities
from figeval.task_types.spans import SpanExample
from figeval.types import JSON, NO_SPAN, Example, Span, SpanQuery

from ..encoders.span_finder import FULL_QUESTION, SECOND, SpanFinder, SpanSettings, passages_of, solid_tokens
from ..torch_models.checkpoint import ends, with_declared
from ..torch_models.loading import LoadedModel
from ..torch_models.tokens import NoRoom, Passages, TokenWindow
from .base_model import Base, base_of, freeze_modules, fresh_head, options_of
from .inputs import BatchLosses, IndependentFeatures, inputs_of

if TYPE_CHECKING:
    from torch import Tensor

    from figeval.models.learner import Batch, Setup


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanOptions:
    """Options of the span head.

    Attributes:
        text: place of the text in the input, first or second.
        question: content of the other text: full (the proverb and the given span of it), given, or none (as in the
            authors' code).
        max_span: longest answer in tokens, in evaluation.
        null_score: whether the first token of the input means "no span is right", as trained on examples without a
            span.
        freeze: names of modules that are not trained, a+b.
    """

    text: str | None = None
    question: str | None = None
    max_span: int | None = None
    null_score: bool | None = None
    freeze: str = ""


# ---- targets: where the right stretch begins and ends among the tokens of an input -----------------------------------


@dataclass(frozen=True, slots=True)
class AnswerTokens:
    """A span of an input: positions of its first and last token, and the number of its tokens that the input lacks."""

    first: int
    last: int
    lost: int = 0


def gold_of(example: SpanExample) -> Span:
    """Return the right span. Raises `TrainError` if it is hidden."""
    if example.gold is None:
        raise TrainError(f"{example.id} has no span to learn from; leave it out of the train split")
    return example.gold


def gold_tokens(example: SpanExample, offsets: Sequence[tuple[int, int]]) -> list[int]:
    """Return the numbers of the text's tokens, at `offsets` of its characters, that overlap the right span.

    Raises:
        TrainError: no token overlaps it, the span is hidden, or it is `NO_SPAN`.
    """
    gold = gold_of(example)
    if gold == NO_SPAN:
        raise TrainError(
            f"{example.id}: no span is right, which only the head `span` can learn, with --head_args null_score=true; "
            f"or leave it out of the train split"
        )
    solid = solid_tokens(example.text, offsets)
    overlapping = [token for token in solid if offsets[token][0] < gold.end and offsets[token][1] > gold.start]
    if not overlapping:
        raise TrainError(f"{example.id}: no token overlaps its span; leave it out of the train split")
    return overlapping


def answer_in(window: TokenWindow, tokens: Sequence[int]) -> AnswerTokens | None:
    """Return the position of these tokens of the text in an input, or None if it shows none of them."""
    shown = [token for token in tokens if window.first <= token < window.first + window.count]
    if not shown:
        return None
    before = window.at - window.first
    return AnswerTokens(before + shown[0], before + shown[-1], len(tokens) - len(shown))


def search_positions(passages: Passages, row: int, text: str) -> list[int]:
    """Return the searched positions of an input: the text's own tokens that are not white space."""
    window = passages.windows[row]
    solid = solid_tokens(text, passages.offsets[window.owner][window.token_slice])
    return [window.at + token for token in solid]


def position_mask(positions: Sequence[Sequence[int]], length: int) -> Tensor:
    """Return positions per row as a mask (rows, length)."""
    mask = torch.zeros(len(positions), length, dtype=torch.bool)
    for row, row_positions in enumerate(positions):
        mask[row, list(row_positions)] = True
    return mask


def span_losses(logits: Tensor, mask: Tensor, answers: Tensor) -> Tensor:
    """Return the cross-entropies of start and end (rows, 2) in float32, over the tokens that the backend searches.

    `logits` is (rows, length, 2), `mask` (rows, length) is true where it searches, `answers` (rows, 2) are the right
    positions.
    """
    masked = logits.float().masked_fill(~mask.unsqueeze(-1), float("-inf"))
    return functional.cross_entropy(masked, answers, reduction="none")


NULL = AnswerTokens(0, 0)  # the first token of an input, BERT's [CLS], means "no span is right"


class SpanFeatures(IndependentFeatures):
    """One window of each text, and the right span in it; with `null` the first token is a target, too."""

    def __init__(self, passages: Passages, examples: Sequence[SpanExample], *, null: bool = False) -> None:
        self.passages = passages
        windows: list[list[int]] = [[] for _ in examples]
        for row, window in enumerate(passages.windows):
            windows[window.owner].append(row)
        choices = [
            (rows[0], NULL) if null and rows and example.gold == NO_SPAN else best_window(passages, rows, example)
            for rows, example in zip(windows, examples, strict=True)
        ]
        self.rows, self.answers = [row for row, _ in choices], [answer for _, answer in choices]
        null_positions = [NULL.first] if null else []
        self.searched = [
            [*null_positions, *search_positions(passages, row, example.text)]
            for row, example in zip(self.rows, examples, strict=True)
        ]
        lengths = passages.tokens.lengths
        self.lengths = [lengths[row] for row in self.rows]
        self.truncated = sum(len(rows) > 1 for rows in windows)

    def batch(self, rows: Sequence[int], draw: int) -> Batch:  # noqa: ARG002 - nothing is drawn
        """Return input_ids, attention_mask … and searched (rows, length), answers (rows, 2)."""
        inputs = self.passages.tokens.tensors([self.rows[row] for row in rows], "cpu")
        answers = torch.tensor([(self.answers[row].first, self.answers[row].last) for row in rows])
        length = inputs["input_ids"].shape[1]
        return {**inputs, "searched": position_mask([self.searched[row] for row in rows], length), "answers": answers}


def best_window(passages: Passages, rows: Sequence[int], example: SpanExample) -> tuple[int, AnswerTokens]:
    """Return the given input that shows most of the right span, then most context around it; and the span in it.

    Raises:
        TrainError: there is no right span, or no token in it.
    """
    tokens = gold_tokens(example, passages.offsets[passages.windows[rows[0]].owner] if rows else ())
    answers = ((row, answer_in(passages.windows[row], tokens)) for row in rows)
    shown = [(row, answer) for row, answer in answers if answer is not None]

    def quality(choice: tuple[int, AnswerTokens]) -> tuple[int, int]:
        row, answer = choice
        window = passages.windows[row]
        return -answer.lost, min(answer.first - window.at, window.at + window.count - 1 - answer.last)

    return max(shown, key=quality)


# ---- network ---------------------------------------------------------------------------------------------------------


class SpanHeadNetwork(BatchLosses):
    """Network that computes the sum of the start and end losses."""

    def losses(self, batch: Batch) -> Tensor:
        """Return losses (rows,) of one batch."""
        output = self.model(**inputs_of(batch))
        logits = torch.stack((output.start_logits, output.end_logits), dim=-1)
        return span_losses(logits, batch["searched"], batch["answers"]).sum(-1)


# ---- learner ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpanLearner:
    """Learner of spans. `settings` are those of the backend that reads the trained model."""

    base: Base
    settings: SpanSettings
    freeze: str = ""
    select_by: None = None
    offers: ClassVar[frozenset[str]] = capabilities(SpanFinder)

    @property
    def fresh(self) -> bool:
        """True if the checkpoint has no such head."""
        return not ends("ForQuestionAnswering")(self.base.checkpoint)

    def network(self) -> SpanHeadNetwork:
        """Return the model, with the checkpoint's head or a fresh one."""
        from transformers import AutoModelForQuestionAnswering as Auto

        model = fresh_head(self.base, Auto, num_labels=2) if self.fresh else self.base.load(Auto)
        freeze_modules(model, self.freeze)
        return SpanHeadNetwork(model)

    def features(self, examples: Sequence[Example]) -> SpanFeatures:
        """Return the tokenized texts and questions, and the right spans."""
        rows = cast("Sequence[SpanExample]", examples)
        return SpanFeatures(self._passages(rows), rows, null=bool(self.settings.null_score))

    def overlong(self, examples: Sequence[Example]) -> dict[int, str]:
        """Return why the model cannot read an example, by the index of each whose question fills the input."""
        rows = cast("Sequence[SpanExample]", examples)
        if self._has_room(rows):  # one call is much faster than one for each example
            return {}
        reason = f"leaves no room for its text in {self.base.limit} tokens"
        full = (row for row, example in enumerate(rows) if not self._has_room([example]))
        return {row: f"the question of {rows[row].id!r} {reason}" for row in full}

    def _has_room(self, rows: Sequence[SpanExample]) -> bool:
        try:
            self._passages(rows)
        except NoRoom:
            return False
        return True

    def _passages(self, rows: Sequence[SpanExample]) -> Passages:
        queries = [SpanQuery(row.text, row.given, row.known) for row in rows]
        return passages_of(queries, self.settings, self.base.tokenizer, self.base.limit)

    def backend(self, network: SpanHeadNetwork) -> SpanFinder:
        """Return the model as a backend of `figeval run`."""
        model = LoadedModel(network.model, self.base.tokenizer, self.base.limit)
        return SpanFinder(self.base.setup_of(self.settings, network)).with_network(model)

    def save(self, network: SpanHeadNetwork, weights: Mapping[str, Tensor], folder: Path) -> JSON:
        """Save the question-answering model as transformers does, with its tokenizer."""
        self.base.save(network.model, weights, "model.", folder)
        return {"kind": "spans", **self.settings_record()}

    def settings_record(self) -> JSON:
        """Return the options with which the backend reads the model."""
        settings = self.settings
        record: JSON = {"text": settings.text or SECOND, "question": settings.question or FULL_QUESTION}
        chosen = {"max_span": settings.max_span, "null_score": settings.null_score}
        return record | {name: value for name, value in chosen.items() if value is not None}

    def describe(self) -> JSON:
        """Return the options of reading, whether the head is fresh, and the frozen modules."""
        return {
            **self.settings_record(),
            "windows": "the one that shows most of the span, then most around it",
            "fresh_head": self.fresh,
            "frozen": self.freeze,
            "max_length": self.base.limit,
        }


def span(setup: Setup) -> SpanLearner:
    """Make a learner. What the model declares applies unless an option says otherwise.

    Raises:
        FigevalError: no such model, or an unknown option.
    """
    options = options_of(SpanOptions, setup.options)
    requested = SpanSettings(
        text=options.text, question=options.question, max_span=options.max_span, null_score=options.null_score
    )
    base = base_of(setup)
    return SpanLearner(base, with_declared(requested, base.checkpoint), options.freeze)
