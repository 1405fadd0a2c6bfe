"""Head of classification tasks: one text in, a class for each label out.

With one label per text, the loss is the cross-entropy of the softmax over the labels. With several, it is the mean of
their binary cross-entropies, and a label applies if its sigmoid is above one half. The checkpoint's head is kept if it
has the same labels and the same kind of output; otherwise a fresh one replaces it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from torch.nn import functional

from figeval.errors import TrainError
from figeval.models.capabilities import capabilities
from figeval.types import JSON, Example

from ..classification.classification import ClassificationExample
from ..classification.multilabel import MultilabelExample
from ..encoders.classifier import SIGMOIDS, TextClassifier, has_sigmoids
from ..encoders.pair_model import PairSettings, classes_for, parse_labels
from ..torch_models.loading import ModelSetup
from .base_model import base_of, options_of
from .cross_encoder import Cross, CrossOptions, Losses, PairFeatures, checkpoint_classes, outputs_for
from .inputs import class_of

if TYPE_CHECKING:
    from torch import Tensor

    from figeval.models.learner import Setup

    from .cross_encoder import CrossNetwork


@dataclass(frozen=True)
class OneLabel(Cross):
    """Learner of a softmax over the labels."""

    labels: tuple[str, ...] = ()
    offers: ClassVar[frozenset[str]] = capabilities(TextClassifier)

    def features(self, examples: Sequence[Example]) -> PairFeatures:
        """Return the tokenized texts and the classes of their labels, matched by name."""
        rows = cast("Sequence[ClassificationExample]", examples)
        behind = classes_for(self.classes, self.labels)
        return PairFeatures(
            self.pair_tokenizer.texts([row.text for row in rows]), [class_of(row, behind) for row in rows]
        )

    @property
    def classes(self) -> dict[str, tuple[int, ...]]:
        """Class numbers of each label."""
        return parse_labels(None, self.names, self.base.setup.model)

    def losses(self) -> Losses:

        return lambda logits, batch: functional.cross_entropy(logits, batch["classes"], reduction="none")

    def make_backend(self, setup: ModelSetup[PairSettings]) -> TextClassifier:
        return TextClassifier(setup, self.classes, several=False)

    def save(self, network: CrossNetwork, weights: Mapping[str, Tensor], folder: Path) -> JSON:
        """Save the classifier as transformers does, with its tokenizer."""
        return super().save(network, weights, folder) | {"kind": "classifier"}


@dataclass(frozen=True)
class SeveralLabels(OneLabel):
    """Learner of a sigmoid per label."""

    def features(self, examples: Sequence[Example]) -> PairFeatures:
        """Return the tokenized texts, with a 0 or 1 for each output."""
        rows = cast("Sequence[MultilabelExample]", examples)
        behind = classes_for(self.classes, self.labels)
        names = {number: label for label, numbers in behind.items() for number in numbers}
        if hidden := next((row.id for row in rows if row.labels is None), None):
            raise TrainError(f"{hidden} has no labels to learn from; leave it out of the train split")
        targets = [[float(names[number] in (row.labels or ())) for number in sorted(names)] for row in rows]
        return PairFeatures(self.pair_tokenizer.texts([row.text for row in rows]), targets)

    def network(self) -> CrossNetwork:
        """Return the classifier, with the kind of its outputs in its config."""
        network = super().network()
        network.model.config.problem_type = SIGMOIDS
        return network

    def losses(self) -> Losses:

        def mean_loss(logits: Tensor, batch: dict[str, Tensor]) -> Tensor:
            losses = functional.binary_cross_entropy_with_logits(logits, batch["classes"], reduction="none")
            return losses.mean(dim=1)

        return mean_loss

    def make_backend(self, setup: ModelSetup[PairSettings]) -> TextClassifier:
        return TextClassifier(setup, self.classes, several=True)


def single_label(setup: Setup) -> OneLabel:
    """Make a learner for one label per text.

    Raises:
        FigevalError: an unknown model or option, or labels that mean the same.
    """
    base = base_of(setup)
    classes = None if has_sigmoids(base.checkpoint) else checkpoint_classes(base)
    options = options_of(CrossOptions, setup.options)
    return OneLabel(base, *outputs_for(setup.labels, classes), options, None, setup.labels)


def multilabel(setup: Setup) -> SeveralLabels:
    """Make a learner for several labels per text. Raises `FigevalError` as `single_label` does."""
    base = base_of(setup)
    classes = checkpoint_classes(base) if has_sigmoids(base.checkpoint) else None
    options = options_of(CrossOptions, setup.options)
    return SeveralLabels(base, *outputs_for(setup.labels, classes), options, None, setup.labels)
