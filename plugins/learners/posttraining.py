"""Further training on unlabelled text: `mlm` for masked models, `infill` for encoder-decoders.

The texts are those of the task's train split, each once (narratives, proverbs, premises, references …), or those of a
file. Labels are not read, so this is no training on the task; what is trained is then a base for other heads. The loss
on dev is that of held-out examples with noise that is always the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from figeval.errors import TrainError
from figeval.resources import expand_user
from figeval.types import JSON, Example

from .._neural import Setup as Loading
from .._tokens import padding_of
from ..masked import MaskedModel, MaskedNetwork, MaskedSettings, has_separable_head
from ._base import Base, base_of
from ._heads import fresh_head
from ._language import DrawnFeatures, Noise
from ._noise import Holes, Masks, Sentinels, Spans
from ._options import options_of
from ._pieces import pieces_of, texts_in, texts_of
from .writing import decoder_start, written_by

if TYPE_CHECKING:
    from figeval.training.contract import Setup

SHARE = 0.15  # of the tokens are hidden
MEAN_SPAN = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskOptions:
    """`texts` is a file: .txt, a text on each line, or .jsonl with a field `text`. `share` of the tokens is hidden."""

    texts: str | None = None
    share: float = SHARE

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise TrainError(f"share={self.share} is not between 0 and 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class InfillOptions(MaskOptions):
    """The same, and the mean length of a span in tokens."""

    mean_span: float = MEAN_SPAN

    def __post_init__(self) -> None:
        MaskOptions.__post_init__(self)
        if not self.mean_span >= 1:
            raise TrainError(f"mean_span={self.mean_span} is less than a token")


@dataclass(frozen=True)
class PostTraining(ABC):
    """A learner without labels."""

    base: Base
    options: MaskOptions
    noise: Noise
    select_by: ClassVar[str] = "loss"

    @abstractmethod
    def network(self) -> Any:
        """The model with its head."""

    @abstractmethod
    def backend(self, network: Any) -> Any:
        """The model as `figeval run` has it."""

    def features(self, examples: Sequence[Example]) -> DrawnFeatures:
        """The texts to learn from, tokenised and in pieces: of a file, or of the examples."""
        return self._drawn(self.texts(examples))

    def texts(self, examples: Sequence[Example]) -> dict[str, str]:
        """The texts to learn from, and where each comes from."""
        return texts_in(Path(self.options.texts)) if self.options.texts else texts_of(examples)

    def held_out(self, examples: Sequence[Example]) -> DrawnFeatures:
        """The texts of held-out examples, wherever the others come from."""
        return self._drawn(texts_of(examples))

    def _drawn(self, texts: dict[str, str]) -> DrawnFeatures:
        pieces = pieces_of(self.base.tokenizer, texts, self.base.limit)
        return DrawnFeatures(pieces, self.noise, padding_of(self.base.tokenizer))

    def save(self, network: Any, weights: Mapping[str, Any], folder: Path) -> JSON:
        """A model of transformers with its tokenizer. There is nothing to declare."""
        self.base.save(network.model, weights, "model.", folder)
        return {}

    def describe(self) -> JSON:
        """Where texts come from, and the noise."""
        file = self.options.texts
        digest = {} if file is None else {"sha256": sha256(expand_user(file).read_bytes()).hexdigest()}
        shown = {"texts": file or "the task's", **digest, "share": self.options.share}
        return {**shown, "noise": type(self.noise).__name__.lower(), "max_length": self.base.limit}


class MaskedLearner(PostTraining):
    """Hidden words are guessed from both sides. A bare encoder gets a fresh head, which it learns with the rest."""

    def network(self) -> Any:
        """The head is run at hidden words only, where that gives the same."""
        from transformers import AutoModelForMaskedLM as Auto

        from ._language_network import LanguageNetwork

        model = (fresh_head(self.base, Auto) if self.bare else self.base.load(Auto)).eval()
        network = LanguageNetwork(model, sparse=has_separable_head(model, self.base.tokenizer.mask_token_id))
        if self.bare:
            network.fresh = [name for name, child in model.named_children() if child is not model.base_model]
        return network.train()

    @property
    def bare(self) -> bool:
        """Whether the checkpoint is an encoder without a head."""
        architecture = self.base.checkpoint.architecture
        return not architecture or architecture.endswith("Model")

    def backend(self, network: Any) -> MaskedModel:
        """A masked model."""
        device = str(next(network.parameters()).device)
        masked = MaskedModel(Loading(MaskedSettings(), self.base.checkpoint, device, "float32"))
        vars(masked)["network"] = MaskedNetwork(network.model, self.base.tokenizer, self.base.limit, network.sparse)
        return masked

    def describe(self) -> JSON:
        """The same, and whether the head is fresh."""
        return super().describe() | {"fresh_head": self.bare}


class InfillLearner(PostTraining):
    """Hidden spans are written by the decoder."""

    def network(self) -> Any:
        """The encoder-decoder."""
        from transformers import AutoModelForSeq2SeqLM

        from ._language_network import LanguageNetwork

        return LanguageNetwork(self.base.load(AutoModelForSeq2SeqLM), use_cache=False)

    def backend(self, network: Any) -> Any:  # noqa: ARG002
        """Raises `TrainError`: no task is put to a model in this form."""
        raise TrainError("infill is judged by its loss alone; leave --select_by out")


def mlm(setup: Setup) -> MaskedLearner:
    """Made from a setup.

    Raises:
        ModelError: no such model, or an unknown option.
        TrainError: its tokenizer has no mask.
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
    """Made from a setup.

    Raises:
        ModelError: no such model, or an unknown option.
        TrainError: it is no encoder-decoder, or its tokenizer has neither sentinels nor a mask.
    """
    options, base = options_of(InfillOptions, setup.options), base_of(setup)
    if written_by(base.checkpoint) != "seq2seq":
        raise TrainError(f"{setup.model!r} is a {base.checkpoint.architecture}; infill needs an encoder-decoder")
    spans, start = Spans(options.share, options.mean_span), decoder_start(base)
    found, mask = sentinels(base.tokenizer), base.tokenizer.mask_token_id
    if found:
        return InfillLearner(base, options, Sentinels(spans, found, start))
    if mask is None:
        raise TrainError(
            f"the tokenizer of {setup.model!r} has neither <extra_id_0> nor a mask token to hide spans under"
        )
    return InfillLearner(base, options, Holes(spans, mask, start))


def sentinels(tokenizer: Any) -> list[int]:
    """T5's tokens for hidden spans, in order."""
    vocabulary = tokenizer.get_vocab()
    names = takewhile(vocabulary.__contains__, (f"<extra_id_{number}>" for number in count()))
    return [vocabulary[name] for name in names]
