"""Tagger head: labels words by a class for the first piece of each (Devlin et al. 2019, section 5.3).

The loss is the cross-entropy of each word's label; other pieces have none. A text that is too long is read in the same
windows as by the backend, and each word's loss comes from the window that will give its label. So training matches
evaluation, and nothing is truncated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
import torch
from torch.nn import functional

from figeval.errors import TrainError
from figeval.models.capabilities import capabilities
from figeval.types import JSON, Example

from ..labelling.labelling import LabellingExample
from ..labelling.tagger import RULE, Tagger, WordPieces, word_pieces
from ..torch_models.checkpoint import ends
from ..torch_models.loading import LoadedModel
from ..torch_models.settings import Settings
from .base_model import Base, base_of, freeze_modules, fresh_head, options_of
from .inputs import BatchLosses, inputs_of

if TYPE_CHECKING:
    from torch import Tensor

    from figeval.models.learner import Batch, Setup

UNLABELLED = -100  # ignore_index of torch's cross-entropy


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggerOptions:
    """Options of the tagger head: `freeze` names modules that are not trained, a+b."""

    freeze: str = ""


class TaggerFeatures:
    """Texts in windows, with a target for the first piece of each word. Row i is text i, with all of its windows."""

    truncated = 0

    def __init__(self, pieces: WordPieces, examples: Sequence[LabellingExample], labels: Sequence[str]) -> None:
        self.inputs = pieces.passages.tokens
        self.windows: list[list[int]] = [[] for _ in examples]
        for number, window in enumerate(pieces.passages.windows):
            self.windows[window.owner].append(number)
        self.targets = [[UNLABELLED] * length for length in self.inputs.lengths]
        numbers = [np.full((window.count, 1), float(n)) for n, window in enumerate(pieces.passages.windows)]
        # The window that gives the output of each piece, per text.
        self.window_of_piece = [table[:, 0].astype(int) for table in pieces.passages.join(numbers)]
        self.weights = [
            float(self._set_targets(pieces, owner, example, labels)) for owner, example in enumerate(examples)
        ]
        self.lengths = [sum(self.inputs.lengths[number] for number in windows) for windows in self.windows]

    def _set_targets(self, pieces: WordPieces, owner: int, example: LabellingExample, labels: Sequence[str]) -> int:
        """Set the targets of a text in its windows and return their number.

        Raises:
            TrainError: the labels are hidden, or no word has a token.
        """
        if example.tags is None:
            raise TrainError(f"{example.id} has no labels to learn from; leave it out of the train split")
        count = 0
        for piece, tag in zip(pieces.first[owner], example.tags, strict=True):
            if piece >= 0:
                number = int(self.window_of_piece[owner][piece])
                window = pieces.passages.windows[number]
                self.targets[number][window.at + piece - window.first] = labels.index(tag)
                count += 1
        if not count:
            raise TrainError(
                f"{example.id}: the tokenizer leaves nothing of its words; leave it out of the train split"
            )
        return count

    def batch(self, rows: Sequence[int], draw: int) -> Batch:  # noqa: ARG002 - nothing is drawn
        """Return input_ids, attention_mask … of the texts' windows, targets (windows, length) and owners (windows,)."""
        numbers = [number for row in rows for number in self.windows[row]]
        inputs = self.inputs.tensors(numbers, "cpu")
        targets = torch.full(inputs["input_ids"].shape, UNLABELLED)
        for index, number in enumerate(numbers):
            targets[index, : len(self.targets[number])] = torch.tensor(self.targets[number])
        owners = torch.tensor([index for index, row in enumerate(rows) for _ in self.windows[row]])
        return {**inputs, "targets": targets, "owners": owners}

    def beside(self, rows: Sequence[int]) -> list[Batch]:  # noqa: ARG002
        return []


class TaggerHeadNetwork(BatchLosses):
    """Network that computes the sum of the cross-entropies of a text's words."""

    def losses(self, batch: Batch) -> Tensor:
        """Return losses (texts,) of one batch."""
        logits = self.model(**inputs_of(batch)).logits.float().transpose(1, 2)
        losses = functional.cross_entropy(logits, batch["targets"], ignore_index=UNLABELLED, reduction="none").sum(
            dim=1
        )
        texts = int(batch["owners"].max()) + 1
        return torch.zeros(texts, device=losses.device).index_add(0, batch["owners"], losses)


@dataclass(frozen=True)
class TaggerLearner:
    """Learner of a task's labels."""

    base: Base
    labels: tuple[str, ...]
    freeze: str = ""
    select_by: None = None
    offers: ClassVar[frozenset[str]] = capabilities(Tagger)

    @property
    def fresh(self) -> bool:
        """True if the checkpoint has no head for these labels."""
        names = self.base.config.id2label
        has_labels = [names[number] for number in sorted(names)] == list(self.labels)
        return not (ends("ForTokenClassification")(self.base.checkpoint) and has_labels)

    def network(self) -> TaggerHeadNetwork:
        """Return the model, with the checkpoint's head or a fresh one."""
        from transformers import AutoModelForTokenClassification as Auto

        names = dict(enumerate(self.labels))
        changes = {"id2label": names, "label2id": {label: number for number, label in names.items()}}
        model = fresh_head(self.base, Auto, **changes) if self.fresh else self.base.load(Auto)
        freeze_modules(model, self.freeze)
        return TaggerHeadNetwork(model)

    def features(self, examples: Sequence[Example]) -> TaggerFeatures:
        """Return the texts in windows, and the labels of their words."""
        rows = cast("Sequence[LabellingExample]", examples)
        pieces = word_pieces([row.tokens for row in rows], self.base.tokenizer, self.base.limit)
        return TaggerFeatures(pieces, rows, self.labels)

    def backend(self, network: TaggerHeadNetwork) -> Tagger:
        """Return the model as a backend of `figeval run`."""
        model = LoadedModel(network.model, self.base.tokenizer, self.base.limit)
        return Tagger(self.base.setup_of(Settings(model=self.base.setup.model), network)).with_network(model)

    def save(self, network: TaggerHeadNetwork, weights: Mapping[str, Tensor], folder: Path) -> JSON:
        """Save the token-classification model as transformers does, with its tokenizer."""
        self.base.save(network.model, weights, "model.", folder)
        return {"kind": "tagger"}

    def describe(self) -> JSON:
        """Return the labels, the rule for words, whether the head is fresh, and the frozen modules."""
        about: JSON = {"labels": list(self.labels), "words": RULE, "fresh_head": self.fresh}
        return about | {"frozen": self.freeze, "max_length": self.base.limit}


def tagger(setup: Setup) -> TaggerLearner:
    """Make a learner.

    Raises:
        FigevalError: no such model, or an unknown option.
    """
    return TaggerLearner(base_of(setup), setup.labels, options_of(TaggerOptions, setup.options).freeze)
