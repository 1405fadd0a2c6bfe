"""The packed log-likelihood engine: forests of requests through a causal model.

Every token is read once, the vocabulary is scored only where a continuation is predicted, what all texts begin with
stays in memory as keys and values. Whether a model honours the masks that this needs is found out by `_trial`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from figeval.types import JSON

from ._batching import Budget, run_batches
from ._bodies import Kept, fixed, growing, head, only_at, vocabulary
from ._encode import Scored
from ._forest import NONE, Forest, Ints, Row, Shape, Stem, common, grow, plan_of
from ._views import View, Way

Answer: TypeAlias = tuple[float, bool]  # Σ log P(token), whether each token was the likeliest

PLAIN = Way("plain rows", Shape(trees=False, stems=False))
TRUNK = 32  # tokens that two calls have to share before they are kept from one to the next
LOGITS = {"cpu": 96 << 20}  # bytes that scores of the vocabulary may take at a time
BLOCK = 16  # states whose scores stay in a CPU's caches
LOGITS_ON_ACCELERATOR = 1 << 30


@dataclass(slots=True)
class Tokens:
    """How many tokens went through the model, and how many one row per request would have been."""

    read: int = 0
    plain: int = 0

    def describe(self) -> JSON:
        """For the record."""
        return {"read": self.read, "one_row_per_continuation": self.plain}


@dataclass(slots=True)
class Engine:
    """Scores continuations with a causal transformers model: in plain rows, until `_trial.settle` has found a better
    way.
    """

    model: Any
    device: Any
    budget: Budget
    way: Way = PLAIN
    reason: str = ""  # why rows are plain
    body: Any = None  # the module before the head; None where the head cannot be run apart from it
    last: Any = None  # the feed-forward part of its last layer; None where it cannot be run on chosen states
    tokens: Tokens = field(default_factory=Tokens)
    _trunk: tuple[Ints, Kept] = (NONE, [])
    _last: Ints = field(default_factory=lambda: NONE)  # what the last requests all began with

    def score(self, requests: Sequence[Scored]) -> list[Answer]:
        """Per request Σ log P(token) over its continuation, natural logarithm, and whether it is the greedy one."""
        reach = self.way.reach
        far = [index for index, request in enumerate(requests) if reach is not None and len(request.ids) > reach]
        if not far:
            return self.score_by(self.way, requests)
        apart = set(far)  # longer than what was tried: beyond a sliding window
        near = [index for index in range(len(requests)) if index not in apart]
        answers: dict[int, Answer] = {}
        for rows, way in ((near, self.way), (far, PLAIN)):
            answers |= dict(zip(rows, self.score_by(way, [requests[row] for row in rows]), strict=True))
        return [answers[index] for index in range(len(requests))]

    def score_by(self, way: Way, requests: Sequence[Scored]) -> list[Answer]:
        """The same along a way that is given."""
        import torch

        if not requests:
            return []
        forest = grow(requests)
        plan = plan_of(forest, way.shape, self._shared_with_last(forest))
        self.tokens.plain += sum(len(request.ids) - 1 for request in requests)
        with torch.inference_mode():
            reading = Reading(self, forest, way)
            reading.follow(plan, [], 0)
            logprobs, greedy = reading.results()
        return [(float(logprobs[answer].sum()), bool(greedy[answer].all())) for answer in forest.answers]

    def _shared_with_last(self, forest: Forest) -> int:
        """With how many tokens both these requests and those before begin: solved examples, a system prompt."""
        beginning = forest.tokens[: forest.trunk]
        shared = common(self._last, beginning)
        self._last = beginning
        return shared if shared >= TRUNK else 0

    def recall(self, tokens: Ints, most: int) -> Kept:
        """Keys and values of a text's beginning, as far as they are still known, of at most so many tokens."""
        known, kept = self._trunk
        length = min(common(known, tokens), most)
        return [(keys[..., :length, :], values[..., :length, :]) for keys, values in kept] if length else []

    def keep(self, tokens: Ints, kept: Kept) -> None:
        """Remember the trunk: the next requests may begin with the same solved examples."""
        self._trunk = (tokens, kept)

    def states(self, inputs: JSON, lines: Ints, columns: Ints) -> tuple[Any, Callable[[Any], Any]]:
        """The states at (lines[i], columns[i]) of a batch, and what makes scores of the vocabulary of some of them."""
        if self.body is None:
            return self.model(**inputs).logits[lines, columns], lambda logits: logits
        with only_at(self.last, lines, columns) if self.last is not None and len(lines) else nullcontext():
            output = self.body(**inputs)
        return output.last_hidden_state[lines, columns], partial(head, self.model, self.body, output)

    def forget(self) -> None:
        """Begin to count anew, with nothing kept."""
        self.tokens, self._trunk, self._last = Tokens(), (NONE, []), NONE

    def describe(self) -> JSON:
        """How it reads, and what that saves."""
        said: JSON = {"scoring": self.way.name, "head": "everywhere" if self.body is None else "where predicted"}
        if self.reason:
            said["fell_back_because"] = self.reason
        if self.tokens.read:
            said["tokens"] = self.tokens.describe()
        return said


class Reading:
    """One forest on its way through the model."""

    def __init__(self, engine: Engine, forest: Forest, way: Way) -> None:
        import torch

        self.engine = engine
        self.forest = forest
        self.way = way
        self.logprobs = torch.full((len(forest.asked),), torch.nan, device=engine.device)
        self.greedy = torch.zeros(len(forest.asked), dtype=torch.bool, device=engine.device)
        self.predicts = np.zeros(len(forest.tokens), dtype=np.bool_)
        self.predicts[forest.asked[:, 0]] = True

    def results(self) -> tuple[Any, Any]:
        """Per prediction log P and whether it is the likeliest token, as numpy arrays."""
        return self.logprobs.double().cpu().numpy(), self.greedy.cpu().numpy()

    def follow(self, stem: Stem, past: Kept, length: int) -> None:
        """Read a stem, then its rows in batches, then the stems that go on from it."""
        if len(stem.nodes):
            past = self._extend(stem, past, at_root=length == 0)
            length += len(stem.nodes)
        run = partial(self._read_rows, stem.rows, past, length)
        run_batches([len(row) for row in stem.rows], run, self.engine.budget)
        for further in stem.stems:
            self.follow(further, past, length)

    def _extend(self, stem: Stem, past: Kept, *, at_root: bool) -> Kept:
        """Keys and values of everything up to the end of a stem."""
        if not at_root:
            return self._read_stem(stem, past, 0)
        tokens = self.forest.tokens[stem.nodes]
        asked = np.flatnonzero(stem.fresh & self.predicts[stem.nodes])
        past = self.engine.recall(tokens, int(asked[0]) if len(asked) else len(tokens))
        past = self._read_stem(stem, past, past[0][0].shape[-2] if past else 0)
        self.engine.keep(tokens, past)
        return past

    def _read_stem(self, stem: Stem, past: Kept, known: int) -> Kept:
        """Read a stem from its token `known` on; the tokens before are in `past`."""
        nodes = stem.nodes[known:]
        if not len(nodes):
            return past
        cache = growing(past)
        row = Row(nodes, np.full(len(nodes), len(nodes)), stem.fresh[known:])
        self._read([row], past[0][0].shape[-2] if past else 0, cache)
        return [(layer.keys, layer.values) for layer in cache.layers]

    def _read_rows(self, rows: list[Row], past: Kept, length: int, chosen: list[int]) -> list[None]:
        self._read([rows[index] for index in chosen], length, fixed(past) if past else None)
        return [None] * len(chosen)

    def _read(self, rows: Sequence[Row], before: int, cache: Any) -> None:
        """Rows through the body, then the states that predict something through the head, a part at a time."""
        engine = self.engine
        engine.tokens.read += sum(map(len, rows))
        view = View.of(self.forest, rows, before, engine.device)
        kept = {} if cache is None else {"past_key_values": cache}  # state-space models know no such argument
        inputs = {**self.way.inputs(view, engine.model), **kept, "use_cache": cache is not None}
        nodes, lines, columns = self._asked_of(rows)
        self._write_scores(nodes, *engine.states(inputs, lines, columns))

    def _asked_of(self, rows: Sequence[Row]) -> tuple[Ints, Ints, Ints]:
        """The nodes that predict something, with the line and column in which they stand."""
        chosen = [np.flatnonzero(row.fresh & self.predicts[row.nodes]) for row in rows]
        nodes = np.concatenate([row.nodes[columns] for row, columns in zip(rows, chosen, strict=True)])
        return nodes, np.repeat(np.arange(len(rows)), [len(columns) for columns in chosen]), np.concatenate(chosen)

    def _write_scores(self, nodes: Ints, states: Any, to_logits: Callable[[Any], Any]) -> None:
        """Write down log P of all that is predicted from the nodes; `states` (nodes, d) in parts that fit."""
        import torch

        if not len(nodes):
            return
        parts = -(-len(nodes) // logits_at_once(self.engine.model, self.engine.device))
        for part in np.array_split(np.arange(len(nodes)), parts):
            logits = to_logits(states[part[0] : part[-1] + 1]).float()
            lines, predictions = self.forest.predictions_of(nodes[part])
            found = (lines, self.forest.asked[predictions, 1], predictions)
            line, word, place = (torch.from_numpy(each).to(logits.device) for each in found)
            self.logprobs[place] = (logits[line, word] - log_normalizers(logits)[line]).to(self.logprobs)
            self.greedy[place] = (logits.argmax(-1)[line] == word).to(self.greedy.device)


def log_normalizers(logits: Any) -> Any:
    """The logarithm of Σ exp over the vocabulary for n states, shape (n,); in blocks that stay in a CPU's caches."""
    import torch

    rows = BLOCK if logits.device.type == "cpu" else len(logits)
    return torch.cat([block.logsumexp(-1) for block in logits.split(rows)])


def logits_at_once(model: Any, device: Any) -> int:
    """For how many tokens the vocabulary may be scored at a time."""
    return max(1, LOGITS.get(device.type, LOGITS_ON_ACCELERATOR) // (4 * vocabulary(model)))
