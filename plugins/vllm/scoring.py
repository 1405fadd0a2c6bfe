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

    from .engine import VllmEngine

ScoreStream: TypeAlias = (
    "Generator[list[tuple[int, float]], None, None]"  # (index of a request, Σ log P), as they finish
)
MAX_WORDS = 128  # the most `logprob_token_ids` of a request
SAMPLE_REQUESTS = 16  # requests on which the ways are tried


def one_token(**options: Any) -> SamplingParams:
    """Return parameters for a request whose own answer is of no interest."""
    from vllm import SamplingParams

    return SamplingParams(max_tokens=1, temperature=0.0, detokenize=False, **options)


def adjacent(requests: Sequence[TokenRequest]) -> list[int]:
    """Return the indexes of requests, those with the same context side by side, so that it is in the cache.

    Contexts keep their order: examples are then complete, and stored, one after another.
    """
    first: dict[tuple[int, ...], int] = {}
    keys = [
        (first.setdefault(request.ids[: -request.predicted], index), request.ids)
        for index, request in enumerate(requests)
    ]
    return sorted(range(len(requests)), key=keys.__getitem__)


def read_rows(engine: VllmEngine, requests: Sequence[TokenRequest]) -> ScoreStream:
    """Read every text as a whole."""
    for scores, _ in _texts(engine, requests, read_cache=False):
        yield scores


def read_cached(engine: VllmEngine, requests: Sequence[TokenRequest]) -> ScoreStream:
    """Read of every text what is not in the prefix cache; if that covers tokens of an option, read the whole text.

    vLLM computes the log-probabilities of tokens that it reads. What the cache covers has none.
    """
    missed: list[int] = []
    for scores, covered in _texts(engine, requests, read_cache=True):
        missed += covered
        if scores:
            yield scores
    if missed:
        for scores in read_rows(engine, [requests[index] for index in missed]):
            yield [(missed[index], value) for index, value in scores]


def _texts(
    engine: VllmEngine, requests: Sequence[TokenRequest], *, read_cache: bool
) -> Generator[tuple[list[tuple[int, float]], list[int]], None, None]:
    """Yield, step by step, values of finished requests, and the indexes of those whose options the cache covers."""
    order = adjacent(requests)
    options = {"prompt_logprobs": 0, "skip_reading_prefix_cache": not read_cache}
    for outputs in engine.stream_outputs([(requests[index].ids, one_token(**options)) for index in order]):
        scores, covered = [], []
        for position, output in outputs:
            request = requests[order[position]]
            if (output.num_cached_tokens or 0) >= len(request.ids) - request.predicted:
                covered.append(order[position])
            else:
                scores.append((order[position], score_continuation(output, request)))
        yield scores, covered


def score_continuation(output: RequestOutput, request: TokenRequest) -> float:
    """Return Σ log P of a request's continuation, the end of the prompt."""
    words = request.ids[-request.predicted :]
    return math.fsum(
        logprobs[word].logprob for logprobs, word in zip(output.prompt_logprobs[-len(words) :], words, strict=True)
    )


def read_tree(engine: VllmEngine, requests: Sequence[TokenRequest]) -> ScoreStream:
    """Ask at every inner node of the prefix tree for the words that follow it; nodes with many are asked repeatedly."""
    prefixes = build_tree(requests)
    values = np.full(len(prefixes.predictions), np.nan)
    engine_requests, words = [], []
    for path, first, last in nodes(prefixes):
        for begin in range(first, last, MAX_WORDS):
            span = slice(begin, min(last, begin + MAX_WORDS))
            ids = prefixes.predictions[span, 1].tolist()
            words.append((span, ids))
            engine_requests.append((path, one_token(logprob_token_ids=ids)))
    waiting = {index: len(span) for index, span in enumerate(prefixes.answers)}
    owners = owners_of(prefixes)
    for outputs in engine.stream_outputs(engine_requests):
        complete = []
        for position, output in outputs:
            span, ids = words[position]
            logprobs = output.outputs[0].logprobs[0]
            values[span] = [logprobs[word].logprob for word in ids]
            for index in (owner for prediction in range(span.start, span.stop) for owner in owners[prediction]):
                waiting[index] -= 1
                if not waiting[index]:
                    complete.append(index)
        if complete:
            yield [(index, math.fsum(values[prefixes.answers[index]])) for index in complete]


def nodes(prefixes: PrefixTree) -> Generator[tuple[list[int], int, int], None, None]:
    """Yield the tokens up to every node that predicts something, and the range of its `predictions`."""
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
    for index, predictions in enumerate(prefixes.answers):
        for prediction in predictions.tolist():
            owners[prediction].append(index)
    return owners


WAYS: Mapping[str, Callable[[VllmEngine, Sequence[TokenRequest]], ScoreStream]] = {
    "rows": read_rows,
    "cached": read_cached,
    "tree": read_tree,
}


@dataclass(frozen=True, slots=True)
class WayTrial:
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
        scoring: the way to use, or "auto".
        trials: what was measured, by options per context (the power of two).
    """

    engine: VllmEngine
    single: bool
    scoring: str = "auto"
    trials: dict[int, WayTrial] = field(default_factory=dict)

    def score(self, requests: Sequence[TokenRequest]) -> ScoreStream:
        """Yield the log-likelihoods of requests as they finish."""
        way = self.scoring
        if way == "auto":
            shape = (len(requests) // len({request.ids[: -request.predicted] for request in requests})).bit_length()
            if shape not in self.trials:
                self.trials[shape] = self.measure_ways(
                    [requests[index] for index in adjacent(requests)[:SAMPLE_REQUESTS]]
                )
            way = self.trials[shape].way
        return WAYS[way](self.engine, requests)

    def measure_ways(self, sample: Sequence[TokenRequest]) -> WayTrial:
        self.values("rows", sample[:1])  # the first request of a process is slow
        plain, seconds, gaps = np.full(len(sample), np.nan), dict[str, float](), dict[str, float | None]()
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
            gaps[way] = None if math.isnan(gap) else gap
        max_gap = TOLERANCE if self.single else self.rounding(sample, plain)
        self.engine.forget()
        right = ["rows", *(way for way, gap in gaps.items() if gap is not None and gap <= max_gap)]
        return WayTrial(min(right, key=seconds.__getitem__), seconds, gaps)

    def rounding(self, sample: Sequence[TokenRequest], plain: NDArray[np.float64]) -> float:
        """Return the largest difference from `rows` in half precision that is rounding, in nats.

        There, rows differ from themselves from batch to batch. Where that is as much as the difference of one request
        from the next, which shows a mistake, no way but rows counts as right.
        """
        parts = [sample[start::2] for start in range(2)]
        repeated = np.full(len(sample), np.nan)
        for start, part in enumerate(parts):
            self.engine.forget()
            repeated[start::2] = self.values("rows", part)
        predicted = max(request.predicted for request in sample)
        max_gap = max(HALF_TOLERANCE * predicted, MAX_ERROR_RATIO * float(np.max(np.abs(repeated - plain))))
        return max_gap if max_gap < float(np.max(np.abs(np.roll(plain, 1) - plain))) else 0.0

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
        if self.scoring != "auto":
            return {"scoring": self.scoring}
        return {
            "scoring": [{"options": 2 ** (shape - 1), **asdict(trial)} for shape, trial in sorted(self.trials.items())]
        }
