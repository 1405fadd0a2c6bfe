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

from figeval.models.progress import advance
from figeval.types import JSON

from ...torch_models.batching import TokenBudget, run_batches
from .bodies import Kept, cache_argument, fixed, growing, head, only_at, vocabulary
from .prefix_tree import NONE, Ints, PrefixTree, TokenRequest, build, common
from .reading_plan import PackedRow, Prefix, Shape, plan_of
from .views import ReadStrategy, View

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor
    from torch.nn import Module
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache

    from .verdicts import Verdict

Answer: TypeAlias = tuple[float, bool]  # Σ log P(token), and whether each token was the likeliest

PLAIN = ReadStrategy("plain rows", Shape(trees=False, prefixes=False))
SHORTEST_SHARED = 32  # least number of tokens that two calls must share for their keys and values to be kept
LOGITS = {"cpu": 96 << 20}  # bytes for the scores of the vocabulary at a time
BLOCK = 16  # states whose scores fit into a CPU's caches
LOGITS_ON_ACCELERATOR = 1 << 30


@dataclass(slots=True)
class TokenCount:
    """Number of tokens read by the model, and those that one row per request or packed trees would have taken.

    Packed trees are counted only if some texts, or all, could not be read in them.
    """

    read: int = 0
    plain: int = 0
    packed: int = 0

    def describe(self) -> JSON:
        """Return the counts for the record."""
        return {"read": self.read, "one_row_per_continuation": self.plain}


@dataclass(slots=True)
class Engine:
    """An engine that scores continuations with a causal transformers model.

    It reads plain rows until `self_test.settle` has found a better strategy.
    """

    model: PreTrainedModel
    device: torch.device
    budget: TokenBudget
    strategy: ReadStrategy = PLAIN
    verdict: Verdict | None = None  # that of the self-test
    precision: torch.dtype | None = None  # that of the passes, if it is not that of the weights
    body: Module | None = None  # the module before the head; None if the head cannot be run separately
    last: Module | None = None  # the feed-forward part of its last layer; None if it cannot be run on chosen states
    tokens: TokenCount = field(default_factory=TokenCount)
    _shared_prefix: tuple[Ints, Kept] = (NONE, [])
    _last: Ints = field(default_factory=lambda: NONE)  # the common beginning of the last requests

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the passes."""
        return self.precision or next(self.model.parameters()).dtype

    def score(self, requests: Sequence[TokenRequest]) -> list[Answer]:
        """Return Σ log P(token) of each continuation, in nats, and whether it is the greedy one."""
        reach = self.strategy.reach
        far = [index for index, request in enumerate(requests) if reach is not None and len(request.ids) > reach]
        if not far:
            return self.score_by(self.strategy, requests)
        apart = set(far)  # longer than the sample of the self-test: beyond a sliding window
        near = [index for index in range(len(requests)) if index not in apart]
        answers: dict[int, Answer] = {}
        for rows, strategy in ((near, self.strategy), (far, PLAIN)):
            found = self.score_by(strategy, [requests[row] for row in rows], len(rows) / len(requests))
            answers |= dict(zip(rows, found, strict=True))
        return [answers[index] for index in range(len(requests))]

    def score_by(self, strategy: ReadStrategy, requests: Sequence[TokenRequest], share: float = 1.0) -> list[Answer]:
        """Score requests, which are a share of the model's call, with a given strategy; returns as `score` does."""
        import torch

        if not requests:
            return []
        tree = build(requests)
        plan = plan_of(tree, strategy.shape, self._shared_with_last(tree))
        self.tokens.plain += sum(len(request.ids) - 1 for request in requests)
        if self.verdict is not None and (self.verdict.failures or self.verdict.reach):
            packed = plan if strategy.shape.trees else plan_of(tree, Shape.on(self.device.type))
            self.tokens.packed += packed.read
        with torch.inference_mode():
            reading = ForwardPass(self, tree, strategy, share / max(1, plan.read))
            reading.follow(plan, [], 0)
            logprobs, greedy = reading.results()
        return [(float(logprobs[answer].sum()), bool(greedy[answer].all())) for answer in tree.answers]

    def _shared_with_last(self, tree: PrefixTree) -> int:
        """Return the number of first tokens that these requests share with the last ones, or 0 if it is too small.

        These tokens are solved examples or a system prompt.
        """
        beginning = tree.tokens[: tree.shared_prefix]
        shared = common(self._last, beginning)
        self._last = beginning
        return shared if shared >= SHORTEST_SHARED else 0

    def recall(self, tokens: Ints, most: int) -> Kept:
        """Return the kept keys and values of a text's beginning, for at most `most` tokens."""
        known, kept = self._shared_prefix
        length = min(common(known, tokens), most)
        return [(keys[..., :length, :], values[..., :length, :]) for keys, values in kept] if length else []

    def keep(self, tokens: Ints, kept: Kept) -> None:
        """Keep the shared prefix, because the next requests may begin with the same solved examples."""
        self._shared_prefix = (tokens, kept)

    def states(self, inputs: JSON, lines: Ints, columns: Ints) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return the states at (lines[i], columns[i]) of a batch, and a function from states to vocabulary scores."""
        if self.body is None:
            return self.model(**inputs).logits[lines, columns], lambda logits: logits
        with only_at(self.last, lines, columns) if self.last is not None and len(lines) else nullcontext():
            output = self.body(**inputs)
        return output.last_hidden_state[lines, columns], partial(head, self.model, self.body, output)

    def forget(self) -> None:
        """Reset the counts, and forget the kept prefix."""
        self.tokens, self._shared_prefix, self._last = TokenCount(), (NONE, []), NONE

    def describe(self) -> JSON:
        """Return the strategy, and the number of tokens that it saves."""
        said: JSON = {"scoring": self.strategy.name, "head": "everywhere" if self.body is None else "where predicted"}
        if self.verdict is not None:
            said |= self.verdict.describe()
        if self.tokens.read:
            said["tokens"] = self.tokens.describe()
        if self.tokens.read > self.tokens.packed > 0:
            said["times_packed"] = round(self.tokens.read / self.tokens.packed, 1)
        return said


class ForwardPass:
    """One pass of a tree through the model."""

    def __init__(self, engine: Engine, tree: PrefixTree, strategy: ReadStrategy, per_token: float) -> None:
        import torch

        self.engine = engine
        self.tree = tree
        self.strategy = strategy
        self.per_token = per_token  # share of the model's call that a token is
        self.logprobs = torch.full((len(tree.asked),), torch.nan, device=engine.device)
        self.greedy = torch.zeros(len(tree.asked), dtype=torch.bool, device=engine.device)
        self.predicts = np.zeros(len(tree.tokens), dtype=np.bool_)
        self.predicts[tree.asked[:, 0]] = True

    def results(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return log P of each prediction and whether it is the likeliest token, as numpy arrays."""
        return self.logprobs.double().cpu().numpy(), self.greedy.cpu().numpy()

    def follow(self, prefix: Prefix, past: Kept, length: int) -> None:
        """Read a prefix, then its rows in batches, then the prefixes that continue it."""
        if len(prefix.nodes):
            past = self._extend(prefix, past, at_root=length == 0)
            length += len(prefix.nodes)
        run = partial(self._read_rows, prefix.rows, past, length)
        run_batches([len(row) for row in prefix.rows], run, self.engine.budget, report=None)
        for further in prefix.prefixes:
            self.follow(further, past, length)

    def _extend(self, prefix: Prefix, past: Kept, *, at_root: bool) -> Kept:
        """Return keys and values of everything up to the end of a prefix."""
        if not at_root:
            return self._read_prefix(prefix, past, 0)
        tokens = self.tree.tokens[prefix.nodes]
        asked = np.flatnonzero(prefix.fresh & self.predicts[prefix.nodes])
        past = self.engine.recall(tokens, int(asked[0]) if len(asked) else len(tokens))
        past = self._read_prefix(prefix, past, past[0][0].shape[-2] if past else 0)
        self.engine.keep(tokens, past)
        return past

    def _read_prefix(self, prefix: Prefix, past: Kept, known: int) -> Kept:
        """Read a prefix from its token `known` on; earlier tokens are in `past`."""
        nodes = prefix.nodes[known:]
        if not len(nodes):
            return past
        cache = growing(past)
        row = PackedRow(nodes, np.full(len(nodes), len(nodes)), prefix.fresh[known:])
        self._read([row], past[0][0].shape[-2] if past else 0, cache)
        return [(layer.keys, layer.values) for layer in cache.layers]

    def _read_rows(self, rows: list[PackedRow], past: Kept, length: int, chosen: list[int]) -> list[None]:
        self._read([rows[index] for index in chosen], length, fixed(past) if past else None)
        return [None] * len(chosen)

    def _read(self, rows: Sequence[PackedRow], before: int, cache: Cache | None) -> None:
        """Run rows through the body, and the states that predict something through the head, a part at a time."""
        engine = self.engine
        engine.tokens.read += sum(map(len, rows))
        view = View.of(self.tree, rows, before, engine.device)
        kept = {} if cache is None else {cache_argument(engine.model): cache}  # state-space models have none
        inputs = {**self.strategy.inputs(view, engine.dtype), **kept, "use_cache": cache is not None}
        nodes, lines, columns = self._asked_of(rows)
        self._write_scores(nodes, *engine.states(inputs, lines, columns))
        advance(self.per_token * sum(map(len, rows)))

    def _asked_of(self, rows: Sequence[PackedRow]) -> tuple[Ints, Ints, Ints]:
        """Return the nodes that predict something, with their lines and columns."""
        chosen = [np.flatnonzero(row.fresh & self.predicts[row.nodes]) for row in rows]
        nodes = np.concatenate([row.nodes[columns] for row, columns in zip(rows, chosen, strict=True)])
        return nodes, np.repeat(np.arange(len(rows)), [len(columns) for columns in chosen]), np.concatenate(chosen)

    def _write_scores(self, nodes: Ints, states: Tensor, to_logits: Callable[[Tensor], Tensor]) -> None:
        """Store log P of everything that the nodes predict, from `states` (nodes, d) in parts that fit into memory."""
        import torch

        if not len(nodes):
            return
        parts = -(-len(nodes) // logits_at_once(self.engine.model, self.engine.device))
        for part in np.array_split(np.arange(len(nodes)), parts):
            logits = to_logits(states[part[0] : part[-1] + 1]).float()
            lines, predictions = self.tree.predictions_of(nodes[part])
            found = (lines, self.tree.asked[predictions, 1], predictions)
            line, word, place = (torch.from_numpy(each).to(logits.device) for each in found)
            rows = BLOCK if logits.device.type == "cpu" else len(logits)  # blocks that fit into a CPU's caches
            normalizers = torch.cat([block.logsumexp(-1) for block in logits.split(rows)])  # (nodes of the part,)
            self.logprobs[place] = (logits[line, word] - normalizers[line]).to(self.logprobs)
            self.greedy[place] = (logits.argmax(-1)[line] == word).to(self.greedy.device)


def logits_at_once(model: PreTrainedModel, device: torch.device) -> int:
    """Return the number of tokens for which the vocabulary may be scored at a time."""
    return max(1, LOGITS.get(device.type, LOGITS_ON_ACCELERATOR) // (4 * vocabulary(model)))
