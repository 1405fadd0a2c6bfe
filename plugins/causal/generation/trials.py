"""The trials of writers: whether rows of a batch get the scores that they get alone.

Rows share a beginning or a part of it and have different lengths; those of a decoder join one another and leave. What
they write is dictated, so that scores of several runs can be compared. As in the engine's self-test, the architecture
is asked in single precision, rounding is judged by the distance from it, and a planted fault has to be seen.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np

from figeval.models.devices import is_exhausted

from ...torch_models.batching import TokenBudget
from ...torch_models.faults import one_line
from ...torch_models.loading import positions
from ...torch_models.precision import computing_in, exact_products, is_single, truth_of
from ...torch_models.tokens import pad
from ..engine.bodies import REFUSALS
from ..engine.judgement import Floats, ScoreTrial
from ..engine.self_test import MIN_FAULT_NATS, refusal, sample_for
from ..engine.small_copy import small_copy
from ..engine.verdicts import SelfTestVerdict, recall_verdict, remember_verdict, verdict_file
from .decoder import Decoder, WaitingRow
from .prefixes import Beginning, shared_prompt_length
from .row import End, Row
from .whole_batches import WholeBatches, force_token

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PreTrainedModel
    from transformers.cache_utils import Cache

TOLERANCE = 1e-3  # largest mean difference of log-probabilities over the vocabulary, in single precision
HALF_TOLERANCE = 0.1  # the same in half precision, where the truth cannot be computed
ROOMS = (2, 5, 3, 4, 1)  # tokens that the rows of the sample write
STEPS = 3  # tokens that the rows of whole batches write
NEVER = End(None, frozenset())

W = TypeVar("W", Decoder, WholeBatches)
Tables: TypeAlias = "list[Tensor]"  # log-probabilities of each row's next tokens, (tokens, vocabulary)


def tolerance(writer: Decoder | WholeBatches) -> float:
    """Return the largest difference that is rounding, in the precision in which a writer computes."""
    return TOLERANCE if is_single(precision_of(writer)) else HALF_TOLERANCE


def precision_of(writer: Decoder | WholeBatches) -> torch.dtype:
    return writer.autocast or writer.model.dtype


@dataclass(frozen=True)
class WriterTrial(ABC, Generic[W]):
    """The scores of a writer's rows in a trial, and those of plain passes over the same texts."""

    writer: W
    faulty: ClassVar[Callable[..., Any]]  # the class of a writer with a planted fault

    @abstractmethod
    def tables(self) -> Tables:
        """Return the log-probabilities that the writer computes."""

    def with_fault(self) -> WriterTrial[W]:
        """Return a trial of the writer with a planted fault in the mask of its rows."""
        values = {field.name: getattr(self.writer, field.name) for field in fields(self.writer)}
        return type(self)(self.faulty(**values))

    @abstractmethod
    def of(self, model: PreTrainedModel) -> WriterTrial[W]:
        """Return the trial of the same writer for another model, in the precision of its weights."""

    @property
    @abstractmethod
    def texts(self) -> list[tuple[list[int], int]]:
        """Every row with all of its tokens, and the number of those that it writes."""

    def rows(self, *, together: bool = False) -> Tables:
        """Return the log-probabilities of plain passes: one for each text, or one for all."""
        import torch

        model, texts = self.writer.model, self.texts
        batches = [texts] if together else [[text] for text in texts]
        tables: Tables = []
        with torch.inference_mode(), autocast_of(self.writer):
            for batch in batches:
                ids, mask = pad([ids for ids, _ in batch], 0, model.device)
                mask_argument = {"attention_mask": mask} if together else {}
                logits = model(input_ids=ids, **mask_argument).logits.float().log_softmax(-1)
                tables += [
                    table[len(text) - count - 1 : len(text) - 1]
                    for table, (text, count) in zip(logits, batch, strict=True)
                ]
        return tables

    def gaps(self) -> tuple[float, float]:
        """Return the largest differences from plain passes: of the writer, and of it with a planted fault."""
        expected = self.rows()
        return largest_gap(self.tables(), expected), largest_gap(self.with_fault().tables(), expected)


class ForgetfulDecoder(Decoder):
    """A decoder with a planted fault."""

    def scores(self, ids: Tensor, mask: Tensor, positions: Tensor, cache: Cache) -> Tensor:
        """Return the scores of rows that do not see their last token but one."""
        wrong = mask.clone()
        wrong[:, -2:-1] = 0
        return Decoder.scores(self, ids, wrong, positions, cache)


class DecoderTrial(WriterTrial[Decoder]):
    """Rows that come and go: in a batch of three, some share a beginning, and they end one after the other."""

    faulty = ForgetfulDecoder

    @cached_property
    def sample(self) -> list[WaitingRow]:
        """The rows, which wait with their beginnings."""
        texts = [list(request.ids) for request in sample_for(self.writer.model.config, positions(self.writer.model))]
        length = shared_prompt_length(texts[0], texts[-1])
        half = Beginning(tuple(texts[0][: length // 2]))
        full = Beginning(tuple(texts[0][:length]), half)
        beginnings = (full, full, half, full, None)
        rows = (Row(ids, room, NEVER) for ids, room in zip(texts[::3], ROOMS, strict=True))
        return [WaitingRow(row, beginning) for beginning, row in zip(beginnings, rows, strict=True)]

    @property
    def texts(self) -> list[tuple[list[int], int]]:
        script = script_for(self.writer.model)
        return [([*member.row.prompt, *script[: member.row.room]], member.row.room) for member in self.sample]

    def tables(self) -> Tables:
        import torch

        next_tokens = {
            tuple(ids[:end]): ids[end] for ids, room in self.texts for end in range(len(ids) - room, len(ids))
        }
        table_of: dict[tuple[int, ...], Tensor] = {}

        def dictate(ids: Tensor, scores: Tensor) -> Tensor:
            text = tuple(ids[0].tolist())
            table_of[text] = scores[0].log_softmax(-1)
            return force_token(next_tokens[text], scores)

        writing = TokenBudget(self.writer.writing.tokens, rows=3)
        decoder = replace(
            self.writer, processors=dictate, writing=writing, reading=replace(self.writer.reading), _key_values={}
        )
        rows = [WaitingRow(Row(member.row.prompt, member.row.room, NEVER), member.beginning) for member in self.sample]
        with torch.inference_mode():
            list(decoder.continue_rows(deque(rows)))
        return [
            torch.stack([table_of[tuple(ids[:end])] for end in range(len(ids) - room, len(ids))])
            for ids, room in self.texts
        ]

    def of(self, model: PreTrainedModel) -> DecoderTrial:
        return DecoderTrial(replace(self.writer, model=model, autocast=None, _key_values={}))


class LeakingBatches(WholeBatches):
    """Whole batches with a planted fault: rows see the padding."""

    def _inputs(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        inputs = WholeBatches._inputs(self, rows)
        return {**inputs, "attention_mask": inputs["attention_mask"].new_ones(inputs["attention_mask"].shape)}


class BatchTrial(WriterTrial[WholeBatches]):
    """Rows of different lengths in one batch: some models read the padding, and some mix rows up afterwards."""

    faulty = LeakingBatches

    @cached_property
    def prompts(self) -> list[list[int]]:
        config = self.writer.model.config
        prompts = [list(request.ids) for request in sample_for(config, positions(self.writer.model))][::3]
        return [*prompts, prompts[0][:3], prompts[1]]

    @property
    def texts(self) -> list[tuple[list[int], int]]:
        script = script_for(self.writer.model)[:STEPS]
        return [([*prompt, *script], STEPS) for prompt in self.prompts]

    def tables(self) -> Tables:
        rows = [Row(prompt, STEPS, NEVER) for prompt in self.prompts]
        return list(self.writer.scores(rows, script_for(self.writer.model)[:STEPS]))

    def of(self, model: PreTrainedModel) -> BatchTrial:
        return BatchTrial(replace(self.writer, model=model, padding=0, autocast=None))


# ---- the test ------------------------------------------------------------------------------------------------------


def failure(trial: WriterTrial[W]) -> str:
    """Return what is wrong with the rows of a writer, or "" if they get the scores that they get alone."""
    name = f"{type(trial).__name__} {trial.writer.autocast} {trial.writer.grouped}"
    file = verdict_file(trial.writer.model, name)
    verdict = recall_verdict(file)
    if verdict is None:
        try:
            reason = fresh_failure(trial)
        except (RuntimeError, MemoryError) as error:
            if not is_exhausted(error):
                raise
            return one_line(error)  # which says nothing about the model, and is not kept
        verdict = SelfTestVerdict(strategy=type(trial.writer).__name__, failures={"rows": reason} if reason else {})
        remember_verdict(file, verdict)
    return verdict.failures.get("rows", "")


def fresh_failure(trial: WriterTrial[W]) -> str:
    """Return what is wrong with the rows of a writer as `failure` does, without looking for an earlier verdict."""
    failures = []
    for reader in readers(trial):
        try:
            with reader.precision():
                gap, planted = reader.trial.gaps()
        except REFUSALS as error:
            if is_exhausted(error):
                raise
            failures.append(refusal(error))
            continue
        if gap <= TOLERANCE and planted >= MIN_FAULT_NATS:
            return "" if reader.trial is trial else judge_rounding(trial)
        message = f"differs by {gap:.2g} nats in single precision"
        failures.append(message if gap > TOLERANCE else "the test could not see a planted fault")
    return failures[0]


@dataclass(frozen=True)
class TrialReader:
    """A trial, and the precision to which its model's weights are cast; None if they stay as they are."""

    trial: WriterTrial[Decoder] | WriterTrial[WholeBatches]
    dtype: torch.dtype | None = None

    def precision(self) -> AbstractContextManager[None]:
        return exact_products() if self.dtype is None else computing_in(self.trial.writer.model, self.dtype)


def readers(trial: WriterTrial[W]) -> Iterator[TrialReader]:
    """Yield the trials that answer for an architecture in single precision, best first."""
    single = is_single(precision_of(trial.writer))
    if single:
        yield TrialReader(trial)
    model = trial.writer.model
    copy = small_copy(model, model.device)
    if copy is not None:
        yield TrialReader(trial.of(copy))
    if not single:
        yield TrialReader(trial.of(model), truth_of(model.dtype))


def judge_rounding(trial: WriterTrial[W]) -> str:
    """Return why rounding does not explain the scores of a writer whose architecture is right, or "" if it does."""
    model = trial.writer.model
    precision = str(precision_of(trial.writer)).removeprefix("torch.")
    try:
        rows = [array(trial.rows()), array(trial.rows(together=True))]
        way, planted = array(trial.tables()), array(trial.with_fault().tables())
    except REFUSALS as error:
        if is_exhausted(error):
            raise
        return refusal(error)
    try:
        with computing_in(model, truth_of(model.dtype)):
            precise = trial.of(model)
            truth, fault = array(precise.rows()), array(precise.with_fault().tables())
    except REFUSALS:
        return ScoreTrial.without_truth(rows, way, planted, HALF_TOLERANCE).failure(precision)
    return ScoreTrial(truth, fault, rows, way, planted).failure(precision)


def autocast_of(writer: Decoder | WholeBatches) -> torch.autocast:
    """Return the context of a pass in a writer's precision."""
    import torch

    return torch.autocast(writer.model.device.type, writer.autocast, enabled=writer.autocast is not None)


def script_for(model: PreTrainedModel) -> list[int]:
    """Return the tokens that all rows of a trial write."""
    return list(sample_for(model.config, positions(model))[-2].ids[: max(*ROOMS, STEPS)])


def largest_gap(tables: Tables, references: Tables) -> float:
    """Return the largest mean difference of two tables' rows; infinite if one of them is NaN."""
    pairs = zip(tables, references, strict=True)
    gap = max((table - reference).abs().mean(-1).max().item() for table, reference in pairs)
    return math.inf if math.isnan(gap) else gap


def array(tables: Tables) -> Floats:
    return np.concatenate([table.double().cpu().numpy().ravel() for table in tables])
