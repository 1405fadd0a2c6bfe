"""Backend for sequence classifiers that read a single text. Capability: label_texts.

The meaning of a class is read from the checkpoint's config, as for `pairs`. A checkpoint whose config has
`problem_type: multi_label_classification` has a sigmoid per class, any other a softmax over all classes. Neither is
used as the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from figeval.errors import CapabilityError, ModelError
from figeval.models.capabilities import Outputs
from figeval.types import JSON

from ..torch_models.checkpoint import Checkpoint, locate, require, with_declared
from ..torch_models.loading import LoadedModel, ModelSetup, prepare
from ..torch_models.reading import ModelTexts
from ..torch_models.settings import Configured
from ..torch_models.tokens import Floats
from .pair_model import PairModel, PairSettings, classes_for, classes_of, label_scores, parse_labels

if TYPE_CHECKING:
    from ..classification.requests import TextLabels

SIGMOIDS = "multi_label_classification"  # the `problem_type` of a config whose classes are not exclusive


def has_sigmoids(checkpoint: Checkpoint) -> bool:
    """Return whether each class of the checkpoint's head has an independent probability."""
    return bool(checkpoint.config.get("problem_type") == SIGMOIDS)


class TextClassifier(PairModel):
    """A classifier with named classes."""

    capabilities = ("label_texts",)

    def __init__(
        self, setup: ModelSetup[PairSettings], classes: Mapping[str, tuple[int, ...]], *, several: bool
    ) -> None:
        super().__init__(setup)
        self.classes, self.several = classes, several

    def label_texts(self, requests: Sequence[TextLabels]) -> Outputs[dict[str, float]]:
        """Return the probabilities of the labels: by the softmax over their classes, or by each label's sigmoid.

        Raises:
            ModelError: the model has no class for a label.
            CapabilityError: the model assigns one label per text where several may hold, or the reverse.
        """
        if any(request.several != self.several for request in requests):
            output = "a probability of its own to each label" if self.several else "one label to a text"
            raise CapabilityError(
                f"{self.setup.checkpoint.model!r} gives {output}, which does not fit this task; train a model on it"
            )
        classes_by_labels = {
            labels: classes_for(self.classes, labels) for labels in {request.labels for request in requests}
        }
        network = self.network
        outputs = self.outputs(ModelTexts(network.tokenizer, [request.text for request in requests], network.limit))
        read_scores = _label_sigmoids if self.several else _label_shares
        rows = zip(outputs.values, requests, strict=True)
        return Outputs(
            [read_scores(logits, classes_by_labels[request.labels]) for logits, request in rows], outputs.truncated
        )

    def details(self, network: LoadedModel) -> JSON:
        """Return the model's size and limit, and the meanings of its classes."""
        classes = {name: list(ids) for name, ids in self.classes.items()}
        return super().details(network) | {"classes": classes, "several": self.several}


def _label_shares(logits: Floats, behind: Mapping[str, tuple[int, ...]]) -> dict[str, float]:
    """Return the softmax over the labels' classes, summed per label."""
    return {label: float(share) for label, share in label_scores(logits, behind, sum).items()}  # type: ignore[arg-type]


def _label_sigmoids(logits: Floats, behind: Mapping[str, tuple[int, ...]]) -> dict[str, float]:
    """Return the sigmoid of each label's class, or of its best class if it has several."""
    import numpy as np

    probabilities = 1 / (1 + np.exp(-logits))
    return {label: float(max(probabilities[number] for number in numbers)) for label, numbers in behind.items()}


def open_classifier(settings: PairSettings) -> TextClassifier:
    """Open a sequence classifier from a folder or hub id.

    Raises:
        ModelError: no such model, not a classifier, a classifier with a single output, unnamed classes, or a setting
            that `prepare` rejects.
    """
    checkpoint = locate(settings.model, settings.revision, settings.base)
    require(checkpoint, "pairs", "classifier")
    settings = with_declared(settings, checkpoint)
    names = classes_of(checkpoint.config)
    if len(names) == 1 and not has_sigmoids(checkpoint):
        raise ModelError(f"{settings.model!r} has a single output, the similarity of two texts; use --model pairs:…")
    classes = parse_labels(settings.labels, names, checkpoint.model)
    return TextClassifier(prepare(settings, checkpoint), classes, several=has_sigmoids(checkpoint))


classifier = Configured(PairSettings, open_classifier)
