"""Further training on unlabelled text: `mlm` for masked models, `infill` for encoder-decoders.

The texts are those of the task's train split, without duplicates (narratives, proverbs, premises, references …), or
those of files. Labels are not read, so this is not training on the task; the result is a base for other heads. The dev
loss is that of held-out examples with fixed noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, ClassVar, NoReturn

from figeval.errors import TrainError
from figeval.io.frontend import notice
from figeval.models.capabilities import capabilities
from figeval.types import JSON, Example

from ..encoders.masked import MaskedModel, MaskedNetwork, MaskedSettings, has_separable_head
from ..torch_models.tokens import IDS, padding_of
from .base_model import Base, base_of, fresh_head, options_of
from .language import Row, batch_of, length, weight
from .noise import Holes, Masks, Noise, Sentinels, SpanSampler, TextPiece
from .text_files import TextFiles
from .writing import decoder_start, writing_head

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from figeval.models.learner import Batch, Setup

    from .language import LanguageNetwork

SHARE = 0.15  # share of the tokens to hide
MEAN_SPAN = 3.0
SPECIAL = "special_tokens_mask"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskOptions:
    """Options of `mlm`.

    Attributes:
        texts: a file or a folder of files with a text per line, or a row with a text in JSON or a table (`text_files`);
            None for the task's own texts.
        field: field of the rows that has the text; None for `text` or `story`.
        share: share of the tokens to hide.
    """

    texts: str | None = None
    field: str | None = None
    share: float = SHARE

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise TrainError(f"share={self.share} is not between 0 and 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class InfillOptions(MaskOptions):
    """Options of `infill`: those of `mlm`, and the mean length of a span in tokens."""

    mean_span: float = MEAN_SPAN

    def __post_init__(self) -> None:
        MaskOptions.__post_init__(self)
        if not self.mean_span >= 1:
            raise TrainError(f"mean_span={self.mean_span} is less than one token")


# ---- features: texts in pieces that the model can read, so that nothing is cut off -----------------------------------


def texts_of(examples: Iterable[Example]) -> dict[str, str]:
    """Return the distinct texts of the examples in order, each with the id of its first example."""
    texts: dict[str, str] = {}
    for example in examples:
        for text in filter(str.strip, example.texts):
            texts.setdefault(text, example.id)
    return texts


def pieces_of(tokenizer: PreTrainedTokenizerBase, texts: dict[str, str], limit: int | None) -> list[TextPiece]:
    """Split texts into pieces of at most `limit` tokens, special ones included. Raises `TrainError` for none."""
    pieces = list(_split_texts(tokenizer, texts, limit)) if texts else []  # a tokenizer cannot encode nothing
    if not pieces:
        raise TrainError("there is no text to learn from; give a task with texts, or --head_args texts=FILE")
    return pieces


def _split_texts(tokenizer: PreTrainedTokenizerBase, texts: dict[str, str], limit: int | None) -> Iterator[TextPiece]:
    truncation = {} if limit is None else {"truncation": True, "max_length": limit, "return_overflowing_tokens": True}
    encoded = tokenizer(list(texts), return_special_tokens_mask=True, verbose=False, **truncation)
    origins = list(texts.values())
    owners: Sequence[int] = encoded.get("overflow_to_sample_mapping", range(len(origins)))
    for ids, special, owner in zip(encoded[IDS], encoded[SPECIAL], owners, strict=True):
        text_positions = [index for index, is_special in enumerate(special) if not is_special]
        if text_positions:
            yield TextPiece(ids, text_positions[0], text_positions[-1] + 1, origins[owner])


class NoisyFeatures:
    """Pieces of texts with noise that is drawn anew in every epoch, seeded by the epoch's draw and the row.

    The amount of noise depends only on the length of a piece, so that lengths and weights are known in advance.
    """

    truncated = 0  # long texts are split instead

    def __init__(self, pieces: Sequence[TextPiece], noise: Noise, padding: int) -> None:
        self.pieces, self.noise, self.padding = pieces, noise, padding
        rows = [self.row(number, 0) for number in range(len(pieces))]
        self.lengths = list(map(length, rows))
        self.weights = list(map(weight, rows))
        self.ids = [piece.origin for piece in pieces]

    def row(self, number: int, draw: int) -> Row:
        """Return a piece with the noise of a draw."""
        return self.noise(self.pieces[number], Random(f"{draw} {number}"))

    def batch(self, rows: Sequence[int], draw: int) -> Batch:
        """Return input_ids, attention_mask, labels …"""
        return batch_of([self.row(number, draw) for number in rows], self.padding)

    def beside(self, rows: Sequence[int]) -> list[Batch]:  # noqa: ARG002
        return []


# ---- learners --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PostTraining(ABC):
    """Base class of learners without labels."""

    base: Base
    options: MaskOptions
    noise: Noise
    select_by: ClassVar[str] = "loss"

    @abstractmethod
    def network(self) -> LanguageNetwork:
        """Return the model with its head."""

    @abstractmethod
    def backend(self, network: LanguageNetwork) -> MaskedModel:
        """Return the model as a backend of `figeval run`."""

    def features(self, examples: Sequence[Example]) -> NoisyFeatures:
        """Return the texts to train on, of a file or of the examples, tokenized and in pieces."""
        texts = self.texts(examples)
        if self.files is not None:
            notice(f"{len(texts):,} different texts in {self.options.texts}")
        return self._make_features(texts)

    def texts(self, examples: Sequence[Example]) -> dict[str, str]:
        """Return the texts to train on, each with its origin."""
        return texts_of(examples) if self.files is None else self.files.texts()

    @property
    def files(self) -> TextFiles | None:
        """The texts that are not the task's."""
        return TextFiles(Path(self.options.texts), self.options.field) if self.options.texts else None

    def held_out(self, examples: Sequence[Example]) -> NoisyFeatures:
        """Return the texts of held-out examples, even if a file supplies the others."""
        return self._make_features(texts_of(examples))

    def _make_features(self, texts: dict[str, str]) -> NoisyFeatures:
        pieces = pieces_of(self.base.tokenizer, texts, self.base.limit)
        return NoisyFeatures(pieces, self.noise, padding_of(self.base.tokenizer))

    def save(self, network: LanguageNetwork, weights: Mapping[str, Tensor], folder: Path) -> JSON:
        """Save the model as transformers does, with its tokenizer; figeval.json declares no options."""
        self.base.save(network.model, weights, "model.", folder)
        return {}

    def describe(self) -> JSON:
        """Return the source of the texts, and the noise."""
        digest = {} if self.files is None else {"sha256": self.files.sha256()}
        source = {"texts": self.options.texts or "the task's", **digest, "share": self.options.share}
        return {**source, "noise": type(self.noise).__name__.lower(), "max_length": self.base.limit}


class MaskedLearner(PostTraining):
    """Learner that predicts hidden words from both sides. A bare encoder gets a fresh head, trained with the rest."""

    offers: ClassVar[frozenset[str]] = capabilities(MaskedModel)

    def network(self) -> LanguageNetwork:
        """Return the network, which runs the head only at hidden words if that gives the same scores."""
        from transformers import AutoModelForMaskedLM as Auto

        from .language import LanguageNetwork

        model = (fresh_head(self.base, Auto) if self.has_no_head else self.base.load(Auto)).eval()
        network = LanguageNetwork(model, sparse=has_separable_head(model, self.base.tokenizer.mask_token_id))
        if self.has_no_head:
            network.fresh = [name for name, child in model.named_children() if child is not model.base_model]
        network.train()
        return network

    @property
    def has_no_head(self) -> bool:
        """True if the checkpoint is an encoder without a head."""
        architecture = self.base.checkpoint.architecture
        return not architecture or architecture.endswith("Model")

    def backend(self, network: LanguageNetwork) -> MaskedModel:
        model = MaskedNetwork(network.model, self.base.tokenizer, self.base.limit, network.sparse)
        return MaskedModel(self.base.setup_of(MaskedSettings(), network)).with_network(model)

    def describe(self) -> JSON:
        """Return the common description, and whether the head is fresh."""
        return super().describe() | {"fresh_head": self.has_no_head}


class InfillLearner(PostTraining):
    """Learner whose decoder writes the hidden spans."""

    def network(self) -> LanguageNetwork:
        """Return the encoder-decoder."""
        from transformers import AutoModelForSeq2SeqLM

        from .language import LanguageNetwork

        return LanguageNetwork(self.base.load(AutoModelForSeq2SeqLM), use_cache=False)

    def backend(self, network: LanguageNetwork) -> NoReturn:  # noqa: ARG002
        """Raise `TrainError`: no task queries a model in this form."""
        raise TrainError("infill can be selected only by its loss; leave out --select_by")


def mlm(setup: Setup) -> MaskedLearner:
    """Make a learner for `mlm`.

    Raises:
        ModelError: no such model.
        TrainError: an unknown option, or a tokenizer without a mask token.
    """
    options, base = options_of(MaskOptions, setup.options), base_of(setup)
    tokenizer = base.tokenizer
    if tokenizer.mask_token_id is None:
        raise TrainError(
            f"the tokenizer of {setup.model!r} has no mask token; mlm needs a masked model, see --head infill"
        )
    special = set(tokenizer.all_special_ids)
    words = [token for token in range(len(tokenizer)) if token not in special]
    return MaskedLearner(base, options, Masks(options.share, tokenizer.mask_token_id, words))


def infill(setup: Setup) -> InfillLearner:
    """Make a learner for `infill`.

    Raises:
        ModelError: no such model.
        TrainError: an unknown option, a model that is no encoder-decoder, or a tokenizer without sentinels and mask.
    """
    options, base = options_of(InfillOptions, setup.options), base_of(setup)
    if writing_head(base.checkpoint) != "seq2seq":
        raise TrainError(f"{setup.model!r} is a {base.checkpoint.architecture}; infill needs an encoder-decoder")
    spans, start = SpanSampler(options.share, options.mean_span), decoder_start(base)
    sentinel_ids, mask = sentinels(base.tokenizer), base.tokenizer.mask_token_id
    if sentinel_ids:
        return InfillLearner(base, options, Sentinels(spans, sentinel_ids, start))
    if mask is None:
        raise TrainError(
            f"the tokenizer of {setup.model!r} has neither <extra_id_0> nor a mask token to hide spans under"
        )
    return InfillLearner(base, options, Holes(spans, mask, start))


def sentinels(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return T5's tokens for hidden spans, in order."""
    vocabulary = tokenizer.get_vocab()
    names = takewhile(vocabulary.__contains__, (f"<extra_id_{number}>" for number in count()))
    return [vocabulary[name] for name in names]
