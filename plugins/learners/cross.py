"""One model reads two texts at once: which label holds between them, or how close they are.

The labels of a pairs task are the classes of the head; loss is the cross-entropy. Options and candidates are scored
with one output per pair (query, option), softmax over those of an example, loss the cross-entropy of the right one. Of
many candidates only the right ones and some others are read in a step. A head that the model has already is kept if it
means the same, else a fresh one takes its place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from figeval.errors import TrainError
from figeval.task_types.choice import ChoiceExample
from figeval.task_types.pairs import PairExample
from figeval.task_types.ranking import RankingExample
from figeval.types import JSON, Example

from .._checkpoint import ends
from .._labels import NAMELESS, classes_of, meaning, parse_labels, prescribed
from .._neural import Setup as Loading
from .._settings import positive
from ..pairs import PairLabeller, PairModel, PairNetwork, PairScorer, PairSettings, with_padding
from ._base import Base, base_of
from ._cross_features import ChoiceFeatures, DrawnFeatures, PairFeatures, Reader
from ._heads import fresh_head
from ._options import frozen_modules, options_of

if TYPE_CHECKING:
    from figeval.training.contract import Setup

CLOSENESS = {0: "closeness"}  # the one output of a cross-encoder
LOSS = "loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossOptions:
    """`freeze` names modules that are not trained, a+b."""

    freeze: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingOptions(CrossOptions):
    """`negatives` are the wrong candidates that a query is read with in a step."""

    negatives: int = 7

    def __post_init__(self) -> None:
        positive("negatives", self.negatives)


@dataclass(frozen=True)
class Cross(ABC):
    """What all of them share. `names` are the head's outputs by number; `fresh` if it is none of the checkpoint's."""

    base: Base
    names: Mapping[int, str]
    fresh: bool
    options: CrossOptions = field(default_factory=CrossOptions)
    select_by: str | None = None

    @abstractmethod
    def losses(self) -> Callable[[Any, Any], Any]:
        """Losses (rows,) from logits (pairs, outputs) and a batch."""

    @abstractmethod
    def reading(self, setup: Loading[PairSettings]) -> PairModel:
        """The backend that reads the saved model."""

    @property
    def reader(self) -> Reader:
        """Tokenizer and limit."""
        return Reader(with_padding(self.base.tokenizer), self.base.limit)

    def network(self) -> Any:
        """The classifier, with its own head or a fresh one."""
        from transformers import AutoModelForSequenceClassification as Auto

        from ._cross_network import CrossNetwork

        outputs = {"num_labels": len(self.names), "id2label": dict(self.names)}
        model = fresh_head(self.base, Auto, **outputs) if self.fresh else self.base.load(Auto)
        model.config.pad_token_id = self.reader.tokenizer.pad_token_id
        frozen_modules(model, self.options.freeze)
        return CrossNetwork(model, self.losses())

    def backend(self, network: Any) -> PairModel:
        """The classifier as `figeval run` has it."""
        device = str(next(network.parameters()).device)
        backend = self.reading(Loading(PairSettings(), self.base.checkpoint, device, "float32"))
        vars(backend)["network"] = PairNetwork(network.model, self.reader.tokenizer, self.reader.limit)
        return backend

    def save(self, network: Any, weights: Mapping[str, Any], folder: Path) -> JSON:
        """A classifier of transformers with its tokenizer."""
        self.base.save(network.model, weights, "model.", folder)
        return {"kind": "pairs"}

    def describe(self) -> JSON:
        """The head's outputs, whether it is fresh, what is frozen."""
        return {
            "classes": list(self.names.values()),
            "fresh_head": self.fresh,
            "frozen": self.options.freeze,
            "max_length": self.base.limit,
        }


@dataclass(frozen=True)
class LabelCross(Cross):
    """Labels of pairs."""

    labels: tuple[str, ...] = ()

    def features(self, examples: Sequence[Example]) -> PairFeatures:
        """Pairs and the classes of their labels, found by name."""
        rows = cast("Sequence[PairExample]", examples)
        behind = prescribed(self.classes, self.labels)
        hidden = next((row.id for row in rows if row.label is None), None)
        if hidden is not None:
            raise TrainError(f"{hidden} has no label to learn from; leave it out of the train split")
        tokens = self.reader.pairs([row.left for row in rows], [row.right for row in rows])
        return PairFeatures(tokens, [behind[str(row.label)][0] for row in rows])

    @property
    def classes(self) -> dict[str, tuple[int, ...]]:
        """What each class means."""
        return parse_labels(None, self.names, self.base.setup.model)

    def losses(self) -> Callable[[Any, Any], Any]:
        from ._cross_network import class_losses

        return class_losses

    def reading(self, setup: Loading[PairSettings]) -> PairLabeller:
        return PairLabeller(setup, self.classes)


@dataclass(frozen=True)
class OptionCross(Cross):
    """One score per pair, compared among the options of an example."""

    def features(self, examples: Sequence[Example]) -> Any:
        """Query and option, as the route `by_pair_score` sends them."""
        return ChoiceFeatures(self.reader, cast("Sequence[ChoiceExample]", examples))

    def losses(self) -> Callable[[Any, Any], Any]:
        from ._cross_network import option_losses

        return option_losses

    def reading(self, setup: Loading[PairSettings]) -> PairScorer:
        return PairScorer(setup)


@dataclass(frozen=True)
class CandidateCross(OptionCross):
    """The same among many candidates, of which some are drawn for every step."""

    options: RankingOptions = field(default_factory=RankingOptions)
    select_by: str | None = LOSS  # all pairs of dev, as a score needs them, are many

    def features(self, examples: Sequence[Example]) -> DrawnFeatures:
        rows = cast("Sequence[RankingExample]", examples)
        lost = next((row.id for row in rows if not row.relevant), None)
        if lost is not None:
            raise TrainError(f"{lost} has no right candidate to learn from; leave it out of the train split")
        return DrawnFeatures(self.reader, rows, int(self.options.negatives))

    def describe(self) -> JSON:
        return super().describe() | {"negatives": self.options.negatives}


def own_classes(base: Base) -> dict[int, str] | None:
    """The classes of the checkpoint's head, None where it has none."""
    is_classifier = ends("ForSequenceClassification")(base.checkpoint)
    return classes_of(base.checkpoint.config) if is_classifier else None


def pairs(setup: Setup) -> LabelCross:
    """For labels. Raises `FigevalError` for an unknown model or option, or labels that mean the same."""
    options, base, labels = options_of(CrossOptions, setup.options), base_of(setup), setup.labels
    wanted = sorted({meaning(label) for label in labels})
    if len(wanted) < len(labels) or any(map(NAMELESS.fullmatch, labels)):
        raise TrainError(f"the labels {', '.join(labels)} do not tell by name what they mean; rename them in the task")
    own = own_classes(base)
    if own is None or sorted(map(meaning, own.values())) != wanted:
        return LabelCross(base, dict(enumerate(labels)), True, options, None, labels)
    return LabelCross(base, own, False, options, None, labels)


def choice(setup: Setup) -> OptionCross:
    """For a few options. Raises `FigevalError` for an unknown model or option."""
    base = base_of(setup)
    return OptionCross(base, *closeness(base), options_of(CrossOptions, setup.options))


def ranking(setup: Setup) -> CandidateCross:
    """For many candidates. Raises `FigevalError` for an unknown model or option."""
    base = base_of(setup)
    return CandidateCross(base, *closeness(base), options_of(RankingOptions, setup.options))


def closeness(base: Base) -> tuple[dict[int, str], bool]:
    """The one output of a cross-encoder, and whether it is a fresh one."""
    own = own_classes(base)
    return (CLOSENESS, True) if own is None or len(own) > 1 else (own, False)
