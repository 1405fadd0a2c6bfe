"""Heads that read one text: any sequence classifier of transformers. Capability: label_texts.

What a class means is read from the checkpoint's config, as for `pairs`. A checkpoint whose config has `problem_type:
multi_label_classification` has a sigmoid for each class, all others a softmax over them. Neither is used as the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from figeval.errors import CapabilityError, ModelError
from figeval.models.capabilities import Outputs
from figeval.types import JSON

from .checkpoint import Checkpoint, locate, require, with_declared
from .loading import ModelSetup, prepare
from .pairs import PairModel, PairNetwork, PairSettings, classes_of, label_scores, parse_labels, prescribed
from .settings import Configured
from .tokens import Floats, tokenize

if TYPE_CHECKING:
    from ..classification.requests import TextLabels

SIGMOIDS = "multi_label_classification"  # the `problem_type` of a config whose classes exclude none of the others


def has_sigmoids(checkpoint: Checkpoint) -> bool:
    """Whether each class of the checkpoint's head has a probability of its own."""
    return bool(checkpoint.config.get("problem_type") == SIGMOIDS)


class TextClassifier(PairModel):
    """A classifier whose classes have names."""

    capabilities = ("label_texts",)

    def __init__(
        self, setup: ModelSetup[PairSettings], classes: Mapping[str, tuple[int, ...]], *, several: bool
    ) -> None:
        super().__init__(setup)
        self.classes, self.several = classes, several

    def label_texts(self, requests: Sequence[TextLabels]) -> Outputs[dict[str, float]]:
        """Probabilities of the labels: those of the softmax over their classes, or of each label's sigmoid.

        Raises:
            ModelError: the model has no class for a label.
            CapabilityError: it gives a text one label where several may hold, or the other way round.
        """
        if any(request.several != self.several for request in requests):
            own = "a probability of its own to each label" if self.several else "one label to a text"
            raise CapabilityError(
                f"{self.setup.checkpoint.model!r} gives {own}, which such a task does not ask for; train another on it"
            )
        asked = {labels: prescribed(self.classes, labels) for labels in {request.labels for request in requests}}
        network = self.network
        outputs = self.outputs(tokenize(network.tokenizer, [request.text for request in requests], network.limit))
        reading = _sigmoids if self.several else _shares
        rows = zip(outputs.values, requests, strict=True)
        return Outputs([reading(logits, asked[request.labels]) for logits, request in rows], outputs.truncated)

    def details(self, network: PairNetwork) -> JSON:
        """Size, limit, and what the classes were taken for."""
        classes = {name: list(ids) for name, ids in self.classes.items()}
        return super().details(network) | {"classes": classes, "several": self.several}


def _shares(logits: Floats, behind: Mapping[str, tuple[int, ...]]) -> dict[str, float]:
    """Softmax over the classes of the labels; those of one label are added up."""
    return {label: float(share) for label, share in label_scores(logits, behind, sum).items()}  # type: ignore[arg-type]


def _sigmoids(logits: Floats, behind: Mapping[str, tuple[int, ...]]) -> dict[str, float]:
    """The sigmoid of each label's class, of the best one where it has several."""
    import numpy as np

    probabilities = 1 / (1 + np.exp(-logits))
    return {label: float(max(probabilities[number] for number in numbers)) for label, numbers in behind.items()}


def open_classifier(settings: PairSettings) -> TextClassifier:
    """A sequence classifier from a folder or hub id.

    Raises:
        ModelError: no such model, no classifier, one with a single output, classes without meaning, or what `prepare`
            refuses.
    """
    checkpoint = locate(settings.model, settings.revision)
    require(checkpoint, "pairs", "classifier")
    settings = with_declared(settings, checkpoint)
    names = classes_of(checkpoint.config)
    if len(names) == 1 and not has_sigmoids(checkpoint):
        raise ModelError(f"{settings.model!r} has one output, which is a closeness of two texts; use --model pairs:…")
    classes = parse_labels(settings.labels, names, checkpoint.model)
    return TextClassifier(prepare(settings, checkpoint), classes, several=has_sigmoids(checkpoint))


classifier = Configured(PairSettings, open_classifier)
