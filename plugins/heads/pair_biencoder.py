"""Pair biencoder: one encoder reads both texts separately, and a linear layer on their vectors labels the pair.

This is the classification objective of Sentence-BERT (Reimers and Gurevych 2019, section 3): the pooled vectors u and v
go as (u, v, |u − v|) through a linear layer, and the loss is the cross-entropy. With `product` the layer sees u ∗ v as
well, from which it can compute the dot product, so that what an encoder knows about closeness is available from the
first step. The checkpoint's layer is kept if its classes mean the same; otherwise a fresh one replaces it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import torch
from torch.nn import Linear, Module, functional

from figeval.errors import TrainError
from figeval.models.capabilities import capabilities
from figeval.task_types.pairs import PairExample
from figeval.types import JSON, Example

from ..encoders.encoder import NO_PROMPTS, POOLINGS, EncoderNetwork, EncoderSettings, pool_states
from ..encoders.pair_encoder import (
    KIND,
    LAYERS,
    PairEncoder,
    PairEncoderSettings,
    load_head,
    pair_head,
    pair_logits,
)
from ..encoders.pair_model import classes_for, classes_of, parse_labels
from ..encoders.prompts import Prompts
from ..torch_models.loading import ModelSetup
from ..torch_models.tokens import Tokens, tokenize
from .base_model import Base, Prompted, base_of, options_of, pooled_encoder, pooling_of
from .biencoder import shared_lookup
from .cross_encoder import outputs_for
from .inputs import IndependentFeatures, class_of, inputs_of

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from figeval.models.learner import Batch, Setup

RIGHT_PREFIX = "right."  # prefix of the right text's inputs
ENCODER, HEAD = "encoder.", "head."  # prefixes of weights


@dataclass(frozen=True, slots=True, kw_only=True)
class PairBiencoderOptions:
    """Options of pair biencoders.

    Attributes:
        pooling: pooling of the encoder; None for the one that the checkpoint declares.
        product: whether the linear layer also sees u ∗ v.
        freeze: names of modules that are not trained, a+b.
        text_prompt: prompt before both texts, by its name in the checkpoint or as a text; empty for none, None for the
            one that the checkpoint declares.
    """

    pooling: str | None = None
    product: bool = False
    freeze: str = ""
    text_prompt: str | None = None

    def __post_init__(self) -> None:
        # rejects unknown values
        PairEncoderSettings(pooling=self.pooling, product=self.product, text_prompt=self.text_prompt)


class SeparateFeatures(IndependentFeatures):
    """Pairs whose texts are tokenized separately, and their classes."""

    def __init__(self, left: Tokens, right: Tokens, classes: Sequence[int]) -> None:
        self.left, self.right, self.classes = left, right, classes
        self.lengths = [sum(lengths) for lengths in zip(left.lengths, right.lengths, strict=True)]
        self.truncated = len(left.truncated | right.truncated)

    def batch(self, rows: Sequence[int], draw: int) -> Batch:  # noqa: ARG002 - nothing is drawn
        """Return the inputs of both texts and the classes.

        input_ids, attention_mask … (rows, length) are those of the left texts; those of the right ones have names with
        the prefix `RIGHT`. Classes are (rows,).
        """
        right = {RIGHT_PREFIX + name: tensor for name, tensor in self.right.tensors(rows, "cpu").items()}
        classes = torch.tensor([self.classes[row] for row in rows])
        return {**self.left.tensors(rows, "cpu"), **right, "classes": classes}


class PairBiencoderNetwork(Module):  # type: ignore[misc]
    """Network that computes the cross-entropies of pairs' classes; linear layer and loss are in float32."""

    def __init__(self, encoder: PreTrainedModel, head: Linear, pooling: str) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.pooling = POOLINGS[pooling]

    def forward(self, batches: Sequence[Batch], beside: Sequence[Batch]) -> Tensor:  # noqa: ARG002 - there is nothing
        """Return losses (rows,) of the rows of all batches."""
        with shared_lookup(self.encoder.get_input_embeddings(), batches):
            return torch.cat([self.losses(batch) for batch in batches])

    def losses(self, batch: Batch) -> Tensor:
        """Return losses (rows,) of one batch."""
        left, right = (self.pooled(inputs_of(batch, prefix)) for prefix in ("", RIGHT_PREFIX))
        with torch.autocast(left.device.type, enabled=False):
            logits = pair_logits(self.head, left.float(), right.float())
            return functional.cross_entropy(logits, batch["classes"], reduction="none")

    def pooled(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the pooled states of the encoder (rows, h)."""
        return pool_states(self.encoder, self.pooling, inputs)


@dataclass(frozen=True)
class PairBiencoder(Prompted):
    """Learner of pair labels. `names` are the classes by number; `fresh` means a linear layer with random weights."""

    base: Base
    names: Mapping[int, str]
    fresh: bool
    labels: tuple[str, ...]
    options: PairBiencoderOptions
    pooling: str
    prompts: Prompts = NO_PROMPTS
    select_by: None = None
    offers: ClassVar[frozenset[str]] = capabilities(PairEncoder)

    def features(self, examples: Sequence[Example]) -> SeparateFeatures:
        """Return both texts, tokenized separately, and the classes of their labels, matched by name."""
        rows, base = cast("Sequence[PairExample]", examples), self.base
        behind = classes_for(parse_labels(None, self.names, base.setup.model), self.labels)
        classes = [class_of(row, behind) for row in rows]
        prompt = self.prompts.text
        left, right = (
            tokenize(base.tokenizer, [prompt + text for text in texts], base.limit)
            for texts in ([row.left for row in rows], [row.right for row in rows])
        )
        for row, *lengths in zip(rows, left.lengths, right.lengths, strict=True):
            if not all(lengths):
                raise TrainError(f"{row.id} has a text without tokens, so no vector; leave it out of the train split")
        return SeparateFeatures(left, right, classes)

    def network(self) -> PairBiencoderNetwork:
        """Return the network of the encoder and the checkpoint's linear layer or a fresh one."""
        checkpoint = self.base.checkpoint
        encoder = pooled_encoder(self.base, self.pooling, self.options.freeze)
        encoder.config.id2label = dict(self.names)
        encoder.config.label2id = {name: number for number, name in self.names.items()}
        shape = (int(encoder.config.hidden_size), len(self.names), self.options.product)
        head = pair_head(*shape) if self.fresh else load_head(checkpoint.folder_here(), checkpoint.model, *shape)
        return PairBiencoderNetwork(encoder, head, self.pooling)

    def backend(self, network: PairBiencoderNetwork) -> PairEncoder:
        """Return the network as a backend of `figeval run`."""
        settings, base = PairEncoderSettings(pooling=self.pooling, product=self.options.product), self.base
        setup: ModelSetup[EncoderSettings] = base.setup_of(settings, network)
        backend = PairEncoder(setup, settings, self.names, self.prompts)
        encoder = EncoderNetwork(network.encoder, base.tokenizer, base.limit, self.pooling, network.pooled)
        vars(backend).update(network=encoder, head=network.head)
        return backend

    def save(self, network: PairBiencoderNetwork, weights: Mapping[str, Tensor], folder: Path) -> JSON:
        """Save the encoder with its tokenizer, and the linear layer beside it."""
        self.base.save(network.encoder, weights, ENCODER, folder)
        head_weights = {name.removeprefix(HEAD): tensor for name, tensor in weights.items() if name.startswith(HEAD)}
        LAYERS.save(head_weights, folder)
        layer = {"pooling": self.pooling, "product": self.options.product}
        return {"kind": KIND, **layer, **self.prompts.options()}

    def describe(self) -> JSON:
        """Return the classes, the state and input of the linear layer, the pooling, frozen modules and prompts."""
        return {
            "classes": list(self.names.values()),
            "fresh_head": self.fresh,
            "pooling": self.pooling,
            "product": self.options.product,
            "frozen": self.options.freeze,
            "max_length": self.base.limit,
            **self.prompts.describe(),
        }


def pairs(setup: Setup) -> PairBiencoder:
    """Make a learner; a pair encoder that was trained before keeps its pooling, its layer and that layer's input.

    Raises:
        FigevalError: no such model, no pooling, an unknown option, or labels that mean the same.
    """
    base = base_of(setup)
    declared = base.declared_options(PairEncoderSettings(), "product")
    options = options_of(PairBiencoderOptions, {**declared, **setup.options})
    is_pair_encoder = base.checkpoint.declared.get("kind") == KIND and declared.get("product", False) == options.product
    names, fresh = outputs_for(setup.labels, classes_of(base.checkpoint.config) if is_pair_encoder else None)
    prompts = base.prompts({"": options.text_prompt})
    return PairBiencoder(base, names, fresh, setup.labels, options, pooling_of(base, options.pooling), prompts)
