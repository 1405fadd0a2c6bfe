"""The packed log-likelihood engine: forests of requests through a causal model.

Every token is read once, the vocabulary is scored only where a continuation is predicted, what all texts begin with
stays in memory as keys and values. Whether a model honours the masks that this needs is tried on a small sample
against plain rows before the first request; a model that does not is read in plain rows, and the record says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from figeval.types import JSON

from ._batching import Budget, free_memory, run_batches
from ._bodies import Kept, bytes_per_token, fixed, growing, head, vocabulary
from ._encode import Scored
from ._forest import NONE, Forest, Ints, Planner, Row, Shape, Stem, common, grow
from ._loading import one_line, positions
from ._views import View, Way, sample_for, ways_for

Answer: TypeAlias = tuple[float, bool]  # Σ log P(token), whether each token was the likeliest

PLAIN = Way("plain rows", Shape(trees=False, stems=False))
TRUNK = 32  # tokens that two calls have to share before they are kept from one to the next
TOLERANCE = 1e-4  # nats per request, in single precision
HALF_TOLERANCE = 0.05  # nats per token in half precision; a wrong mask costs tenths or more
LOGITS = {"cpu": 64 << 20}  # bytes that scores of the vocabulary may take at a time
LOGITS_ON_ACCELERATOR = 1 << 30
REFUSALS = (RuntimeError, TypeError, ValueError, KeyError, IndexError, AttributeError, NotImplementedError)


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
    """Scores continuations with a causal transformers model. Call `settle` before the first request."""

    model: Any
    device: Any
    budget: Budget
    way: Way = PLAIN
    reason: str = ""  # why rows are plain
    body: Any = None  # the module before the head; None where the head cannot be run apart from it
    tokens: Tokens = field(default_factory=Tokens)
    _trunk: tuple[Ints, Kept] = (NONE, [])
    _last: Ints = field(default_factory=lambda: NONE)  # what the last requests all began with

    def score(self, requests: Sequence[Scored]) -> list[Answer]:
        """Per request Σ log P(token) over its continuation, natural logarithm, and whether it is the greedy one."""
        reach = self.way.reach
        far = [index for index, request in enumerate(requests) if reach is not None and len(request.ids) > reach]
        if not far:
            return self._score(requests, self.way)
        apart = set(far)  # longer than what was tried: beyond a sliding window
        near = [index for index in range(len(requests)) if index not in apart]
        answers: dict[int, Answer] = {}
        for rows, way in ((near, self.way), (far, PLAIN)):
            answers |= dict(zip(rows, self._score([requests[row] for row in rows], way), strict=True))
        return [answers[index] for index in range(len(requests))]

    def _score(self, requests: Sequence[Scored], way: Way) -> list[Answer]:
        import torch

        if not requests:
            return []
        forest = grow(requests)
        plan = Planner(forest, way.shape).plan(self._shared_with_last(forest))
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

    def settle(self) -> None:
        """Find out, on a sample, how this model can be read: the first way that agrees with plain rows."""
        self.budget.limit(free_memory(str(self.device)), bytes_per_token(self.model))
        self.body = self._separable_body()
        failures = []
        for way in ways_for(self.model.config):
            failure = self._difference(way)
            if not failure:
                self.way = way
                break
            failures.append(f"{way.name}: {failure}")
        if not self.way.shape.trees:
            self.reason = "; ".join(failures)
        self.tokens, self._trunk, self._last = Tokens(), (NONE, []), NONE

    def _difference(self, way: Way) -> str:
        """What is wrong with a way, empty if nothing is."""
        sample = sample_for(self.model.config, positions(self.model))
        tight = replace(way, shape=replace(way.shape, branches=12, width=24))  # the sample is small
        plain = self._score(sample, PLAIN)
        try:
            values = self._score(sample, tight)
        except REFUSALS as error:
            return f"{type(error).__name__}: {one_line(error)[:120]}"
        apart = max(gap / self._tolerance(request) for gap, request in zip(gaps(plain, values), sample, strict=True))
        return "" if apart <= 1 else f"differs by {max(gaps(plain, values)):.2g} nats"

    def _tolerance(self, request: Scored) -> float:
        """By how much a log-likelihood may differ through rounding."""
        return TOLERANCE if self._precision <= TOLERANCE else HALF_TOLERANCE * request.predicted

    def _separable_body(self) -> Any:
        """The module whose states make the head give the same scores, tried on a few tokens; None if none does."""
        import torch

        ids = torch.tensor([[5, 6, 7, 8]], device=self.device)
        with torch.inference_mode():
            whole = self.model(input_ids=ids).logits[0, 1:3].float()
            for body in (self.model.base_model, self.model.get_decoder()):
                try:
                    output = body(input_ids=ids)
                    part = head(self.model, body, output, output.last_hidden_state[0, 1:3]).float()
                except REFUSALS:
                    continue
                if part.shape == whole.shape and torch.allclose(part, whole, rtol=self._precision, atol=1e-4):
                    return body
        return None

    @property
    def _precision(self) -> float:
        """Relative differences that are rounding."""
        import torch

        return 1e-4 if next(self.model.parameters()).dtype in (torch.float32, torch.float64) else 2e-2

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
        inputs = {**self.way.inputs(view, engine.model), "past_key_values": cache, "use_cache": cache is not None}
        if cache is None:
            del inputs["past_key_values"]
        chosen = [np.flatnonzero(row.fresh & self.predicts[row.nodes]) for row in rows]
        nodes = np.concatenate([row.nodes[columns] for row, columns in zip(rows, chosen, strict=True)])
        lines = np.repeat(np.arange(len(rows)), [len(columns) for columns in chosen])
        columns = np.concatenate(chosen)
        if engine.body is None:
            self._write_scores(nodes, engine.model(**inputs).logits[lines, columns], lambda logits: logits)
        else:
            output = engine.body(**inputs)
            to_logits = partial(head, engine.model, engine.body, output)
            self._write_scores(nodes, output.last_hidden_state[lines, columns], to_logits)

    def _write_scores(self, nodes: Ints, states: Any, to_logits: Callable[[Any], Any]) -> None:
        """Write down log P of all that is predicted from the nodes; `states` (nodes, d) in parts that fit."""
        import torch

        size = logits_at_once(self.engine.model, self.engine.device)
        for start in range(0, len(nodes), size):
            logits = to_logits(states[start : start + size]).float()
            lines, predictions = self.forest.predictions_of(nodes[start : start + size])
            found = (lines, self.forest.asked[predictions, 1], predictions)
            line, word, place = (torch.from_numpy(each).to(logits.device) for each in found)
            self.logprobs[place] = (logits[line, word] - logits.logsumexp(-1)[line]).to(self.logprobs)
            self.greedy[place] = (logits.argmax(-1)[line] == word).to(self.greedy.device)


def logits_at_once(model: Any, device: Any) -> int:
    """For how many tokens the vocabulary may be scored at a time."""
    return max(1, LOGITS.get(device.type, LOGITS_ON_ACCELERATOR) // (4 * vocabulary(model)))


def gaps(left: Sequence[Answer], right: Sequence[Answer]) -> list[float]:
    """The differences of two sets of log-likelihoods; infinite where one is NaN."""
    differences = [abs(a - b) for (a, _), (b, _) in zip(left, right, strict=True)]
    return [math.inf if math.isnan(difference) else difference for difference in differences]
