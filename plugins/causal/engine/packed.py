"""The packed log-likelihood engine: prefix trees of requests through a causal model.

Every token is read once, the vocabulary is scored only where a continuation is predicted, and keys and values of what
all texts begin with stay in memory. `self_test` finds out whether a model supports the masks that this needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from figeval.io.observer import report_share
from figeval.types import JSON

from ...torch_models.batching import TokenBudget, run_batches
from .bodies import KeyValues, cache_argument, fixed_cache, growing_cache, head, only_at, vocabulary
from .prefix_tree import NO_TOKENS, Ints, PrefixTree, TokenRequest, build_tree, shared_length
from .reading_plan import PackedRow, Prefix, RowShape, plan_of
from .views import ReadStrategy, View

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor
    from torch.nn import Module
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache

    from .verdicts import SelfTestVerdict

Answer: TypeAlias = tuple[float, bool]  # Σ log P(token), and whether each token was the likeliest

PLAIN_ROWS = ReadStrategy("plain rows", RowShape(trees=False, prefixes=False))
MIN_SHARED_TOKENS = 32  # least number of tokens that two calls must share for their keys and values to be kept
LOGIT_BYTES = {"cpu": 96 << 20}  # bytes for the scores of the vocabulary at a time
BLOCK_ROWS = 16  # states whose scores fit into a CPU's caches
ACCELERATOR_LOGIT_BYTES = 1 << 30


@dataclass(slots=True)
class TokenCount:
    """Number of tokens read by the model, and those that one row per request or packed trees would have taken.

    Packed trees are counted only if some texts, or all, could not be read in them.
    """

    read: int = 0
    plain: int = 0
    packed: int = 0

    def describe(self) -> JSON:
        return {"read": self.read, "one_row_per_continuation": self.plain}


@dataclass(slots=True)
class PackedEngine:
    """An engine that scores continuations with a causal transformers model.

    It reads plain rows until `self_test.settle` has found a better strategy.
    """

    model: PreTrainedModel
    device: torch.device
    budget: TokenBudget
    strategy: ReadStrategy = PLAIN_ROWS
    verdict: SelfTestVerdict | None = None  # that of the self-test
    precision: torch.dtype | None = None  # that of the passes, if it is not that of the weights
    body: Module | None = None  # the module before the head; None if the head cannot be run separately
    last: Module | None = None  # the feed-forward part of its last layer; None if it cannot be run on chosen states
    tokens: TokenCount = field(default_factory=TokenCount)
    _shared_prefix: tuple[Ints, KeyValues] = (NO_TOKENS, [])
    _last: Ints = field(default_factory=lambda: NO_TOKENS)  # the common beginning of the last requests

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the passes."""
        return self.precision or next(self.model.parameters()).dtype

    def score(self, requests: Sequence[TokenRequest]) -> list[Answer]:
        """Return Σ log P(token) of each continuation, in nats, and whether it is the greedy one."""
        reach = self.strategy.reach
        long_texts = [index for index, request in enumerate(requests) if reach is not None and len(request.ids) > reach]
        if not long_texts:
            return self.score_by(self.strategy, requests)
        long_set = set(long_texts)  # longer than the sample of the self-test: beyond a sliding window
        short_texts = [index for index in range(len(requests)) if index not in long_set]
        answers: dict[int, Answer] = {}
        for rows, strategy in ((short_texts, self.strategy), (long_texts, PLAIN_ROWS)):
            scores = self.score_by(strategy, [requests[row] for row in rows], len(rows) / len(requests))
            answers |= dict(zip(rows, scores, strict=True))
        return [answers[index] for index in range(len(requests))]

    def score_by(self, strategy: ReadStrategy, requests: Sequence[TokenRequest], share: float = 1.0) -> list[Answer]:
        """Score requests, which are a share of the model's call, with a given strategy; returns as `score` does."""
        import torch

        if not requests:
            return []
        tree = build_tree(requests)
        plan = plan_of(tree, strategy.shape, self._shared_with_last(tree))
        self.tokens.plain += sum(len(request.ids) - 1 for request in requests)
        if self.verdict is not None and (self.verdict.failures or self.verdict.reach):
            packed_plan = plan if strategy.shape.trees else plan_of(tree, RowShape.on(self.device.type))
            self.tokens.packed += packed_plan.read
        with torch.inference_mode():
            forward_pass = ForwardPass(self, tree, strategy, share / max(1, plan.read))
            forward_pass.follow(plan, [], 0)
            logprobs, greedy = forward_pass.results()
        return [(float(logprobs[answer].sum()), bool(greedy[answer].all())) for answer in tree.answers]

    def _shared_with_last(self, tree: PrefixTree) -> int:
        """Return the number of first tokens that these requests share with the last ones, or 0 if it is too small.

        These tokens are solved examples or a system prompt.
        """
        beginning = tree.tokens[: tree.shared_prefix]
        length = shared_length(self._last, beginning)
        self._last = beginning
        return length if length >= MIN_SHARED_TOKENS else 0

    def recall(self, tokens: Ints, max_tokens: int) -> KeyValues:
        """Return the kept keys and values of a text's beginning, for at most `max_tokens` tokens."""
        prefix, key_values = self._shared_prefix
        length = min(shared_length(prefix, tokens), max_tokens)
        return [(keys[..., :length, :], values[..., :length, :]) for keys, values in key_values] if length else []

    def keep(self, tokens: Ints, key_values: KeyValues) -> None:
        """Keep the shared prefix, because the next requests may begin with the same solved examples."""
        self._shared_prefix = (tokens, key_values)

    def states(self, inputs: JSON, lines: Ints, columns: Ints) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return the states at (lines[i], columns[i]) of a batch, and a function from states to vocabulary scores."""
        if self.body is None:
            return self.model(**inputs).logits[lines, columns], lambda logits: logits
        with only_at(self.last, lines, columns) if self.last is not None and len(lines) else nullcontext():
            output = self.body(**inputs)
        return output.last_hidden_state[lines, columns], partial(head, self.model, self.body, output)

    def forget(self) -> None:
        """Reset the counts, and forget the kept prefix."""
        self.tokens, self._shared_prefix, self._last = TokenCount(), (NO_TOKENS, []), NO_TOKENS

    def describe(self) -> JSON:
        """Return the strategy, and the number of tokens that it saves."""
        description: JSON = {
            "scoring": self.strategy.name,
            "head": "everywhere" if self.body is None else "where predicted",
        }
        if self.verdict is not None:
            description |= self.verdict.describe()
        if self.tokens.read:
            description["tokens"] = self.tokens.describe()
        if self.tokens.read > self.tokens.packed > 0:
            description["times_packed"] = round(self.tokens.read / self.tokens.packed, 1)
        return description


class ForwardPass:
    """One pass of a tree through the model."""

    def __init__(self, engine: PackedEngine, tree: PrefixTree, strategy: ReadStrategy, per_token: float) -> None:
        import torch

        self.engine = engine
        self.tree = tree
        self.strategy = strategy
        self.per_token = per_token  # share of the model's call that a token is
        self.logprobs = torch.full((len(tree.predictions),), torch.nan, device=engine.device)
        self.greedy = torch.zeros(len(tree.predictions), dtype=torch.bool, device=engine.device)
        self.predicts = np.zeros(len(tree.tokens), dtype=np.bool_)
        self.predicts[tree.predictions[:, 0]] = True

    def results(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return log P of each prediction and whether it is the likeliest token, as numpy arrays."""
        return self.logprobs.double().cpu().numpy(), self.greedy.cpu().numpy()

    def follow(self, prefix: Prefix, past: KeyValues, length: int) -> None:
        """Read a prefix, then its rows in batches, then the prefixes that continue it."""
        if len(prefix.nodes):
            past = self._extend(prefix, past, at_root=length == 0)
            length += len(prefix.nodes)
        read_rows = partial(self._read_rows, prefix.rows, past, length)
        run_batches([len(row) for row in prefix.rows], read_rows, self.engine.budget, report=None)
        for child in prefix.prefixes:
            self.follow(child, past, length)

    def _extend(self, prefix: Prefix, past: KeyValues, *, at_root: bool) -> KeyValues:
        """Return keys and values of everything up to the end of a prefix."""
        if not at_root:
            return self._read_prefix(prefix, past, 0)
        tokens = self.tree.tokens[prefix.nodes]
        predicting = np.flatnonzero(prefix.fresh & self.predicts[prefix.nodes])
        past = self.engine.recall(tokens, int(predicting[0]) if len(predicting) else len(tokens))
        past = self._read_prefix(prefix, past, past[0][0].shape[-2] if past else 0)
        self.engine.keep(tokens, past)
        return past

    def _read_prefix(self, prefix: Prefix, past: KeyValues, start: int) -> KeyValues:
        """Read a prefix from its token `start` on; earlier tokens are in `past`."""
        nodes = prefix.nodes[start:]
        if not len(nodes):
            return past
        cache = growing_cache(past)
        row = PackedRow(nodes, np.full(len(nodes), len(nodes)), prefix.fresh[start:])
        self._read([row], past[0][0].shape[-2] if past else 0, cache)
        return [(layer.keys, layer.values) for layer in cache.layers]

    def _read_rows(self, rows: list[PackedRow], past: KeyValues, length: int, indices: list[int]) -> list[None]:
        self._read([rows[index] for index in indices], length, fixed_cache(past) if past else None)
        return [None] * len(indices)

    def _read(self, rows: Sequence[PackedRow], past_tokens: int, cache: Cache | None) -> None:
        """Run rows through the body, and the states that predict something through the head, a part at a time."""
        engine = self.engine
        engine.tokens.read += sum(map(len, rows))
        view = View.of(self.tree, rows, past_tokens, engine.device)
        cache_arguments = {} if cache is None else {cache_argument(engine.model): cache}  # state-space models have none
        inputs = {**self.strategy.inputs(view, engine.dtype), **cache_arguments, "use_cache": cache is not None}
        nodes, lines, columns = self._predicting_nodes(rows)
        self._write_scores(nodes, *engine.states(inputs, lines, columns))
        report_share(self.per_token * sum(map(len, rows)))

    def _predicting_nodes(self, rows: Sequence[PackedRow]) -> tuple[Ints, Ints, Ints]:
        """Return the nodes that predict something, with their lines and columns."""
        columns_by_row = [np.flatnonzero(row.fresh & self.predicts[row.nodes]) for row in rows]
        nodes = np.concatenate([row.nodes[columns] for row, columns in zip(rows, columns_by_row, strict=True)])
        return (
            nodes,
            np.repeat(np.arange(len(rows)), [len(columns) for columns in columns_by_row]),
            np.concatenate(columns_by_row),
        )

    def _write_scores(self, nodes: Ints, states: Tensor, to_logits: Callable[[Tensor], Tensor]) -> None:
        """Store log P of everything that the nodes predict, from `states` (nodes, d) in parts that fit into memory."""
        import torch

        if not len(nodes):
            return
        parts = -(-len(nodes) // logits_at_once(self.engine.model, self.engine.device))
        for part in np.array_split(np.arange(len(nodes)), parts):
            logits = to_logits(states[part[0] : part[-1] + 1]).float()
            lines, predictions = self.tree.predictions_of(nodes[part])
            arrays = (lines, self.tree.predictions[predictions, 1], predictions)
            line, word, prediction = (torch.from_numpy(array).to(logits.device) for array in arrays)
            rows = BLOCK_ROWS if logits.device.type == "cpu" else len(logits)  # blocks that fit into a CPU's caches
            normalizers = torch.cat([block.logsumexp(-1) for block in logits.split(rows)])  # (nodes of the part,)
            self.logprobs[prediction] = (logits[line, word] - normalizers[line]).to(self.logprobs)
            self.greedy[prediction] = (logits.argmax(-1)[line] == word).to(self.greedy.device)


def logits_at_once(model: PreTrainedModel, device: torch.device) -> int:
    """Return the number of tokens for which the vocabulary may be scored at a time."""
    return max(1, LOGIT_BYTES.get(device.type, ACCELERATOR_LOGIT_BYTES) // (4 * vocabulary(model)))
