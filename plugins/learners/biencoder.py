"""One encoder for queries and candidates apart; a query is to be nearest to its right candidate.

As in Ghosh and Srivastava (2022, section 5.1): in every step all candidates are encoded anew, with gradient, and the
loss is the cross-entropy of the right one among all of them. Candidates go through in batches of like length, once a
step, however many batches the queries take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from figeval.errors import TrainError
from figeval.task_types.ranking import RankingExample
from figeval.types import JSON, Example, Text

from .._networks import COSINE, POOLINGS, EncoderNetwork, EncoderSettings
from .._neural import Setup as Loading
from .._settings import one_of, positive
from .._tokens import Tokens, tokenize
from ..encoder import Encoder
from ._base import Base, base_of
from ._candidates import hardest, in_step, shared_candidates
from ._inputs import rectangle
from ._options import frozen_modules, options_of

if TYPE_CHECKING:
    from figeval.training.contract import Batch, Setup

TEMPERATURE = 0.05  # of cosines, as sentence-transformers' ranking losses have it
CANDIDATES = ("all", "batch")
CACHING = ("auto", "on", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class BiencoderOptions:
    """`pooling` is that of the checkpoint where it declares one. `similarity` is cosine or dot; its `temperature` is
    .05 for cosines and 1 for dots, learnt with `learn_temperature`. `candidates` of a step are "all" or those of its
    "batch", then with the `hard` wrong ones that are nearest to a query in the beginning. `freeze` names modules that
    are not trained, a+b. `caching` recomputes activations of candidates, if they do not fit ("auto").
    """

    pooling: str | None = None
    similarity: str = COSINE
    temperature: float | None = None
    learn_temperature: bool = False
    candidates: str = CANDIDATES[0]
    hard: int = 0
    freeze: str = ""
    caching: str = CACHING[0]

    def __post_init__(self) -> None:
        if self.pooling is not None:
            one_of("pooling", self.pooling, tuple(POOLINGS))
        one_of("similarity", self.similarity, (COSINE, "dot"))
        one_of("candidates", self.candidates, CANDIDATES)
        one_of("caching", self.caching, CACHING)
        if self.hard and self.candidates == "all":
            raise TrainError("hard negatives are among all candidates anyway; use candidates=batch, or leave hard= out")
        if self.temperature is not None and not self.temperature > 0:
            raise TrainError(f"temperature={self.temperature} is not above 0")
        positive("hard", self.hard or 1)

    @property
    def degree(self) -> float:
        """The temperature to begin with."""
        return self.temperature or (TEMPERATURE if self.similarity == COSINE else 1.0)


class RankingFeatures:
    """Queries and candidates as token ids."""

    def __init__(self, queries: Tokens, candidates: Tokens, golds: list[list[int]], tokens: int) -> None:
        self.queries, self.candidates, self.golds, self.tokens = queries, candidates, golds, tokens
        self.hard: list[list[int]] = []
        self.everything = True  # all candidates in every step
        self.lengths = queries.lengths
        self.weights = [1.0] * len(self.lengths)
        self.truncated = len(queries.truncated) + len(candidates.truncated)

    def batch(self, rows: Sequence[int], draw: int) -> Batch:  # noqa: ARG002 - nothing is drawn
        """input_ids, attention_mask … (rows, length) and golds (rows, k), filled up with -1."""
        return {**self.queries.tensors(rows, "cpu"), "golds": rectangle([self.golds[row] for row in rows])}

    def beside(self, rows: Sequence[int]) -> list[Batch]:
        """The candidates of the step; `columns` (rows,) are their numbers."""
        import torch

        from figeval.training.batches import shares

        wanted = range(len(self.candidates.lengths)) if self.everything else in_step(self.golds, self.hard, rows)
        parts = shares(wanted, self.candidates.lengths, self.tokens, 0, 1)
        return [{**self.candidates.tensors(part.rows, "cpu"), "columns": torch.tensor(part.rows)} for part in parts]


@dataclass(frozen=True)
class Biencoder:
    """The learner."""

    base: Base
    options: BiencoderOptions
    pooling: str
    select_by: None = None

    def network(self) -> Any:
        """Encoder and temperature."""
        from ._biencoder_network import BiencoderNetwork

        encoder = self.encoder()
        return BiencoderNetwork(encoder, self.pooling, self.options)

    def encoder(self) -> Any:
        """The encoder; frozen modules have no gradient."""
        from transformers import AutoModel

        encoder = self.base.load(AutoModel, spare="" if self.pooling == "pooler" else "pooler")
        encoder = encoder.get_encoder() if encoder.config.is_encoder_decoder else encoder
        if self.pooling != "pooler" and getattr(encoder, "pooler", None) is not None:
            encoder.pooler.requires_grad_(False)  # it gets no gradient, and ZeRO would let it decay
        frozen_modules(encoder, self.options.freeze)
        return encoder

    def features(self, examples: Sequence[Example]) -> RankingFeatures:
        """Queries and the candidates that all of them share, tokenised."""
        rows = cast("Sequence[RankingExample]", examples)
        tokenizer, limit = self.base.tokenizer, self.base.limit
        candidates = tokenize(tokenizer, shared_candidates(rows), limit)
        queries = tokenize(tokenizer, [row.query for row in rows], limit)
        golds = [sorted(row.relevant) for row in rows]
        found = RankingFeatures(queries, candidates, golds, self.base.tokens)
        found.everything = self.options.candidates == "all"
        if self.options.hard:
            backend = self.backend(self.network().eval())
            sides = ([row.query for row in rows], rows[0].candidates)
            vectors = [backend.embed([Text(text) for text in side]).values for side in sides]
            found.hard = hardest(vectors[0], vectors[1], golds, self.options.hard)
        return found

    def backend(self, network: Any) -> Any:
        """The encoder as `figeval run` has it."""
        settings = EncoderSettings(pooling=self.pooling, similarity=self.options.similarity)
        device = str(next(network.parameters()).device)
        encoder = Encoder(Loading(settings, self.base.checkpoint, device, "float32"))
        vars(encoder)["network"] = self.read_by(network)
        return encoder

    def read_by(self, network: Any) -> EncoderNetwork:
        """The encoder of the network, as a backend reads it."""
        return EncoderNetwork(network.encoder, self.base.tokenizer, self.base.limit, self.pooling, network.pooled)

    def save(self, network: Any, weights: Mapping[str, Any], folder: Path) -> JSON:
        """An encoder of transformers with its tokenizer."""
        self.base.save(network.encoder, weights, "encoder.", folder)
        return {"kind": "encoder", "pooling": self.pooling, "similarity": self.options.similarity}

    def describe(self) -> JSON:
        """Pooling, similarity, temperature and candidates."""
        options = self.options
        return {
            "pooling": self.pooling,
            "similarity": options.similarity,
            "temperature": options.degree,
            "learn_temperature": options.learn_temperature,
            "candidates": options.candidates,
            "hard": options.hard,
            "frozen": options.freeze,
            "max_length": self.base.limit,
        }


def biencoder(setup: Setup) -> Biencoder:
    """Made from a setup; a biencoder that was trained before brings its similarity, as its pooling.

    Raises:
        ModelError: no such model, or an unknown option.
        TrainError: it says nothing about pooling, and neither do the options.
    """
    base = base_of(setup)
    brought = base.brought(EncoderSettings(), "similarity")
    return encoder_of(base, options_of(BiencoderOptions, {**brought, **setup.options}))


def encoder_of(base: Base, options: BiencoderOptions) -> Biencoder:
    """A model with its pooling. Raises `TrainError` where neither it nor the options say what that is."""
    pooling = options.pooling or base.pooling
    if pooling is None:
        raise TrainError(f"{base.setup.model!r} declares no pooling; say --head_args pooling=mean (cls, pooler, last)")
    return Biencoder(base, options, pooling)
