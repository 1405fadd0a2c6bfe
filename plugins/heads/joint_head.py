"""One encoder for proverbs and spans (Ghosh and Srivastava 2022, section 5.3): the biencoder with a span branch.

An example is a narrative with all its parts. Its loss is a weighted sum of the proverb's loss and the mean start and
end losses of its parts. A narrative is read once for both, and the given spans in the same step; in the authors' code
every part is a row of its own, which reads and counts its narrative again.

A narrative that exceeds the model's limit is truncated in training (and read in windows in evaluation); parts that are
cut off with it are not trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch

from figeval.errors import TrainError
from figeval.task_types.joint import JointExample
from figeval.types import JSON, Example

from ..encoders.encoder import EncoderSettings
from ..encoders.joint_encoder import (
    ACTIVATIONS,
    LAYERS,
    JointEncoder,
    JointSettings,
    branch_logits,
    load_branch,
    span_branch,
)
from ..torch_models.loading import ModelSetup
from ..torch_models.settings import one_of
from ..torch_models.tokens import Passages, Tokens, passages, tokenize
from .base_model import base_of, options_of, pooling_of
from .biencoder import Biencoder, BiencoderNetwork, BiencoderOptions, RankingFeatures
from .inputs import inputs_of
from .span_head import AnswerTokens, answer_in, gold_tokens, position_mask, search_positions, span_losses

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import ModuleDict
    from transformers import PreTrainedModel

    from figeval.models.learner import Batch, Setup
    from figeval.wings.training.batch_plans import BatchPlan

TANH = "tanh"
BRANCH = "branch."
GIVEN_PREFIX = "given."  # prefix of the inputs of the given spans


@dataclass(frozen=True, slots=True, kw_only=True)
class JointOptions(BiencoderOptions):
    """Options of joint models, in addition to those of a biencoder.

    Attributes:
        activation: activation of the span branch, tanh or none (as published, where the given span makes no
            difference).
        weights: weights of the losses of proverb, start and end.
        max_span: longest answer in tokens, in evaluation.
    """

    activation: str = TANH
    weights: str = "1+1+1"
    max_span: int | None = None

    def __post_init__(self) -> None:
        BiencoderOptions.__post_init__(self)
        if any(prompt is not None for prompt in self.prompts.values()):
            raise TrainError("a joint model reads its texts without prompts; leave query_prompt=, … out of --head_args")
        one_of("activation", self.activation, ACTIVATIONS)
        JointSettings(max_span=self.max_span)
        if len(self.shares) != 3 or not all(0 <= share < inf for share in self.shares) or not any(self.shares):
            raise TrainError(f"weights={self.weights} are not three weights like 1+0.5+0.5 (proverb, start, end)")

    @property
    def shares(self) -> tuple[float, ...]:
        """Weights as numbers; empty if they cannot be parsed."""
        try:
            return tuple(map(float, str(self.weights).split("+")))
        except ValueError:
            return ()


# ---- features --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SpanPart:
    """The number of a given span, its answer in the narrative, and its weight among the parts of its example."""

    span_number: int
    answer: AnswerTokens
    weight: float


class JointFeatures:
    """Queries and candidates, with the given spans and their answers in the queries.

    `cut` is the number of parts that were cut off with their narrative. An example without other parts keeps one of
    weight 0, since every batch has to go through the branch in every process.
    """

    def __init__(
        self, ranking: RankingFeatures, windows: Passages, given_spans: Tokens, rows: Sequence[JointExample]
    ) -> None:
        self.ranking, self.given_spans = ranking, given_spans
        self.lengths, self.weights = ranking.lengths, ranking.weights
        self.truncated = ranking.truncated + len(given_spans.truncated)
        firsts = {window.owner: row for row, window in reversed(list(enumerate(windows.windows)))}
        self.searched: list[list[int]] = []
        self.parts: list[list[SpanPart]] = []
        self.cut, number = 0, 0
        for row, example in enumerate(rows):
            gold_parts = [gold_tokens(part, windows.offsets[row]) for part in example.parts]
            positions = search_positions(windows, firsts[row], example.query)
            self.searched.append(positions)
            window = windows.windows[firsts[row]]
            answers = {number + n: answer_in(window, tokens) for n, tokens in enumerate(gold_parts)}
            complete = {index: answer for index, answer in answers.items() if answer is not None and not answer.lost}
            parts = [SpanPart(index, answer, 1 / len(complete)) for index, answer in complete.items()]
            self.parts.append(parts or [SpanPart(number, AnswerTokens(positions[0], positions[0]), 0.0)])
            self.cut += len(gold_parts) - len(parts)
            number += len(gold_parts)
        if self.cut == number:
            raise TrainError("all parts are cut off with their narratives; raise --max_length, or use another model")

    def batch(self, rows: Sequence[int], draw: int) -> Batch:
        """Return the biencoder's queries and the spans of their parts.

        The queries have `searched` (rows, length). Every part has its given span, the row that it belongs to
        (`owners`), and `answers` (parts, 2) and `weights` (parts,).
        """
        queries = self.ranking.batch(rows, draw)
        parts = [(position, part) for position, row in enumerate(rows) for part in self.parts[row]]
        span_inputs = self.given_spans.tensors([part.span_number for _, part in parts], "cpu")
        return {
            **queries,
            **{GIVEN_PREFIX + name: tensor for name, tensor in span_inputs.items()},
            "searched": position_mask([self.searched[row] for row in rows], queries["input_ids"].shape[1]),
            "owners": torch.tensor([position for position, _ in parts]),
            "answers": torch.tensor([(part.answer.first, part.answer.last) for _, part in parts]),
            "weights": torch.tensor([part.weight for _, part in parts]),
        }

    def beside(self, rows: Sequence[int]) -> list[Batch]:
        """Return the candidates of the step."""
        return self.ranking.beside(rows)

    @property
    def plan(self) -> BatchPlan:
        """Division of the candidates into batches."""
        return self.ranking.plan

    @plan.setter
    def plan(self, plan: BatchPlan) -> None:
        self.ranking.plan = plan


# ---- network ---------------------------------------------------------------------------------------------------------


class JointNetwork(BiencoderNetwork):
    """Network that computes the losses of queries among candidates and of the spans in them."""

    def __init__(self, encoder: PreTrainedModel, branch: ModuleDict, pooling: str, options: JointOptions) -> None:
        super().__init__(encoder, pooling, options)
        self.branch = branch
        self.activation = options.activation
        self.shares = options.shares

    def forward(self, batches: Sequence[Batch], beside: Sequence[Batch]) -> Tensor:
        """Return losses (rows,) of the rows of all batches: the candidate's plus the mean of its spans'."""
        with self.memory_bound_encoder(self.read, batches, beside) as read:
            queries, spans = zip(*map(read, batches), strict=True)
        with self.memory_bound_encoder(self.vectors, [], beside) as encode:
            candidates = torch.cat([encode(batch) for batch in beside])
        ranked = self.ranked(torch.cat(queries), candidates, batches, beside)
        return self.shares[0] * ranked + torch.cat(spans)

    def read(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the vectors of the queries (rows, d) for ranking, and the losses of their spans (rows,)."""
        inputs, owners = inputs_of(batch), batch["owners"]
        output = self.encoder(**inputs, return_dict=True)
        states = output.last_hidden_state
        vectors = self.scale(self.pooling(states, inputs["attention_mask"], output))
        span_vectors = self.pooled(inputs_of(batch, GIVEN_PREFIX)).to(states.dtype)
        logits = branch_logits(self.branch, states[owners], span_vectors, self.activation)
        losses = span_losses(logits, batch["searched"][owners], batch["answers"])
        weighted = (self.shares[1] * losses[:, 0] + self.shares[2] * losses[:, 1]) * batch["weights"]
        return vectors, weighted.new_zeros(len(states)).index_add(0, owners, weighted)


# ---- learner ---------------------------------------------------------------------------------------------------------


@dataclass
class JointLearner:
    """Learner of a biencoder with a span branch. `cut` counts the parts that were not trained on."""

    ranker: Biencoder
    options: JointOptions
    cut: int = 0
    select_by: None = None

    @property
    def offers(self) -> frozenset[str]:
        """Capabilities of the trained model."""
        return self.ranker.offers | {"find_spans"}

    def network(self) -> JointNetwork:
        """Return the network of encoder, temperature and branch; the branch is fresh unless the model has one."""
        encoder, checkpoint = self.ranker.encoder(), self.ranker.base.checkpoint
        width = int(encoder.config.hidden_size)
        trained_branch = None if self.fresh else load_branch(checkpoint.folder_here(), checkpoint.model, width)
        branch = span_branch(width) if trained_branch is None else trained_branch
        return JointNetwork(encoder, branch.train(), self.ranker.pooling, self.options)

    @property
    def fresh(self) -> bool:
        """True if the checkpoint has no span branch."""
        return self.ranker.base.checkpoint.declared.get("kind") != "joint"

    def features(self, examples: Sequence[Example]) -> JointFeatures:
        """Return the tokenized queries, candidates and parts."""
        rows = cast("Sequence[JointExample]", examples)
        part = next((part.id for row in rows for part in row.parts if part.text != row.query), None)
        if part is not None:
            raise TrainError(f"the text of part {part} is not its query; a joint model finds spans in the query only")
        base = self.ranker.base
        windows = passages(base.tokenizer, [[row.query for row in rows]], 0, base.limit)
        given_spans = tokenize(base.tokenizer, [part.given for row in rows for part in row.parts], base.limit)
        features = JointFeatures(self.ranker.features(rows), windows, given_spans, rows)
        self.cut += features.cut
        return features

    def backend(self, network: JointNetwork) -> JointEncoder:
        """Return the network as a backend of `figeval run`."""
        options, base = self.options, self.ranker.base
        settings = JointSettings(pooling=self.ranker.pooling, similarity=options.similarity, max_span=options.max_span)
        setup: ModelSetup[EncoderSettings] = base.setup_of(settings, network)
        backend = JointEncoder(setup, settings.max_span, options.activation)
        vars(backend).update(network=self.ranker.read_by(network), branch=network.branch)
        return backend

    def save(self, network: JointNetwork, weights: Mapping[str, Tensor], folder: Path) -> JSON:
        """Save the encoder with its tokenizer, and the branch beside it."""
        declaration = self.ranker.save(network, weights, folder)
        tensors = {name.removeprefix(BRANCH): tensor for name, tensor in weights.items() if name.startswith(BRANCH)}
        LAYERS.save(tensors, folder)
        max_span = {} if self.options.max_span is None else {"max_span": self.options.max_span}
        return {**declaration, "kind": "joint", "activation": self.options.activation, **max_span}

    def describe(self) -> JSON:
        """Return the description of the biencoder, the weights of the losses, and the number of parts cut off."""
        options = self.options
        return {
            **self.ranker.describe(),
            "activation": options.activation,
            "weights": list(options.shares),
            "max_span": options.max_span,
            "fresh_branch": self.fresh,
            "parts_cut_off": self.cut,
        }


def joint(setup: Setup) -> JointLearner:
    """Make a learner. What the model declares applies unless an option says otherwise.

    A biencoder that was trained before keeps its pooling and similarity, as the authors' joint model starts from one.

    Raises:
        FigevalError: no such model, no pooling, or an unknown option.
    """
    base = base_of(setup)
    declared = base.declared_options(JointSettings(), "similarity", "activation", "max_span")
    options = options_of(JointOptions, {**declared, **setup.options})
    return JointLearner(Biencoder(base, options, pooling_of(base, options.pooling)), options)
