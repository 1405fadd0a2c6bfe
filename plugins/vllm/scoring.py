"""Log-likelihoods of options in vLLM, in several ways that give the same numbers at different costs.

| way | requests | tokens read |
|---|---|---|
| `rows` | one per option, with the log-probabilities of its prompt | all; `prompt_logprobs` ignores the prefix cache |
| `cached` | the same, but with the prefix cache | those that follow the beginning in the cache |
| `tree` | one per inner node of the options' prefix tree, for the words that follow it | those not in the cache |

Which is fastest depends on the device and on the options: `rows` reads a context again for every option, `tree` sends a
request for every token of an option. `Scorer` tries all on the first requests and keeps the fastest that agrees with
`rows`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from figeval.types import JSON

from ..causal.engine.judgement import MAX_ERROR_RATIO
from ..causal.engine.prefix_tree import PrefixTree, TokenRequest, build_tree
from ..causal.engine.self_test import HALF_TOLERANCE, TOLERANCE

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from vllm import RequestOutput, SamplingParams

    from .engine import Engine

Found: TypeAlias = "Generator[list[tuple[int, float]], None, None]"  # (index of a request, Σ log P), as they finish
MOST_WORDS = 128  # the most `logprob_token_ids` of a request
SAMPLE = 16  # requests on which the ways are tried


def one_token(**options: Any) -> SamplingParams:
    """Return parameters for a request whose own answer is of no interest."""
    from vllm import SamplingParams

    return SamplingParams(max_tokens=1, temperature=0.0, detokenize=False, **options)


def adjacent(requests: Sequence[TokenRequest]) -> list[int]:
    """Return the indexes of requests, those with the same context side by side, so that it is in the cache.

    Contexts keep their order: examples are then complete, and stored, one after another.
    """
    first: dict[tuple[int, ...], int] = {}
    keys = [(first.setdefault(one.ids[: -one.predicted], index), one.ids) for index, one in enumerate(requests)]
    return sorted(range(len(requests)), key=keys.__getitem__)


def rows(engine: Engine, requests: Sequence[TokenRequest]) -> Found:
    """Read every text as a whole."""
    for found, _ in _texts(engine, requests, read_cache=False):
        yield found


def cached(engine: Engine, requests: Sequence[TokenRequest]) -> Found:
    """Read of every text what is not in the prefix cache; if that covers tokens of an option, read the whole text.

    vLLM computes the log-probabilities of tokens that it reads. What the cache covers has none.
    """
    missed: list[int] = []
    for found, covered in _texts(engine, requests, read_cache=True):
        missed += covered
        if found:
            yield found
    if missed:
        for found in rows(engine, [requests[index] for index in missed]):
            yield [(missed[place], value) for place, value in found]


def _texts(
    engine: Engine, requests: Sequence[TokenRequest], *, read_cache: bool
) -> Generator[tuple[list[tuple[int, float]], list[int]], None, None]:
    """Yield, step by step, values of finished requests, and the indexes of those whose options the cache covers."""
    order = adjacent(requests)
    how = {"prompt_logprobs": 0, "skip_reading_prefix_cache": not read_cache}
    for outputs in engine.finished([(requests[index].ids, one_token(**how)) for index in order]):
        found, covered = [], []
        for place, output in outputs:
            request = requests[order[place]]
            if (output.num_cached_tokens or 0) >= len(request.ids) - request.predicted:
                covered.append(order[place])
            else:
                found.append((order[place], predicted(output, request)))
        yield found, covered


def predicted(output: RequestOutput, request: TokenRequest) -> float:
    """Return Σ log P of a request's continuation, the end of the prompt."""
    words = request.ids[-request.predicted :]
    return math.fsum(
        known[word].logprob for known, word in zip(output.prompt_logprobs[-len(words) :], words, strict=True)
    )


def tree(engine: Engine, requests: Sequence[TokenRequest]) -> Found:
    """Ask at every inner node of the prefix tree for the words that follow it; nodes with many are asked repeatedly."""
    prefixes = build_tree(requests)
    values = np.full(len(prefixes.predictions), np.nan)
    sent, words = [], []
    for path, first, last in nodes(prefixes):
        for begin in range(first, last, MOST_WORDS):
            places = slice(begin, min(last, begin + MOST_WORDS))
            ids = prefixes.predictions[places, 1].tolist()
            words.append((places, ids))
            sent.append((path, one_token(logprob_token_ids=ids)))
    waiting = {index: len(places) for index, places in enumerate(prefixes.answers)}
    owners = owners_of(prefixes)
    for outputs in engine.finished(sent):
        complete = []
        for place, output in outputs:
            places, ids = words[place]
            known = output.outputs[0].logprobs[0]
            values[places] = [known[word].logprob for word in ids]
            for index in (owner for asked in range(places.start, places.stop) for owner in owners[asked]):
                waiting[index] -= 1
                if not waiting[index]:
                    complete.append(index)
        if complete:
            yield [(index, math.fsum(values[prefixes.answers[index]])) for index in complete]


def nodes(prefixes: PrefixTree) -> Generator[tuple[list[int], int, int], None, None]:
    """Yield the tokens up to every node that predicts something, and the range of its predictions in `predictions`."""
    first = np.searchsorted(prefixes.predictions[:, 0], np.arange(len(prefixes.tokens) + 1))
    path: list[int] = []
    for node, (token, depth) in enumerate(zip(prefixes.tokens.tolist(), prefixes.depth.tolist(), strict=True)):
        del path[depth:]
        path.append(token)
        if first[node] < first[node + 1]:
            yield list(path), int(first[node]), int(first[node + 1])


def owners_of(prefixes: PrefixTree) -> list[list[int]]:
    """Return for every prediction the indexes of the requests that need it."""
    owners: list[list[int]] = [[] for _ in prefixes.predictions]
    for index, places in enumerate(prefixes.answers):
        for place in places.tolist():
            owners[place].append(index)
    return owners


WAYS: Mapping[str, Callable[[Engine, Sequence[TokenRequest]], Found]] = {"rows": rows, "cached": cached, "tree": tree}


@dataclass(frozen=True, slots=True)
class Trial:
    """Measurement of the ways on a sample.

    Attributes:
        way: the one to use.
        seconds: duration by way; a way that took longer than an earlier one was stopped.
        apart: largest difference from `rows` in nats, by way; None if a way was stopped.
    """

    way: str
    seconds: Mapping[str, float]
    apart: Mapping[str, float | None]


@dataclass(slots=True)
class Scorer:
    """Computes log-likelihoods in the way that was fastest on a sample.

    The ways are tried on the first requests, and again when a call has more or fewer options per context than any
    before: what is fastest with five options need not be so with 250.

    Attributes:
        engine: loaded engine.
        single: whether it computes in single precision.
        asked: the way to use, or "auto".
        trials: what was measured, by options per context (the power of two).
    """

    engine: Engine
    single: bool
    asked: str = "auto"
    trials: dict[int, Trial] = field(default_factory=dict)

    def score(self, requests: Sequence[TokenRequest]) -> Found:
        """Yield the log-likelihoods of requests as they finish."""
        way = self.asked
        if way == "auto":
            shape = (len(requests) // len({request.ids[: -request.predicted] for request in requests})).bit_length()
            if shape not in self.trials:
                self.trials[shape] = self.tried([requests[index] for index in adjacent(requests)[:SAMPLE]])
            way = self.trials[shape].way
        return WAYS[way](self.engine, requests)

    def tried(self, sample: Sequence[TokenRequest]) -> Trial:
        """Measure every way on a sample."""
        self.values("rows", sample[:1])  # the first request of a process is slow
        plain, seconds, apart = np.full(len(sample), np.nan), dict[str, float](), dict[str, float | None]()
        for way in WAYS:
            self.engine.forget()
            began = time.perf_counter()
            try:
                values = self.values(way, sample, deadline=began + min(seconds.values(), default=math.inf))
            except (KeyError, ValueError, TypeError):  # another release of vLLM may lack a parameter, or answer less
                if way == "rows":
                    raise
                continue
            seconds[way] = time.perf_counter() - began
            plain = values if way == "rows" else plain
            with np.errstate(invalid="ignore"):  # of infinities; like NaN, they show no other way to be right
                gap = float(np.max(np.abs(values - plain)))
            apart[way] = None if math.isnan(gap) else gap
        allowed = TOLERANCE if self.single else self.rounding(sample, plain)
        self.engine.forget()
        right = ["rows", *(way for way, gap in apart.items() if gap is not None and gap <= allowed)]
        return Trial(min(right, key=seconds.__getitem__), seconds, apart)

    def rounding(self, sample: Sequence[TokenRequest], plain: NDArray[np.float64]) -> float:
        """Return the largest difference from `rows` in half precision that is rounding, in nats.

        There, rows differ from themselves from batch to batch. Where that is as much as the difference of one request
        from the next, which shows a mistake, no way but rows counts as right.
        """
        parts = [sample[start::2] for start in range(2)]
        again = np.full(len(sample), np.nan)
        for start, part in enumerate(parts):
            self.engine.forget()
            again[start::2] = self.values("rows", part)
        predicted = max(request.predicted for request in sample)
        allowed = max(HALF_TOLERANCE * predicted, MAX_ERROR_RATIO * float(np.max(np.abs(again - plain))))
        return allowed if allowed < float(np.max(np.abs(np.roll(plain, 1) - plain))) else 0.0

    def values(self, way: str, requests: Sequence[TokenRequest], deadline: float = math.inf) -> NDArray[np.float64]:
        """Return the log-likelihoods of requests in their order; NaN for those not known by the deadline."""
        values = np.full(len(requests), np.nan)
        with closing(WAYS[way](self.engine, requests)) as parts:
            for part in parts:
                values[[index for index, _ in part]] = [value for _, value in part]
                if time.perf_counter() > deadline:
                    break
        return values

    def describe(self) -> JSON:
        """Return the way that was used, and what was measured."""
        if self.asked != "auto":
            return {"scoring": self.asked}
        return {"scoring": [{"options": 2 ** (shape - 1), **asdict(one)} for shape, one in sorted(self.trials.items())]}
