"""An encoder that labels pairs of texts (Reimers and Gurevych 2019, section 3). Capabilities: embed (dot), label_pairs.

A checkpoint is a folder with

* the encoder and its tokenizer as transformers saves them; `id2label` in its config.json names the labels,
* `pair_encoder.safetensors`, the linear layer on the vectors of both texts, where h is the encoder's width: `weight`
  (labels, 3h), or (labels, 4h) with `product`, and `bias` (labels),
* `figeval.json`: `{"kind": "pair_encoder", "pooling": "mean"}`. Pooling is any that `encoder` has; optional keys are
  `product` (false by default) and `max_length`.

The texts are encoded separately, and one that is too long loses its end. Their pooled vectors u and v, which are not
scaled, are concatenated with |u − v| for the linear layer: (u, v, |u − v|), the best concatenation in the paper. With
`product` it is (u, v, |u − v|, u ∗ v), as in InferSent (Conneau et al. 2017) and as in sentence-transformers with
`concatenation_sent_multiplication`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from figeval.errors import ModelError
from figeval.models.capabilities import Outputs
from figeval.types import JSON, PairLabel

from ..torch_models.loading import ModelSetup
from ..torch_models.settings import Configured, one_of
from .encoder import NO_PROMPTS, Encoder, EncoderSettings, PromptedSettings, raw_network
from .extra_layers import ExtraLayers
from .label_order import label_order_warnings, may_be_mixed_up
from .pair_model import DECISIONS, Probability, classes_for, classes_of, label_scores, parse_labels
from .prompts import Prompts, place_prompts

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Linear

    from .encoder import EncoderNetwork

KIND = "pair_encoder"
FILE = "pair_encoder.safetensors"
LAYERS = ExtraLayers(KIND, "a pair encoder", FILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairEncoderSettings(PromptedSettings):
    """Settings of pair encoders; both texts of a pair get the prompt of texts that are compared with their kind.

    Attributes:
        product: whether the input of the linear layer also has u ∗ v; None leaves it to the checkpoint.
        labels: as for the model `pairs`.
        decision: as for the model `pairs`.
    """

    product: bool | None = None
    labels: str | None = None
    decision: str = "argmax"

    def __post_init__(self) -> None:
        PromptedSettings.__post_init__(self)
        one_of("decision", self.decision, tuple(DECISIONS))
        if self.product not in (None, True, False):
            raise ModelError(f"product={self.product} must be true or false")


# ---- the linear layer ------------------------------------------------------------------------------------------------


def side_by_side(left: Tensor, right: Tensor, product: bool) -> Tensor:
    """Return the input of the linear layer, (rows, 3h) or (rows, 4h), from the vectors of both texts (rows, h)."""
    import torch

    parts = (left, right, (left - right).abs())
    return torch.cat((*parts, left * right) if product else parts, dim=-1)


def pair_head(width: int, labels: int, product: bool) -> Linear:
    """Return a fresh linear layer for vectors of `width` numbers."""
    from torch.nn import Linear

    return Linear((4 if product else 3) * width, labels)


def pair_logits(head: Linear, left: Tensor, right: Tensor) -> Tensor:
    """Return logits (rows, labels) in float32, from the vectors (rows, h) of both texts."""
    product = head.in_features == 4 * left.shape[-1]
    return head(side_by_side(left, right, product).to(head.weight.dtype)).float()


def load_head(folder: Path, model: str, width: int, labels: int, product: bool) -> Linear:
    """Return the linear layer of a checkpoint. Raises `ModelError` if its weights do not fit."""
    head = pair_head(width, labels, product)
    description = f"linear layer for {labels} labels, which sees {head.in_features} numbers"
    return LAYERS.load_into(head, folder, model, description)


# ---- the backend -----------------------------------------------------------------------------------------------------


class PairEncoder(Encoder):
    """A pair encoder: embeds texts, and labels pairs of them."""

    def __init__(
        self,
        setup: ModelSetup[EncoderSettings],
        settings: PairEncoderSettings,
        names: Mapping[int, str],
        prompts: Prompts = NO_PROMPTS,
        *,
        is_doubtful: bool = False,
    ) -> None:
        super().__init__(setup, prompts)
        self.names, self.decision, self.product = names, settings.decision, bool(settings.product)
        self.classes = parse_labels(settings.labels, names, setup.checkpoint.model)
        self.is_doubtful = is_doubtful  # then it is checked what the classes mean

    def label_pairs(self, requests: Sequence[PairLabel]) -> Outputs[dict[str, Probability]]:
        """Return the probabilities of the requested labels' classes, as `PairLabeller` does; each text is encoded once.

        If a text of a pair has no token, it has no vector, and the pair's probabilities are NaN.

        Raises:
            ModelError: the classes do not distinguish the requested labels.
        """
        import torch

        classes_by_labels = {
            labels: classes_for(self.classes, labels) for labels in {request.labels for request in requests}
        }
        index_of: dict[str, int] = {}
        sides = [
            [index_of.setdefault(text, len(index_of)) for text in (request.left, request.right)] for request in requests
        ]
        text_outputs = self.pool_texts([self.prompts.text + text for text in index_of])
        with torch.inference_mode():
            vectors = torch.from_numpy(text_outputs.values).to(self.setup.device)
            left, right = torch.tensor(sides, device=self.setup.device).T
            logits = pair_logits(self.head, vectors[left], vectors[right]).double().cpu().numpy()
        decide = DECISIONS[self.decision]
        values = [
            label_scores(row, classes_by_labels[request.labels], decide)
            for row, request in zip(logits, requests, strict=True)
        ]
        truncated = frozenset(number for number, side in enumerate(sides) if text_outputs.truncated & {*side})
        return Outputs(values, truncated)

    @cached_property
    def head(self) -> Linear:
        """The linear layer, in float32 like the vectors."""
        setup, width = self.setup, int(self.network.model.config.hidden_size)
        folder, model = setup.checkpoint.folder_here(), setup.checkpoint.model
        return load_head(folder, model, width, len(self.names), self.product).to(setup.device)

    def load(self) -> EncoderNetwork:
        """Load the encoder with the declared pooling."""
        return raw_network(self.setup)

    def check(self) -> list[str]:
        """Return a warning if the labels may be in another order."""
        head = self.setup.checkpoint.model, self.classes, self.label_pairs
        warnings = super().check()
        return warnings + (label_order_warnings(*head) if self.is_doubtful else [])

    def details(self, network: EncoderNetwork) -> JSON:
        """Return the details of the encoder, the meanings of the classes, and how they are combined into labels."""
        classes = {name: list(numbers) for name, numbers in self.classes.items()}
        return super().details(network) | {"classes": classes, "decision": self.decision, "product": self.product}

    def close(self) -> None:
        """Release the weights of encoder and linear layer."""
        vars(self).pop("head", None)
        super().close()


def open_pair_encoder(settings: PairEncoderSettings) -> PairEncoder:
    """Open a pair encoder from a folder or hub id.

    Raises:
        ModelError: no such model, one of another kind, no linear layer, no pooling, unnamed classes, or a setting that
            `prepare` rejects.
    """
    settings, setup = LAYERS.prepare(settings)
    names = classes_of(setup.checkpoint.config)
    prompts = place_prompts(setup.checkpoint, settings.prompts, settings.instruction)
    is_doubtful = may_be_mixed_up(setup.checkpoint, names, settings.labels)
    return PairEncoder(setup, settings, names, prompts, is_doubtful=is_doubtful)


pair_encoder = Configured(PairEncoderSettings, open_pair_encoder)
