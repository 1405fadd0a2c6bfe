"""Marker head: one model reads a query together with all of its options, each with a marker (Guan et al. 2022, STORAL).

The module `encoders.markers` describes the inputs and the scores of options; encoders and encoder-decoders are trained,
each in its own form. The loss is the cross-entropy of the right option, with a softmax over the options. Tokens that
the vocabulary lacks ([P]; for encoder-decoders also markers and <mask>) are added to it and saved with the model. The
authors add a language-modelling loss for encoder-decoders, times 1e-20; it is left out here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import torch
from torch.nn import functional

from figeval.errors import TrainError
from figeval.models.capabilities import capabilities
from figeval.task_types.choice import ChoiceExample
from figeval.types import JSON, Example

from ..encoders.markers import (
    MarkedTokens,
    MarkerScorer,
    mark_options,
    marker_scores,
    with_markers,
)
from ..encoders.option_lists import OptionList
from ..torch_models.loading import LoadedModel
from ..torch_models.settings import Settings
from .base_model import POOLER, Base, base_of, freeze_modules, options_of
from .inputs import BatchLosses, IndependentFeatures, gold_of
from .writing import decoder_start

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from figeval.models.learner import Batch, Setup


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerOptions:
    """Options of the marker head: `freeze` names modules that are not trained, a+b."""

    freeze: str = ""


class MarkerFeatures(IndependentFeatures):
    """Queries with their options, and the right ones."""

    def __init__(self, tokens: MarkedTokens, golds: Sequence[int]) -> None:
        self.tokens, self.golds = tokens, golds
        self.lengths = tokens.lengths
        self.truncated = len(tokens.read.truncated)

    def batch(self, rows: Sequence[int], draw: int) -> Batch:  # noqa: ARG002 - nothing is drawn
        """Return the tensors of `MarkedTokens.tensors`, and golds (rows,)."""
        return {**self.tokens.tensors(rows, "cpu"), "golds": torch.tensor([self.golds[row] for row in rows])}


class MarkerHeadNetwork(BatchLosses):
    """Network that computes the loss of the right option among those of its example."""

    def losses(self, batch: Batch) -> Tensor:
        """Return losses (rows,) of one batch."""
        return functional.cross_entropy(marker_scores(self.model, batch), batch["golds"], reduction="none")


@dataclass(frozen=True)
class MarkerLearner:
    """Learner of the marker head."""

    base: Base
    options: MarkerOptions
    select_by: None = None
    offers: ClassVar[frozenset[str]] = capabilities(MarkerScorer)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Tokenizer of the model. Missing tokens are added in place, so that they are saved with the model."""
        return with_markers(self.base.tokenizer, self.base.config)

    def network(self) -> MarkerHeadNetwork:
        """Return the model without a head, with an embedding for every added token."""
        from transformers import AutoModel

        model = self.base.load(AutoModel, spare=POOLER)
        if len(self.tokenizer) > model.get_input_embeddings().num_embeddings:
            model.resize_token_embeddings(len(self.tokenizer), mean_resizing=False)  # random, not the mean embedding
        if getattr(model, POOLER, None) is not None:
            model.pooler.requires_grad_(False)  # without a gradient, weight decay would still change it
        freeze_modules(model, self.options.freeze)
        return MarkerHeadNetwork(model)

    def features(self, examples: Sequence[Example]) -> MarkerFeatures:
        """Return the queries and options, as the route `by_markers` sends them.

        Raises:
            TrainError: an example has no right option, or its options leave no room for the query.
        """
        rows = cast("Sequence[ChoiceExample]", examples)
        tokens = self._tokens(rows)
        for reason in self._reasons(tokens, rows).values():
            raise TrainError(f"{reason}; raise --max_length")
        return MarkerFeatures(tokens, list(map(gold_of, rows)))

    def overlong(self, examples: Sequence[Example]) -> dict[int, str]:
        """Return why the model cannot read an example, by the index of each whose options fill the input."""
        rows = cast("Sequence[ChoiceExample]", examples)
        return self._reasons(self._tokens(rows), rows)

    def _tokens(self, rows: Sequence[ChoiceExample]) -> MarkedTokens:
        questions = [OptionList(row.query, row.options) for row in rows]
        return mark_options(self.tokenizer, self.base.config, questions, self.base.limit)

    def _reasons(self, tokens: MarkedTokens, rows: Sequence[ChoiceExample]) -> dict[int, str]:
        room = f"fill the {self.base.limit} tokens of the input and leave no room for the query"
        return {row: f"the {len(rows[row].options)} options of {rows[row].id!r} {room}" for row in sorted(tokens.full)}

    def backend(self, network: MarkerHeadNetwork) -> MarkerScorer:
        """Return the model as a backend of `figeval run`."""
        model = LoadedModel(network.model, self.tokenizer, self.base.limit)
        return MarkerScorer(self.base.setup_of(Settings(), network)).with_network(model)

    def save(self, network: MarkerHeadNetwork, weights: Mapping[str, Tensor], folder: Path) -> JSON:
        """Save the model as transformers does, with its tokenizer, which includes the markers."""
        self.base.save(network.model, weights, "model.", folder)
        return {"kind": "marker"}

    def describe(self) -> JSON:
        """Return the side that reads the options, and the frozen modules."""
        both = self.base.config.is_encoder_decoder
        return {
            "options_read_by": "decoder" if both else "encoder",
            "frozen": self.options.freeze,
            "max_length": self.base.limit,
        }


def marker(setup: Setup) -> MarkerLearner:
    """Make a learner.

    Raises:
        ModelError: no such model.
        TrainError: an unknown option, an encoder without a mask token, or an encoder-decoder whose configuration has no
            first token of the decoder.
    """
    options, base = options_of(MarkerOptions, setup.options), base_of(setup)
    if base.config.is_encoder_decoder:
        decoder_start(base)
    elif base.tokenizer.mask_token_id is None:
        raise TrainError(
            f"the tokenizer of {setup.model!r} has no mask token to mark options with; begin with a masked model "
            "(BERT, RoBERTa) or an encoder-decoder (T5)"
        )
    return MarkerLearner(base, options)
