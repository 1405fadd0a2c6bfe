"""A head that points: where the stretch that stands for a given one begins and ends (Ghosh and Srivastava 2022, 5.2).

The loss is the cross-entropy of the right start and that of the right end, each over the tokens of the text alone:
there the best span is searched later. Of a text that is too long, training reads the one window that shows most of the
right stretch, and among several that show the whole the one with most around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from torch.nn import Module, functional

from figeval.errors import TrainError
from figeval.task_types.spans import SpanExample
from figeval.types import JSON, NO_SPAN, Example, Span, SpanQuery

from ..encoders.checkpoint import ends, with_declared
from ..encoders.loading import ModelSetup
from ..encoders.span_finder import FULL, SECOND, SpanFinder, SpanNetwork, SpanSettings, passages_of, solid_tokens
from ..encoders.tokens import Passages, Window
from .base_model import Base, base_of, fresh_head, frozen_modules, options_of
from .inputs import IndependentFeatures, inputs_of

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from figeval.training.contract import Batch, Setup


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanOptions:
    """`text` is the place of the text beside the question, first or second; `question` is what that is made of: full
    (the proverb and the given stretch of it), given, or none (as in the authors' code). `max_span` is the longest
    answer in tokens, when the model is asked. With `null_score` the first token of the input stands for "no span is
    right", and is learnt from examples whose gold is that. `freeze` names modules that are not trained, a+b.
    """

    text: str | None = None
    question: str | None = None
    max_span: int | None = None
    null_score: bool | None = None
    freeze: str = ""


# ---- targets: where the right stretch begins and ends among the tokens of an input -----------------------------------


@dataclass(frozen=True, slots=True)
class AnswerTokens:
    """A stretch of an input: places of its first and last token, and how many of its tokens the input does not show."""

    first: int
    last: int
    lost: int = 0


def gold_of(example: SpanExample) -> Span:
    """The right stretch. Raises `TrainError` where it is hidden."""
    if example.gold is None:
        raise TrainError(f"{example.id} has no span to learn from; leave it out of the train split")
    return example.gold


def gold_tokens(example: SpanExample, places: Sequence[tuple[int, int]]) -> list[int]:
    """Numbers of the text's tokens, at `places` of its characters, that overlap with the right stretch.

    Raises:
        TrainError: there are none.
    """
    gold = gold_of(example)
    if gold == NO_SPAN:
        raise TrainError(
            f"{example.id}: no span is right, which only the head `span` can learn, with --head_args null_score=true; "
            f"or leave it out of the train split"
        )
    solid = solid_tokens(example.text, places)
    found = [token for token in solid if places[token][0] < gold.end and places[token][1] > gold.start]
    if not found:
        raise TrainError(f"{example.id}: no token stands where its span is; leave it out of the train split")
    return found


def answer_in(window: Window, tokens: Sequence[int]) -> AnswerTokens | None:
    """Where these tokens of the text stand in an input; None where it shows none of them."""
    shown = [token for token in tokens if window.first <= token < window.first + window.count]
    if not shown:
        return None
    before = window.at - window.first
    return AnswerTokens(before + shown[0], before + shown[-1], len(tokens) - len(shown))


def searched(passages: Passages, row: int, text: str) -> list[int]:
    """Places of an input among which a span is looked for: the text's own tokens that are no white space."""
    window = passages.windows[row]
    solid = solid_tokens(text, passages.places[window.owner][window.shown])
    return [window.at + token for token in solid]


def inside(places: Sequence[Sequence[int]], length: int) -> Tensor:
    """Places per row as a mask (rows, length)."""
    mask = torch.zeros(len(places), length, dtype=torch.bool)
    for row, own in enumerate(places):
        mask[row, list(own)] = True
    return mask


def span_losses(logits: Tensor, searched: Tensor, answers: Tensor) -> Tensor:
    """Cross-entropies of start and end (rows, 2) in float32, over the tokens where the reading side searches.

    `logits` (rows, length, 2), `searched` (rows, length) a mask, `answers` (rows, 2) the right places.
    """
    known = logits.float().masked_fill(~searched.unsqueeze(-1), float("-inf"))
    return functional.cross_entropy(known, answers, reduction="none")


NULL = AnswerTokens(0, 0)  # the first token of an input, [CLS] of BERT, stands for "no span is right"


class SpanFeatures(IndependentFeatures):
    """One window of each text, and the right stretch in it; with `null` the first token is a target, too."""

    def __init__(self, passages: Passages, examples: Sequence[SpanExample], *, null: bool = False) -> None:
        self.passages = passages
        own: list[list[int]] = [[] for _ in examples]
        for row, window in enumerate(passages.windows):
            own[window.owner].append(row)
        found = [
            (rows[0], NULL) if null and rows and one.gold == NO_SPAN else best_window(passages, rows, one)
            for rows, one in zip(own, examples, strict=True)
        ]
        self.rows, self.answers = [row for row, _ in found], [answer for _, answer in found]
        spare = [NULL.first] if null else []
        self.searched = [
            [*spare, *searched(passages, row, one.text)] for row, one in zip(self.rows, examples, strict=True)
        ]
        lengths = passages.tokens.lengths
        self.lengths = [lengths[row] for row in self.rows]
        self.truncated = sum(len(rows) > 1 for rows in own)

    def batch(self, rows: Sequence[int], draw: int) -> Batch:  # noqa: ARG002 - nothing is drawn
        """input_ids, attention_mask … and searched (rows, length), answers (rows, 2)."""
        inputs = self.passages.tokens.tensors([self.rows[row] for row in rows], "cpu")
        answers = torch.tensor([(self.answers[row].first, self.answers[row].last) for row in rows])
        length = inputs["input_ids"].shape[1]
        return {**inputs, "searched": inside([self.searched[row] for row in rows], length), "answers": answers}


def best_window(passages: Passages, rows: Sequence[int], example: SpanExample) -> tuple[int, AnswerTokens]:
    """The input, of these, that shows most of the right stretch, then most around it; and the stretch in it.

    Raises:
        TrainError: there is no stretch, or no token in it.
    """
    tokens = gold_tokens(example, passages.places[passages.windows[rows[0]].owner] if rows else ())
    answers = ((row, answer_in(passages.windows[row], tokens)) for row in rows)
    shown = [(row, answer) for row, answer in answers if answer is not None]

    def worth(found: tuple[int, AnswerTokens]) -> tuple[int, int]:
        row, answer = found
        window = passages.windows[row]
        return -answer.lost, min(answer.first - window.at, window.at + window.count - 1 - answer.last)

    return max(shown, key=worth)


# ---- network ---------------------------------------------------------------------------------------------------------


class SpanHeadNetwork(Module):  # type: ignore[misc]
    """Losses of start and end, added up."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batches: Sequence[Batch], beside: Sequence[Batch]) -> Tensor:  # noqa: ARG002 - there is nothing
        """Losses (rows,) of the rows of all batches."""
        return torch.cat([self.losses(batch) for batch in batches])

    def losses(self, batch: Batch) -> Tensor:
        """Those of one batch."""
        output = self.model(**inputs_of(batch))
        logits = torch.stack((output.start_logits, output.end_logits), dim=-1)
        return span_losses(logits, batch["searched"], batch["answers"]).sum(-1)


# ---- learner ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpanLearner:
    """The learner. `settings` are those of the backend that reads what was trained."""

    base: Base
    settings: SpanSettings
    freeze: str = ""
    select_by: None = None

    @property
    def fresh(self) -> bool:
        """Whether the checkpoint has no such head."""
        return not ends("ForQuestionAnswering")(self.base.checkpoint)

    def network(self) -> SpanHeadNetwork:
        """The model, with its own head or a fresh one."""
        from transformers import AutoModelForQuestionAnswering as Auto

        model = fresh_head(self.base, Auto, num_labels=2) if self.fresh else self.base.load(Auto)
        frozen_modules(model, self.freeze)
        return SpanHeadNetwork(model)

    def features(self, examples: Sequence[Example]) -> SpanFeatures:
        """Texts with what stands beside them, and the right stretches."""
        rows = cast("Sequence[SpanExample]", examples)
        queries = [SpanQuery(row.text, row.given, row.known) for row in rows]
        found = passages_of(queries, self.settings, self.base.tokenizer, self.base.limit)
        return SpanFeatures(found, rows, null=bool(self.settings.null_score))

    def backend(self, network: SpanHeadNetwork) -> SpanFinder:
        """The model as `figeval run` has it."""
        device = str(next(network.parameters()).device)
        backend = SpanFinder(ModelSetup(self.settings, self.base.checkpoint, device, "float32"))
        vars(backend)["network"] = SpanNetwork(network.model, self.base.tokenizer, self.base.limit)
        return backend

    def save(self, network: SpanHeadNetwork, weights: Mapping[str, Tensor], folder: Path) -> JSON:
        """A question-answering model of transformers with its tokenizer."""
        self.base.save(network.model, weights, "model.", folder)
        return {"kind": "spans", **self.declared()}

    def declared(self) -> JSON:
        """How it is to be read."""
        settings = self.settings
        read: JSON = {"text": settings.text or SECOND, "question": settings.question or FULL}
        chosen = {"max_span": settings.max_span, "null_score": settings.null_score}
        return read | {name: value for name, value in chosen.items() if value is not None}

    def describe(self) -> JSON:
        """How texts are read, whether the head is fresh, what is frozen."""
        return {
            **self.declared(),
            "windows": "the one that shows most of the span, then most around it",
            "fresh_head": self.fresh,
            "frozen": self.freeze,
            "max_length": self.base.limit,
        }


def span(setup: Setup) -> SpanLearner:
    """Made from a setup. What the model declares of itself counts where no option says otherwise.

    Raises:
        FigevalError: no such model, or an unknown option.
    """
    options = options_of(SpanOptions, setup.options)
    asked = SpanSettings(
        text=options.text, question=options.question, max_span=options.max_span, null_score=options.null_score
    )
    base = base_of(setup)
    return SpanLearner(base, with_declared(asked, base.checkpoint), options.freeze)
