"""Biencoder: one encoder for queries and candidates, which brings a query closest to its right candidate.

As in Ghosh and Srivastava (2022, section 5.1), every step encodes all candidates anew, with gradient, and the loss is
the cross-entropy of the right one among all of them. Candidates are encoded once per step in batches of similar length,
however many batches the queries take. The options of a choice task are the candidates of its questions.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import torch
from torch.nn import Module, Parameter, functional
from torch.utils.checkpoint import checkpoint

from figeval.errors import TrainError
from figeval.task_types.choice import ChoiceExample
from figeval.task_types.ranking import RankingExample
from figeval.types import JSON, Example, Text, TextRole

from ..encoders.encoder import COSINE, NO_PROMPTS, POOLINGS, Encoder, EncoderNetwork, EncoderSettings, pool_states
from ..encoders.prompts import Prompts, check_prompts
from ..torch_models.settings import one_of, positive
from ..torch_models.tokens import IDS, Tokens, tokenize
from .base_model import Base, Prompted, base_of, options_of, pooled_encoder, pooling_of
from .inputs import gold_of, inputs_of, ranking_losses, rectangle

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from torch import Tensor
    from transformers import PreTrainedModel

    from figeval.models.learner import Batch, Setup
    from figeval.wings.training.batch_plans import BatchPlan

TEMPERATURE = 0.05  # for cosines, as in sentence-transformers' ranking losses
CANDIDATES = ("all", "batch")
OPTIONS = ("own", "batch")
CACHING = ("auto", "on", "off")
Encoded = TypeVar("Encoded")
Golds = Sequence[Sequence[int]]  # the numbers of each row's right candidates
SHARE = 2  # activations of candidates may take one part in this many of all memory


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodingOptions:
    """Options of encoders that compare vectors.

    Attributes:
        pooling: pooling of the encoder; None for the one that the checkpoint declares.
        similarity: cosine or dot.
        temperature: divisor of the similarities; None for .05 with cosines and 1 with dot products.
        learn_temperature: whether the temperature is trained.
        freeze: names of modules that are not trained, a+b.
        caching: whether activations of candidates are recomputed; "auto" does so if they do not fit into memory.
        query_prompt: prompt before queries, by its name in the checkpoint or as a text; empty for none, None for the
            one that the checkpoint declares.
        document_prompt: prompt before candidates and options.
        text_prompt: prompt before texts that are neither, which the trained model declares without having learnt from
            such texts.
    """

    pooling: str | None = None
    similarity: str = COSINE
    temperature: float | None = None
    learn_temperature: bool = False
    freeze: str = ""
    caching: str = CACHING[0]
    query_prompt: str | None = None
    document_prompt: str | None = None
    text_prompt: str | None = None

    def __post_init__(self) -> None:
        if self.pooling is not None:
            one_of("pooling", self.pooling, tuple(POOLINGS))
        one_of("similarity", self.similarity, (COSINE, "dot"))
        one_of("caching", self.caching, CACHING)
        if self.temperature is not None and not self.temperature > 0:
            raise TrainError(f"temperature={self.temperature} is not above 0")
        check_prompts(self.prompts)

    @property
    def prompts(self) -> dict[TextRole, str | None]:
        return {"query": self.query_prompt, "document": self.document_prompt, "": self.text_prompt}

    @property
    def initial_temperature(self) -> float:
        return self.temperature or (TEMPERATURE if self.similarity == COSINE else 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BiencoderOptions(EncodingOptions):
    """Options of biencoders for ranking.

    Attributes:
        candidates: candidates of a step, "all" or those of its "batch".
        hard: number of hard negatives per query with candidates=batch: the wrong candidates that are nearest to it at
            the start.
    """

    candidates: str = CANDIDATES[0]
    hard: int = 0

    def __post_init__(self) -> None:
        EncodingOptions.__post_init__(self)
        one_of("candidates", self.candidates, CANDIDATES)
        if self.hard and self.candidates == "all":
            raise TrainError("hard negatives are among all candidates anyway; use candidates=batch, or leave hard= out")
        positive("hard", self.hard or 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceOptions(EncodingOptions):
    """Options for choice: the right option competes with those of its "own" question or of the whole "batch"."""

    candidates: str = OPTIONS[0]

    def __post_init__(self) -> None:
        EncodingOptions.__post_init__(self)
        one_of("candidates", self.candidates, OPTIONS)


# ---- features: queries, candidates, and which of them a step has -----------------------------------------------------


class RankingFeatures:
    """Tokenized queries and candidates."""

    def __init__(self, queries: Tokens, candidates: Tokens, golds: list[list[int]], plan: BatchPlan) -> None:
        self.queries, self.candidates, self.golds, self.plan = queries, candidates, golds, plan
        self.hard: list[list[int]] = []
        self.has_all_candidates = True  # whether every step has all candidates
        self.has_own_options = False  # whether a query competes only with its right and hard candidates
        self.lengths = queries.lengths
        self.weights = [1.0] * len(self.lengths)
        self.truncated = len(queries.truncated) + len(candidates.truncated)

    def batch(self, rows: Sequence[int], draw: int) -> Batch:  # noqa: ARG002 - nothing is drawn
        """Return input_ids, attention_mask … (rows, length) and golds (rows, k), padded with -1.

        With `has_own_options`, also return options (rows, k): the candidates that compete in each row.
        """
        tensors = {**self.queries.tensors(rows, "cpu"), "golds": rectangle([self.golds[row] for row in rows])}
        if self.has_own_options:
            tensors["options"] = rectangle([self.golds[row] + self.hard[row] for row in rows])
        return tensors

    def beside(self, rows: Sequence[int]) -> list[Batch]:
        """Return the candidates of the step in batches; `columns` (rows,) are their numbers."""
        from figeval.wings.training.batch_plans import divide_rows

        numbers = range(len(self.candidates.lengths)) if self.has_all_candidates else self.step_candidates(rows)
        parts = divide_rows(numbers, self.candidates.lengths, self.plan, 0, 1)
        return [{**self.candidates.tensors(part.rows, "cpu"), "columns": torch.tensor(part.rows)} for part in parts]

    def step_candidates(self, rows: Sequence[int]) -> list[int]:
        """Return the numbers of the right candidates and hard negatives of a step's rows, without duplicates."""
        negatives = [number for row in rows for number in self.hard[row]] if self.hard else []
        return sorted({number for row in rows for number in self.golds[row]} | {*negatives})


def shared_candidates(examples: Sequence[RankingExample]) -> tuple[str, ...]:
    """Return the candidates that all examples share.

    Raises:
        TrainError: examples have different candidates, or one has no right candidate.
    """
    candidates = examples[0].candidates
    for example in examples:
        if example.candidates is not candidates and example.candidates != candidates:
            raise TrainError(f"{example.id} has other candidates than {examples[0].id}; a biencoder needs one list")
        if not example.relevant:
            raise TrainError(f"{example.id} has no right candidate to learn from; leave it out of the train split")
    return candidates


def hardest_negatives(queries: ArrayLike, candidates: ArrayLike, golds: Golds, count: int) -> list[list[int]]:
    """Return the `count` nearest wrong candidates per row, from vectors (rows, d) and (candidates, d)."""
    import numpy as np

    scores = np.asarray(queries) @ np.asarray(candidates).T
    for row, gold in enumerate(golds):
        scores[row, list(gold)] = -np.inf
    return np.argsort(-scores, axis=1, kind="stable")[:, :count].tolist()  # type: ignore[no-any-return]


# ---- network ---------------------------------------------------------------------------------------------------------


class BiencoderNetwork(Module):  # type: ignore[misc]
    """Network that computes the losses of queries among candidates; similarities and losses are in float32."""

    def __init__(self, encoder: PreTrainedModel, pooling: str, options: EncodingOptions) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = POOLINGS[pooling]
        self.cosine = options.similarity == COSINE
        self.caching = options.caching
        logarithm = torch.tensor([options.initial_temperature]).log()  # (1,): a scalar cannot be sharded
        self.log_temperature = Parameter(logarithm, requires_grad=options.learn_temperature)

    def forward(self, batches: Sequence[Batch], beside: Sequence[Batch]) -> Tensor:
        """Return losses (rows,) of the rows of all batches."""
        with self.memory_bound_encoder(self.vectors, batches, beside) as encode:
            queries = torch.cat([encode(batch) for batch in batches])
            candidates = torch.cat([encode(batch) for batch in beside])
        return self.ranked(queries, candidates, batches, beside)

    def ranked(self, queries: Tensor, candidates: Tensor, batches: Sequence[Batch], beside: Sequence[Batch]) -> Tensor:
        """Return losses (rows,) from the vectors of all queries and candidates, (rows, d) and (candidates, d)."""
        with torch.autocast(queries.device.type, enabled=False):
            logits = queries @ candidates.T / self.log_temperature.exp()
            columns = torch.cat([batch["columns"] for batch in beside])
            if "options" in batches[0]:
                is_absent = ~(padded_numbers(batches, "options").unsqueeze(-1) == columns).any(dim=1)
                logits = logits.masked_fill(is_absent, float("-inf"))
            return ranking_losses(logits, columns, padded_numbers(batches, "golds"))

    def vectors(self, batch: Batch) -> Tensor:
        """Return vectors (rows, d) in float32, of length 1 for cosines."""
        return self.scale(self.pooled(inputs_of(batch)))

    def pooled(self, batch: dict[str, Tensor]) -> Tensor:
        """Return the pooled states of the encoder."""
        return pool_states(self.encoder, self.pooling, batch)

    def scale(self, vectors: Tensor) -> Tensor:
        """Return the vectors in float32, scaled to length 1 for cosines."""
        vectors = vectors.float()
        return functional.normalize(vectors, dim=-1) if self.cosine else vectors

    @contextmanager
    def memory_bound_encoder(
        self, compute: Callable[[Batch], Encoded], batches: Sequence[Batch], beside: Sequence[Batch]
    ) -> Iterator[Callable[[Batch], Encoded]]:
        """Return `compute`, for use in this context, with gradient caching if activations do not fit into memory.

        In that case activations are recomputed in the backward pass with the same random numbers, so that only those of
        one batch are in memory at a time, however many candidates there are (Gao et al. 2021).
        """
        if self.exceeds_memory(beside):
            yield partial(checkpoint, compute, use_reentrant=False)
        else:
            with shared_lookup(self.encoder.get_input_embeddings(), [*batches, *beside]):
                yield compute

    def exceeds_memory(self, beside: Sequence[Batch]) -> bool:
        """Return whether the activations of all candidates exceed the memory.

        The answer is the same in all processes, because they wait for each other.
        """
        if self.caching != "auto":
            return self.caching == "on"
        tokens = sum(batch["input_ids"].numel() for batch in beside)
        return bool(tokens * self.bytes_per_token() > memory_of(self.log_temperature.device) // SHARE)

    def bytes_per_token(self) -> int:
        """Return an estimate of a token's activations (Korthikanti et al. 2022, eq. 1, without attention maps)."""
        config = self.encoder.config
        return 4 * 17 * int(config.hidden_size) * int(config.num_hidden_layers)


def memory_of(device: torch.device) -> int:
    """Return the bytes of a device's memory that belong to a process, used or not."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    import psutil

    return int(psutil.virtual_memory().total) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


@contextmanager
def shared_lookup(embeddings: Module, batches: Sequence[Batch]) -> Iterator[None]:
    """Share one embedding lookup, of the distinct tokens, among all batches, on a CPU.

    The gradient of a lookup is as large as the vocabulary; one for every batch would cost as much as a layer there. An
    accelerator would have to wait for the number of distinct tokens, which costs more. A shard is looked up for every
    batch, too, since FSDP holds the whole weight only while its layer computes.
    """
    if embeddings.weight.device.type != "cpu" or hasattr(embeddings.weight, "full_tensor"):
        yield
        return
    ids = torch.cat([tensor.flatten() for batch in batches for name, tensor in batch.items() if name.endswith(IDS)])
    words = ids.unique()
    table = embeddings(words)

    def from_table(_module: Module, inputs: tuple[Tensor, ...], _output: Tensor) -> Tensor:
        return table[torch.searchsorted(words, inputs[0])]

    hook = embeddings.register_forward_hook(from_table)
    try:
        yield
    finally:
        hook.remove()


def padded_numbers(batches: Sequence[Batch], name: str) -> Tensor:
    """Return the candidate numbers of all rows (rows, k), padded with -1."""
    numbers = [batch[name] for batch in batches]
    width = max(rows.shape[1] for rows in numbers)
    return torch.cat([functional.pad(rows, (0, width - rows.shape[1]), value=-1) for rows in numbers])


# ---- learner ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EncoderLearner(Prompted, ABC):
    """Base class of both learners: training, reading and saving of the encoder.

    Texts are read with the prompts of their roles, which the trained model declares.
    """

    base: Base
    options: EncodingOptions
    pooling: str
    prompts: Prompts = NO_PROMPTS
    select_by: None = None

    @property
    def offers(self) -> frozenset[str]:
        """Capabilities of the trained model."""
        return frozenset({"embed", "dot"} if self.options.similarity == "dot" else {"embed"})

    @abstractmethod
    def features(self, examples: Sequence[Example]) -> RankingFeatures:
        """Return the queries and candidates, tokenized."""

    def network(self) -> BiencoderNetwork:
        encoder = self.encoder()
        return BiencoderNetwork(encoder, self.pooling, self.options)

    def encoder(self) -> PreTrainedModel:
        """Return the encoder; frozen modules get no gradient."""
        return pooled_encoder(self.base, self.pooling, self.options.freeze)

    def tokens(self, texts: Sequence[str], role: TextRole) -> Tokens:
        """Tokenize texts of a role after their prompt; one that is too long loses its end."""
        prompt = self.prompts.of(role)
        return tokenize(self.base.tokenizer, [prompt + text for text in texts], self.base.limit)

    def backend(self, network: BiencoderNetwork) -> Encoder:
        """Return the encoder as a backend of `figeval run`."""
        settings = EncoderSettings(pooling=self.pooling, similarity=self.options.similarity)
        return Encoder(self.base.setup_of(settings, network), self.prompts).with_network(self.read_by(network))

    def read_by(self, network: BiencoderNetwork) -> EncoderNetwork:
        """Return the network's encoder in the form that a backend reads."""
        return EncoderNetwork(network.encoder, self.base.tokenizer, self.base.limit, self.pooling, network.pooled)

    def save(self, network: BiencoderNetwork, weights: Mapping[str, Tensor], folder: Path) -> JSON:
        """Save the encoder as transformers does, with its tokenizer."""
        self.base.save(network.encoder, weights, "encoder.", folder)
        compared = {"pooling": self.pooling, "similarity": self.options.similarity}
        return {"kind": "encoder", **compared, **self.prompts.options()}

    def describe(self) -> JSON:
        """Return the pooling, similarity, temperature, frozen modules and prompts."""
        options = self.options
        return {
            "pooling": self.pooling,
            "similarity": options.similarity,
            "temperature": options.initial_temperature,
            "learn_temperature": options.learn_temperature,
            "frozen": options.freeze,
            "max_length": self.base.limit,
            **self.prompts.describe(),
        }


@dataclass(frozen=True)
class Biencoder(EncoderLearner):
    """Learner for queries that share their candidates."""

    options: BiencoderOptions

    def features(self, examples: Sequence[Example]) -> RankingFeatures:
        """Return the queries and their shared candidates, tokenized."""
        rows = cast("Sequence[RankingExample]", examples)
        candidates = self.tokens(shared_candidates(rows), "document")
        queries = self.tokens([row.query for row in rows], "query")
        golds = [sorted(row.relevant) for row in rows]
        ranking = RankingFeatures(queries, candidates, golds, self.base.plan)
        ranking.has_all_candidates = self.options.candidates == "all"
        if self.options.hard:
            backend = self.backend(self.network().eval())
            of_queries = backend.embed([Text(row.query, "query") for row in rows]).values
            of_candidates = backend.embed([Text(text, "document") for text in rows[0].candidates]).values
            ranking.hard = hardest_negatives(of_queries, of_candidates, golds, self.options.hard)
        return ranking

    def describe(self) -> JSON:
        """Return the description of the encoder and the candidates of a step."""
        return super().describe() | {"candidates": self.options.candidates, "hard": self.options.hard}


@dataclass(frozen=True)
class OptionBiencoder(EncoderLearner):
    """Learner for queries with options of their own."""

    options: ChoiceOptions

    def features(self, examples: Sequence[Example]) -> RankingFeatures:
        """Return the queries and the distinct options of all of them, tokenized."""
        rows = cast("Sequence[ChoiceExample]", examples)
        texts = list(dict.fromkeys(option for row in rows for option in row.options))
        numbers = {text: number for number, text in enumerate(texts)}
        golds = [[numbers[row.options[gold_of(row)]]] for row in rows]
        queries, options = self.tokens([row.query for row in rows], "query"), self.tokens(texts, "document")
        ranking = RankingFeatures(queries, options, golds, self.base.plan)
        ranking.has_all_candidates, ranking.has_own_options = False, self.options.candidates == "own"
        ranking.hard = [
            sorted({numbers[o] for o in row.options} - {*right}) for row, right in zip(rows, golds, strict=True)
        ]
        return ranking

    def describe(self) -> JSON:
        """Return the description of the encoder and the options that compete."""
        return super().describe() | {"candidates": self.options.candidates}


def ranking(setup: Setup) -> Biencoder:
    """Make a learner for candidates that all queries share.

    A biencoder that was trained before keeps its similarity and pooling unless an option says otherwise.

    Raises:
        ModelError: no such model, an invalid value of an option, or a prompt that the model does not declare.
        TrainError: an unknown option, or a pooling that neither the model nor the options give.
    """
    base = base_of(setup)
    declared = base.declared_options(EncoderSettings(), "similarity")
    options = options_of(BiencoderOptions, {**declared, **setup.options})
    return Biencoder(base, options, pooling_of(base, options.pooling), base.prompts(options.prompts))


def choice(setup: Setup) -> OptionBiencoder:
    """Make a learner for the options of questions. Raises as `ranking` does."""
    base = base_of(setup)
    declared = base.declared_options(EncoderSettings(), "similarity")
    options = options_of(ChoiceOptions, {**declared, **setup.options})
    return OptionBiencoder(base, options, pooling_of(base, options.pooling), base.prompts(options.prompts))
