"""The self-test, which finds the best strategy for a model before the first request.

Nothing is assumed about an architecture. Two questions are asked of each strategy, and it is used if both answers are
good; a model that supports none is read in plain rows, and the record says why.

* Does this architecture read trees as it reads rows? That is a matter of masks, positions and caches, and is asked in
  single precision, exactly: of a small copy of the model, or of the model itself.
* Does it still hold on this device, in this precision, with these kernels? That is judged by the truth (`judgement`).

A check that cannot fail shows nothing, so each question is also asked of the strategy with a planted fault.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from figeval.errors import ModelError
from figeval.models.devices import is_exhausted

from ...torch_models.batching import TokenBudget, free_memory
from ...torch_models.faults import one_line
from ...torch_models.loading import positions
from ...torch_models.precision import computing_in, exact_products, is_single, truth_of
from .bodies import REFUSALS, bytes_per_token, fuse_activations
from .judgement import Evidence, Floats, ScoreTrial
from .packed import PLAIN_ROWS, Answer, PackedEngine
from .prefix_tree import TokenRequest
from .reading_plan import RowShape
from .separable import separable_parts
from .small_copy import PRECISE, small_copy
from .verdicts import SelfTestVerdict, recall_verdict, remember_verdict, verdict_file
from .views import MAX_TESTED_TOKENS, ReadStrategy, strategies_for, windows

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel

TOLERANCE = 1e-4  # nats per request, in single precision
ROUNDING_FACTOR = 10.0  # the same as a multiple of what plain rows are rounded by, where that is more
MIN_FAULT_NATS = 1e-2  # nats that a planted fault must change, or else the test could not have failed
HALF_TOLERANCE = 0.05  # nats per token between ways in half precision, where the truth cannot be computed
CONTEXT_TOKENS = 24
MAX_CONTEXTS = 3
MAX_TRIAL_CONTEXTS = 6  # texts differ in their rounding, so more of them are needed to measure it
TRIAL_WORDS = 16  # next tokens that are scored after each text: many numbers tell a small fault from rounding
MAX_PARTS = 3  # batches into which plain rows are divided to see how they differ from themselves
# Most tokens per batch: on a CPU, the activations of a larger one leave the caches, which costs up to a fifth.
MAX_BATCH_TOKENS = {"cpu": 512}


def settle(engine: PackedEngine, scoring: str = "auto") -> PackedEngine:
    """Set the engine to the best strategy that its model supports, within free memory.

    Args:
        engine: an engine that has not scored anything.
        scoring: "auto" tests all strategies; "packed" takes packed trees if the architecture supports them, whatever
            the rounding; "rows" takes plain rows.

    Raises:
        ModelError: "packed", and the architecture reads trees differently from rows.
    """
    engine.budget.limit(free_memory(str(engine.device)), bytes_per_token(engine.model))
    engine.budget.tokens = min(engine.budget.tokens, MAX_BATCH_TOKENS.get(engine.device.type, engine.budget.tokens))
    fuse_activations(engine.model)
    engine.body, engine.last = separable_parts(engine.model, engine.device)
    if scoring != "rows":
        strategies = list(strategies_for(engine.model.config, RowShape.on(engine.device.type)))
        file = verdict_file(engine.model, scoring)
        engine.verdict = recall_verdict(file)
        if engine.verdict is None or not engine.verdict.names_one_of([*strategies, PLAIN_ROWS]):
            test = SelfTest(engine)
            engine.verdict = verdict_of(test, strategies, scoring)
            if not test.ran_out_of_memory:  # which says nothing about the model
                remember_verdict(file, engine.verdict)
        engine.strategy = engine.verdict.find_strategy(strategies, PLAIN_ROWS)
    engine.forget()
    return engine


def verdict_of(test: SelfTest, strategies: Sequence[ReadStrategy], scoring: str) -> SelfTestVerdict:
    """Return the first strategy that passes, with what is known of those that were tried."""
    cure, model = "", test.engine.model
    failures: dict[str, str] = {}
    evidence: dict[str, dict[str, float]] = {}
    for strategy in strategies:
        if scoring == "packed" and not strategy.shape.trees:
            continue
        result = test.examine(strategy, whatever_rounding=scoring == "packed")
        if result.evidence is not None:
            evidence[strategy.name] = result.evidence.describe()
        if not result.failure:
            name, reach = strategy.name, result.reach
            return SelfTestVerdict(strategy=name, reach=reach, failures=failures, evidence=evidence, cure=cure)
        failures[strategy.name] = result.failure
        cure = cure or cure_of(model, result)
    if scoring == "packed":
        name, reason = type(model).__name__, next(iter(failures.values()), "it has no masks for them")
        raise ModelError(f"scoring=packed: {name} cannot read packed trees ({reason}); leave out scoring, or use rows")
    return SelfTestVerdict(strategy=PLAIN_ROWS.name, failures=failures, evidence=evidence, cure=cure)


def cure_of(model: PreTrainedModel, trial: StrategyResult) -> str:
    """Return what makes a strategy pass that did not, if anything does."""
    if model.config._attn_implementation not in PRECISE:
        return "--model_args attn_implementation=sdpa accepts the masks of packed trees"
    if trial.evidence is None or trial.evidence.error is None:
        return "no option changes that"
    if trial.is_sound:
        return "--model_args scoring=packed reads packed trees nevertheless, and dtype=float32 rounds less"
    return "--model_args dtype=float32 rounds less"


@dataclass(frozen=True, slots=True)
class StrategyResult:
    """The result of a test.

    Attributes:
        failure: why a strategy is not used; empty if it is.
        reach: tokens of the longest text that it may read; None if there is no limit.
        evidence: distances, as far as they are known.
        is_sound: whether only rounding speaks against it.
    """

    failure: str
    reach: int | None = None
    evidence: Evidence | None = None
    is_sound: bool = False


@dataclass
class SelfTest:
    """The tests of the strategies of one engine, which share the scores of plain rows."""

    engine: PackedEngine
    ran_out_of_memory: bool = False

    def examine(self, strategy: ReadStrategy, *, whatever_rounding: bool = False) -> StrategyResult:
        """Ask both questions about a strategy; `whatever_rounding` accepts one that is only rounded more than rows."""
        shape = replace(strategy.shape, branches=12, width=24)  # because the samples are small
        small_strategy = replace(strategy, shape=shape)
        results = []
        for reader in self._readers():
            try:
                gaps = reader.gaps(small_strategy)
                limit = TOLERANCE if gaps[0] <= TOLERANCE else reader.tolerance(gaps[1])
            except (*REFUSALS, ModelError) as error:
                results.append(StrategyResult(self._refusal(error)))
                continue
            if gaps[0] <= limit and MIN_FAULT_NATS <= gaps[1] < math.inf:
                return self._judge(strategy, small_strategy, reader, gaps, whatever_rounding=whatever_rounding)
            message = f"differs from rows by {gaps[0]:.2g} nats in single precision"
            failure = "the test could not see a planted fault" if gaps[0] <= limit else message
            results.append(StrategyResult(failure, evidence=Evidence(*gaps)))
        return results[0]

    def _judge(
        self,
        strategy: ReadStrategy,
        small_strategy: ReadStrategy,
        reader: EngineReader,
        gaps: tuple[float, float],
        *,
        whatever_rounding: bool,
    ) -> StrategyResult:
        """Judge a strategy that the architecture supports."""
        reach = strategy.reach if reader.engine is self.engine else None  # a copy has short windows
        if reader.engine is self.engine and reader.dtype is None:
            return StrategyResult("", reach, Evidence(*gaps))
        try:
            if self.is_single and self._largest_gap(small_strategy) <= TOLERANCE:
                return StrategyResult("", reach, Evidence(*gaps))
            trial = self.trial(small_strategy)
        except (*REFUSALS, ModelError) as error:
            return StrategyResult(self._refusal(error), reach, Evidence(*gaps))
        precision = str(self.engine.dtype).removeprefix("torch.")
        failure = "" if whatever_rounding and trial.is_sound else trial.failure(precision)
        return StrategyResult(failure, reach, trial.evidence(*gaps), trial.is_sound)

    def _refusal(self, error: Exception) -> str:
        """Return what an error says of the model, and take note of memory that ran out."""
        self.ran_out_of_memory |= isinstance(error, ModelError) or is_exhausted(error)
        return refusal(error)

    def _readers(self) -> Iterator[EngineReader]:
        """Yield what may answer the first question, best first.

        In single precision that is the model itself, if its windows are short enough for the sample, then a copy of it.
        """
        itself = self._itself if self.is_single else self._precise
        exact = self.is_single and not any(window > CONTEXT_TOKENS for window in windows(self.engine.model.config))
        if exact:
            yield itself
        if self._copy is not None:
            yield self._copy
        if not exact:
            yield itself

    @cached_property
    def is_single(self) -> bool:
        """True if the model computes in single precision or better."""
        return is_single(self.engine.dtype)

    @property
    def _itself(self) -> EngineReader:
        return EngineReader(self.engine, None)

    @property
    def _precise(self) -> EngineReader:
        return EngineReader(self.engine, truth_of(self.engine.dtype))

    @cached_property
    def _copy(self) -> EngineReader | None:
        """A small copy, which computes in single precision."""
        engine = self.engine
        copy = small_copy(engine.model, engine.device)
        if copy is None:
            return None
        copy_engine = PackedEngine(copy, engine.device, TokenBudget.on(engine.device.type))
        copy_engine.body, copy_engine.last = separable_parts(copy, engine.device)
        return EngineReader(copy_engine, None)

    # ---- the second question ----------------------------------------------------------------------------------------

    @cached_property
    def _sample(self) -> list[TokenRequest]:
        model = self.engine.model
        return with_other_words(sample_for(model.config, positions(model), MAX_TRIAL_CONTEXTS, CONTEXT_TOKENS))

    def trial(self, strategy: ReadStrategy) -> ScoreTrial:
        """Return the scores by which a strategy is judged."""
        fault = strategy.with_fault()
        rows, itself = self.rows, self._itself
        way, planted = self._score_sample(itself, strategy), self._score_sample(itself, fault)
        try:
            return ScoreTrial(self.truth, self._score_sample(self._precise, fault), rows, way, planted)
        except (*REFUSALS, ModelError) as error:
            self._refusal(error)
            return ScoreTrial.without_truth(rows, way, planted, HALF_TOLERANCE)

    @cached_property
    def truth(self) -> Floats:
        """Scores of plain rows in a higher precision than the model's."""
        return self._score_sample(self._precise, PLAIN_ROWS)

    @cached_property
    def rows(self) -> list[Floats]:
        """Scores of plain rows in the model's precision: in one batch, and in several."""
        sample = self._sample
        size = -(-len(sample) // MAX_PARTS)
        parts = [sample[start : start + size] for start in range(0, len(sample), size)]
        answers = [answer for part in parts for answer in self._itself.scores(PLAIN_ROWS, part)]
        return [self._score_sample(self._itself, PLAIN_ROWS), log_likelihoods(answers)]

    def _largest_gap(self, strategy: ReadStrategy) -> float:
        """Return the largest difference from plain rows in the model's precision, in nats per token."""
        return float(np.abs(self._score_sample(self._itself, strategy) - self.rows[0]).max())

    def _score_sample(self, reader: EngineReader, strategy: ReadStrategy) -> Floats:
        return log_likelihoods(reader.scores(strategy, self._sample))


@dataclass(frozen=True, slots=True)
class EngineReader:
    """An engine and the precision in which it is to compute, or None for its own."""

    engine: PackedEngine
    dtype: torch.dtype | None

    def gaps(self, strategy: ReadStrategy) -> tuple[float, float]:
        """Return the largest differences from plain rows, in nats: of a strategy, and of it with a planted fault."""
        config = self.engine.model.config
        sample = sample_for(config, positions(self.engine.model))
        strategy = strategy.fit_to(config)
        with exact_products():
            plain, way, planted = (
                self.scores(variant, sample) for variant in (PLAIN_ROWS, strategy, strategy.with_fault())
            )
        return max(gaps(plain, way)), max(gaps(plain, planted))

    def tolerance(self, planted_gap: float) -> float:
        """Return the largest gap that is rounding, in nats: deep models round more than `TOLERANCE`."""
        return min(ROUNDING_FACTOR * self._rounding(), planted_gap * TOLERANCE / MIN_FAULT_NATS)

    def _rounding(self) -> float:
        """Return how far plain rows are from those in double precision, or alone, in nats."""
        import torch

        sample = sample_for(self.engine.model.config, positions(self.engine.model))
        try:
            truth = EngineReader(self.engine, torch.float64).scores(PLAIN_ROWS, sample)
        except REFUSALS:  # of kernels without double precision
            truth = [answer for request in sample for answer in self.scores(PLAIN_ROWS, [request])]
        with exact_products():
            return max(gaps(truth, self.scores(PLAIN_ROWS, sample)))

    def scores(self, strategy: ReadStrategy, sample: Sequence[TokenRequest]) -> list[Answer]:
        engine = self.engine
        engine.forget()  # what was kept has another precision, or was read in another way
        budget = engine.budget
        engine.budget = replace(budget)  # memory that runs out in a higher precision does not limit the model
        try:
            if self.dtype is None:
                return engine.score_by(strategy, sample)
            with computing_in(engine.model, self.dtype):
                engine.precision = self.dtype
                return engine.score_by(strategy, sample)
        finally:
            engine.precision, engine.budget = None, budget
            engine.forget()


def refusal(error: Exception) -> str:
    """Return what a model says of a way in which it cannot be read."""
    name, text = type(error).__name__, one_line(error)[:120]
    return f"the architecture does not support it ({text if text.startswith(name) else f'{name}: {text}'})"


def log_likelihoods(answers: Sequence[Answer]) -> Floats:
    """Drop whether each answer is the greedy one."""
    return np.array([value for value, _ in answers])


def gaps(left: Sequence[Answer], right: Sequence[Answer]) -> list[float]:
    """Return the differences of two sets of log-likelihoods; infinite if one of a pair is NaN."""
    differences = [abs(a - b) for (a, _), (b, _) in zip(left, right, strict=True)]
    return [math.inf if math.isnan(difference) else difference for difference in differences]


def sample_for(
    config: PretrainedConfig, limit: int | None, contexts: int = MAX_CONTEXTS, length: int | None = None
) -> list[TokenRequest]:
    """Return texts that differ where it matters.

    Contexts begin alike, and they have one or several continuations that begin alike. They have `length` tokens; None
    makes them longer than every window that can be tested.
    """
    config = config.get_text_config(decoder=True)
    tested_windows = [window for window in windows(config) if window <= MAX_TESTED_TOKENS]
    longest = length or max([CONTEXT_TOKENS, *(window + 8 for window in tested_windows)])
    context = min(longest, (limit or MAX_TESTED_TOKENS * 2) - 12)
    size = (contexts + 5, context + 12)
    lines = np.random.default_rng(0).integers(5, min(config.vocab_size, 4_096), size).tolist()
    beginning, words = lines[0][: context // 2], lines[contexts + 1 :]
    ends = [line[: context - context // 2] for line in lines[1 : contexts + 1]]
    continuations = [words[0][:1], words[0][:5], words[0][:3] + words[1][:4], words[2][:7], words[3][:2]]
    return [TokenRequest((*beginning, *end, *option), len(option)) for end in ends for option in continuations]


def with_other_words(sample: Sequence[TokenRequest]) -> list[TokenRequest]:
    """Return requests for some words after every token that predicts something in a sample, one token each.

    They read no other texts than the sample does.
    """
    prefixes = {request.ids[:end] for request in sample for end in range(-request.predicted, 0)}
    words = np.random.default_rng(1).permutation(sorted({token for request in sample for token in request.ids}))
    return [TokenRequest((*ids, int(word)), 1) for ids in sorted(prefixes) for word in words[:TRIAL_WORDS]]
