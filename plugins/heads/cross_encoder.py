"""Cross-encoder: one model reads two texts together and labels the pair or scores its closeness.

The labels of a pairs task are the classes of the head, and the loss is the cross-entropy. Options and candidates are
scored with one output per pair (query, option); the loss is the cross-entropy of the right one, with a softmax over
those of an example. If there are many candidates, a step reads only the right ones and a sample of others. The
checkpoint's head is kept if it means the same; otherwise a fresh one replaces it.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeAlias, cast

import torch
from torch.nn import Module, functional

from figeval.errors import TrainError
from figeval.models.capabilities import capabilities
from figeval.task_types.choice import ChoiceExample
from figeval.task_types.pairs import PairExample
from figeval.task_types.ranking import RankingExample
from figeval.types import JSON, Example

from ..encoders.pair_model import (
    NAMELESS,
    PairLabeller,
    PairModel,
    PairScorer,
    PairSettings,
    classes_for,
    classes_of,
    meaning,
    parse_labels,
    with_padding,
)
from ..torch_models.checkpoint import ends
from ..torch_models.loading import LoadedModel, ModelSetup
from ..torch_models.settings import positive
from ..torch_models.tokens import Tokens, tokenize
from .base_model import Base, base_of, freeze_modules, fresh_head, options_of
from .inputs import IndependentFeatures, class_of, gold_of, inputs_of, ranking_losses, rectangle

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from figeval.models.learner import Batch, Setup

CLOSENESS = {0: "closeness"}  # the single output of a cross-encoder
LOSS = "loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossOptions:
    """Options of cross-encoders: `freeze` names modules that are not trained, a+b."""

    freeze: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingOptions(CrossOptions):
    """Options for ranking: `negatives` is the number of wrong candidates per query and step."""

    negatives: int = 7

    def __post_init__(self) -> None:
        positive("negatives", self.negatives)


Losses: TypeAlias = "Callable[[Tensor, Batch], Tensor]"  # logits (pairs, outputs) and a batch → losses (rows,)


# ---- features: a pair for every example, or one for each of its options ----------------------------------------------


@dataclass(frozen=True)
class PairTokenizer:
    """A tokenizer with a limit on the length of its inputs."""

    tokenizer: PreTrainedTokenizerBase
    limit: int | None

    def pairs(self, lefts: Sequence[str], rights: Sequence[str]) -> Tokens:
        """Tokenize pairs; one that is too long loses tokens of its longer text."""
        return tokenize(self.tokenizer, lefts, self.limit, rights)

    def texts(self, texts: Sequence[str]) -> Tokens:
        """Tokenize single texts; one that is too long loses its end."""
        return tokenize(self.tokenizer, texts, self.limit)

    def bare_lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, without special ones."""
        special = self.tokenizer.num_special_tokens_to_add(pair=False)
        return [length - special for length in tokenize(self.tokenizer, texts, None).lengths]


class PairFeatures(IndependentFeatures):
    """Tokenized pairs or texts with their targets: one class each, or one value per output (outputs,)."""

    def __init__(self, tokens: Tokens, classes: Sequence[int] | Sequence[Sequence[float]]) -> None:
        self.tokens, self.classes = tokens, classes
        self.lengths = tokens.lengths
        self.truncated = len(tokens.truncated)

    def batch(self, rows: Sequence[int], draw: int) -> Batch:  # noqa: ARG002 - nothing is drawn
        """Return input_ids, attention_mask … (rows, length) and classes (rows,) or (rows, outputs)."""
        return {**self.tokens.tensors(rows, "cpu"), "classes": torch.tensor([self.classes[row] for row in rows])}


class ChoiceFeatures(IndependentFeatures):
    """Each query paired with each of its options. An example's length is that of its pairs, padded to the longest."""

    def __init__(self, pair_tokenizer: PairTokenizer, examples: Sequence[ChoiceExample]) -> None:
        lefts = [example.query for example in examples for _ in example.options]
        self.tokens = pair_tokenizer.pairs(lefts, [option for example in examples for option in example.options])
        ends = list(accumulate(len(example.options) for example in examples))
        self.groups = [range(end - len(example.options), end) for end, example in zip(ends, examples, strict=True)]
        self.golds = [gold_of(example) for example in examples]
        lengths = self.tokens.lengths
        self.lengths = [len(group) * max(lengths[pair] for pair in group) for group in self.groups]
        self.truncated = len(self.tokens.truncated)

    def batch(self, rows: Sequence[int], draw: int) -> Batch:  # noqa: ARG002 - nothing is drawn
        """Return the pairs of the rows, in the form of `group_pairs`."""
        pairs = [pair for row in rows for pair in self.groups[row]]
        counts, golds = [len(self.groups[row]) for row in rows], [[self.golds[row]] for row in rows]
        return group_pairs(self.tokens.tensors(pairs, "cpu"), counts, golds)


class CandidateFeatures(IndependentFeatures):
    """Each query paired with its right candidates and some wrong ones, drawn anew in every epoch.

    There are too many pairs to keep them all, so those of a batch are tokenized on demand. Candidates that are
    equivalent to a right one (`near`) are never drawn.
    """

    def __init__(self, pair_tokenizer: PairTokenizer, examples: Sequence[RankingExample], negatives: int) -> None:
        self.pair_tokenizer, self.examples, self.negatives = pair_tokenizer, examples, negatives
        candidates = {example.candidates: 0 for example in examples}
        for texts in candidates:
            candidates[texts] = max(pair_tokenizer.bare_lengths(texts))
        queries = pair_tokenizer.bare_lengths([example.query for example in examples])
        special = pair_tokenizer.tokenizer.num_special_tokens_to_add(pair=True)
        pairs = [
            length + candidates[example.candidates] + special for length, example in zip(queries, examples, strict=True)
        ]
        limit = pair_tokenizer.limit or max(pairs)
        self.lengths = [
            min(pair, limit) * (len(example.relevant) + negatives)
            for pair, example in zip(pairs, examples, strict=True)
        ]
        self.truncated = sum(pair > limit for pair in pairs)

    def batch(self, rows: Sequence[int], draw: int) -> Batch:
        """Return the pairs of the rows, in the form of `group_pairs`, with the right candidates of every row first."""
        candidates = [self.draw_candidates(row, draw) for row in rows]
        lefts = [self.examples[row].query for row, numbers in zip(rows, candidates, strict=True) for _ in numbers]
        rights = [
            self.examples[row].candidates[n] for row, numbers in zip(rows, candidates, strict=True) for n in numbers
        ]
        tokens = self.pair_tokenizer.pairs(lefts, rights)
        golds = [range(len(self.examples[row].relevant)) for row in rows]
        return group_pairs(tokens.tensors(range(len(lefts)), "cpu"), list(map(len, candidates)), golds)

    def draw_candidates(self, row: int, draw: int) -> list[int]:
        """Return the numbers of the right candidates, then those of the drawn wrong ones."""
        example = self.examples[row]
        wrong = [n for n in range(len(example.candidates)) if n not in example.relevant and n not in example.near]
        negatives = random.Random(f"{draw} {row}").sample(wrong, min(self.negatives, len(wrong)))
        return [*sorted(example.relevant), *negatives]


def group_pairs(inputs: Batch, counts: Sequence[int], golds: Sequence[Sequence[int]]) -> Batch:
    """Return inputs (pairs, length) with their grouping into rows; `counts` are the numbers of pairs per row.

    `pairs` (rows, k) are the indexes of each row's pairs, `golds` (rows, k) the positions of the right ones; both are
    padded with -1.
    """
    ends = list(accumulate(counts))
    pairs = [range(end - count, end) for end, count in zip(ends, counts, strict=True)]
    return {**inputs, "pairs": rectangle(pairs), "golds": rectangle(golds)}


# ---- network ---------------------------------------------------------------------------------------------------------


class CrossNetwork(Module):  # type: ignore[misc]
    """Network that computes losses from the logits of a classifier of pairs; logits and losses are in float32."""

    def __init__(self, model: PreTrainedModel, losses: Losses) -> None:
        super().__init__()
        self.model = model
        self.losses = losses

    def forward(self, batches: Sequence[Batch], beside: Sequence[Batch]) -> Tensor:  # noqa: ARG002 - there is nothing
        """Return losses (rows,) of the rows of all batches."""
        return torch.cat([self.losses(self.model(**inputs_of(batch)).logits.float(), batch) for batch in batches])


def option_losses(logits: Tensor, batch: Batch) -> Tensor:
    """Return -log P(right option) among the options of each example (rows,), from logits (pairs, 1).

    `pairs` (rows, k) are the pairs of every example, `golds` the positions of the right ones, both padded with -1.
    """
    missing = logits.new_full((1,), float("-inf"))  # the last element, to which -1 points
    scores = torch.cat((logits[:, 0], missing))[batch["pairs"]]
    return ranking_losses(scores, torch.arange(scores.shape[1], device=scores.device), batch["golds"])


# ---- learners --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cross(ABC):
    """Base class of the learners. `names` are the head's outputs by number; `fresh` means a new, random head."""

    base: Base
    names: Mapping[int, str]
    fresh: bool
    options: CrossOptions = field(default_factory=CrossOptions)
    select_by: str | None = None

    @abstractmethod
    def losses(self) -> Losses:
        """Return the function from logits (pairs, outputs) and a batch to losses (rows,)."""

    @abstractmethod
    def make_backend(self, setup: ModelSetup[PairSettings]) -> PairModel:
        """Return the backend that reads the saved model."""

    @property
    def pair_tokenizer(self) -> PairTokenizer:
        return PairTokenizer(with_padding(self.base.tokenizer), self.base.limit)

    def network(self) -> CrossNetwork:
        """Return the classifier, with the checkpoint's head or a fresh one."""
        from transformers import AutoModelForSequenceClassification as Auto

        outputs = {"num_labels": len(self.names), "id2label": dict(self.names)}
        model = fresh_head(self.base, Auto, **outputs) if self.fresh else self.base.load(Auto)
        model.config.pad_token_id = self.pair_tokenizer.tokenizer.pad_token_id
        freeze_modules(model, self.options.freeze)
        return CrossNetwork(model, self.losses())

    def backend(self, network: CrossNetwork) -> PairModel:
        """Return the classifier as a backend of `figeval run`."""
        model = LoadedModel(network.model, self.pair_tokenizer.tokenizer, self.pair_tokenizer.limit)
        return self.make_backend(self.base.setup_of(PairSettings(), network)).with_network(model)

    def save(self, network: CrossNetwork, weights: Mapping[str, Tensor], folder: Path) -> JSON:
        """Save the classifier as transformers does, with its tokenizer."""
        self.base.save(network.model, weights, "model.", folder)
        return {"kind": "pairs"}

    def describe(self) -> JSON:
        """Return the head's outputs, whether it is fresh, and the frozen modules."""
        return {
            "classes": list(self.names.values()),
            "fresh_head": self.fresh,
            "frozen": self.options.freeze,
            "max_length": self.base.limit,
        }


@dataclass(frozen=True)
class LabelCross(Cross):
    """Learner of labels of pairs."""

    labels: tuple[str, ...] = ()
    offers: ClassVar[frozenset[str]] = capabilities(PairLabeller)

    def features(self, examples: Sequence[Example]) -> PairFeatures:
        """Return the tokenized pairs and the classes of their labels, matched by name."""
        rows = cast("Sequence[PairExample]", examples)
        behind = classes_for(self.classes, self.labels)
        classes = [class_of(row, behind) for row in rows]
        tokens = self.pair_tokenizer.pairs([row.left for row in rows], [row.right for row in rows])
        return PairFeatures(tokens, classes)

    @property
    def classes(self) -> dict[str, tuple[int, ...]]:
        """Class numbers of each label."""
        return parse_labels(None, self.names, self.base.setup.model)

    def losses(self) -> Losses:

        return lambda logits, batch: functional.cross_entropy(logits, batch["classes"], reduction="none")

    def make_backend(self, setup: ModelSetup[PairSettings]) -> PairLabeller:
        return PairLabeller(setup, self.classes)


@dataclass(frozen=True)
class OptionCross(Cross):
    """Learner of one score per pair, compared among the options of an example."""

    offers: ClassVar[frozenset[str]] = capabilities(PairScorer)

    def features(self, examples: Sequence[Example]) -> ChoiceFeatures | CandidateFeatures:
        """Return the pairs of query and option, as the route `by_pair_score` sends them."""
        return ChoiceFeatures(self.pair_tokenizer, cast("Sequence[ChoiceExample]", examples))

    def losses(self) -> Losses:

        return option_losses

    def make_backend(self, setup: ModelSetup[PairSettings]) -> PairScorer:
        return PairScorer(setup)


@dataclass(frozen=True)
class CandidateCross(OptionCross):
    """Learner of one score per pair, with candidates sampled for every step."""

    options: RankingOptions = field(default_factory=RankingOptions)
    select_by: str | None = LOSS  # scoring dev would take all of its pairs, which are many

    def features(self, examples: Sequence[Example]) -> CandidateFeatures:
        rows = cast("Sequence[RankingExample]", examples)
        unanswerable = next((row.id for row in rows if not row.relevant), None)
        if unanswerable is not None:
            raise TrainError(f"{unanswerable} has no right candidate to learn from; leave it out of the train split")
        return CandidateFeatures(self.pair_tokenizer, rows, int(self.options.negatives))

    def describe(self) -> JSON:
        return super().describe() | {"negatives": self.options.negatives}


def checkpoint_classes(base: Base) -> dict[int, str] | None:
    """Return the classes of the checkpoint's head, or None if it has no such head."""
    is_classifier = ends("ForSequenceClassification")(base.checkpoint)
    return classes_of(base.checkpoint.config) if is_classifier else None


def pairs(setup: Setup) -> LabelCross:
    """Make a learner of labels.

    Raises:
        FigevalError: an unknown model or option, or labels that mean the same.
    """
    options, base, labels = options_of(CrossOptions, setup.options), base_of(setup), setup.labels
    return LabelCross(base, *outputs_for(labels, checkpoint_classes(base)), options, None, labels)


def outputs_for(labels: Sequence[str], classes: Mapping[int, str] | None) -> tuple[Mapping[int, str], bool]:
    """Return the outputs of a head for these labels, and whether the head is fresh.

    A checkpoint's head with `classes` is kept if it has the same labels.

    Raises:
        TrainError: labels that mean the same, or nothing.
    """
    meanings = sorted({meaning(label) for label in labels})
    if len(meanings) < len(labels) or any(map(NAMELESS.fullmatch, labels)):
        raise TrainError(f"the labels {', '.join(labels)} are not distinct, meaningful names; rename them in the task")
    if classes is None or sorted(map(meaning, classes.values())) != meanings:
        return dict(enumerate(labels)), True
    return classes, False


def choice(setup: Setup) -> OptionCross:
    """Make a learner for a few options. Raises `FigevalError` for an unknown model or option."""
    base = base_of(setup)
    return OptionCross(base, *closeness(base), options_of(CrossOptions, setup.options))


def ranking(setup: Setup) -> CandidateCross:
    """Make a learner for many candidates. Raises `FigevalError` for an unknown model or option."""
    base = base_of(setup)
    return CandidateCross(base, *closeness(base), options_of(RankingOptions, setup.options))


def closeness(base: Base) -> tuple[dict[int, str], bool]:
    """Return the single output of a cross-encoder, and whether its head is fresh."""
    classes = checkpoint_classes(base)
    return (CLOSENESS, True) if classes is None or len(classes) > 1 else (classes, False)
