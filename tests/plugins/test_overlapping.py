"""Batches that are prepared, computed and fetched at the same time: the same results as one step after the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from figeval import Continuation, ModelError, SpanQuery, Text, TextPair
from figeval.builtin.plugins.torch_models.batching import TokenBudget
from figeval.builtin.plugins.torch_models.overlapping import Copy, Steps, fetched_rows, run_steps
from figeval.testing import ask
from tests.listeners import listen
from tests.plugins.tiny import LINES, LONG_TEXT, Workshop

lengths = st.lists(st.integers(1, 200), max_size=60)
MEMORY_MESSAGE = "CUDA out of memory. Tried to allocate 20.00 MiB"
Event = tuple[str, tuple[int, ...]]


class Device:
    """Steps of batches that multiply indexes by ten, and the order in which they were taken."""

    def __init__(self, lengths: list[int], fits: int = 10**9, late: bool = False) -> None:
        self.lengths, self.fits, self.late = lengths, fits, late
        self.events: list[Event] = []

    def check(self, rows: list[int]) -> None:
        if len(rows) > 1 and len(rows) * max(self.lengths[row] for row in rows) > self.fits:
            raise torch.OutOfMemoryError(MEMORY_MESSAGE)

    def start(self, rows: list[int]) -> list[int]:
        self.events.append(("start", tuple(rows)))
        if not self.late:
            self.check(rows)
        return rows

    def fetch(self, started: list[int], rows: list[int]) -> Iterator[int]:
        self.events.append(("fetch", tuple(rows)))
        self.check(rows if self.late else [])
        return iter([10 * row for row in started])

    @property
    def steps(self) -> Steps[list[int], list[int], int]:
        return Steps(list, self.start, self.fetch)


def is_alone() -> bool:
    return not [thread for thread in threading.enumerate() if thread.name.startswith("figeval-batches")]


@given(lengths=lengths, tokens=st.integers(1, 500), size=st.integers(1, 20))
def test_results_come_in_the_order_of_the_inputs_within_the_budget(lengths: list[int], tokens: int, size: int) -> None:
    device = Device(lengths)
    unknown_lengths = [0] * len(lengths)

    def slices() -> Iterator[list[int]]:
        """As a tokenizer does it, which tells lengths only with the slice."""
        for first in range(0, len(lengths), size):
            rows = list(range(first, min(first + size, len(lengths))))
            for row in rows:
                unknown_lengths[row] = lengths[row]
            yield rows

    outputs = run_steps(
        unknown_lengths, device.steps, TokenBudget(tokens), overlap=True, slices=slices(), weights=lengths
    )
    assert outputs == [10 * row for row in range(len(lengths))]
    started = [rows for event, rows in device.events if event == "start"]
    assert sorted(row for rows in started for row in rows) == list(range(len(lengths)))
    assert all(len(rows) == 1 or len(rows) * max(lengths[row] for row in rows) <= tokens for rows in started)
    assert is_alone()


@given(lengths=lengths, tokens=st.integers(1, 500))
def test_batches_of_inputs_known_at_once_are_those_of_successive_steps(lengths: list[int], tokens: int) -> None:
    first, other = Device(lengths), Device(lengths)
    run_steps(lengths, first.steps, TokenBudget(tokens), overlap=True)
    run_steps(lengths, other.steps, TokenBudget(tokens), overlap=False)
    assert sorted(first.events) == sorted(other.events)


def test_a_batch_is_fetched_once_the_next_has_been_started() -> None:
    device = Device([5, 4, 3])
    run_steps([5, 4, 3], device.steps, TokenBudget(1), overlap=True)
    steps = [f"{event} {rows[0]}" for event, rows in device.events]
    assert steps == ["start 0", "start 1", "fetch 0", "start 2", "fetch 1", "fetch 2"]


@settings(max_examples=15)  # each halving collects garbage
@given(lengths=lengths, fits=st.integers(1, 400), late=st.booleans())
def test_the_budget_halves_until_it_fits_and_loses_nothing(lengths: list[int], fits: int, late: bool) -> None:
    device = Device(lengths, fits, late)
    outputs = run_steps(lengths, device.steps, TokenBudget(2_000), overlap=True)
    assert outputs == [10 * row for row in range(len(lengths))]


@pytest.mark.parametrize(
    ("budget", "cure"), [(TokenBudget(1, 64), "auto or a smaller one"), (TokenBudget(10), "max_length")]
)
@pytest.mark.parametrize("step", ["start", "fetch"])
def test_what_cannot_be_halved_is_an_error_with_a_cure(step: str, budget: TokenBudget, cure: str) -> None:
    def fails(*_: object) -> Any:
        raise MemoryError

    steps = Steps(list, fails, lambda started, _rows: started)
    late = Steps(list, list, fails)
    with pytest.raises(ModelError, match=cure):
        run_steps([10, 10, 10], steps if step == "start" else late, budget, overlap=True)
    assert is_alone()


@pytest.mark.parametrize("error", [RuntimeError("shapes"), KeyboardInterrupt("now"), ValueError("no such token")])
@pytest.mark.parametrize("step", ["prepare", "start", "fetch"])
def test_an_exception_ends_all_steps(step: str, error: BaseException) -> None:
    calls: list[object] = []

    def fails(batch: Any, *_: object) -> Any:
        calls.append(batch)
        if len(calls) == 2:
            raise error
        return batch

    chosen = {name: fails if name == step else lambda batch, *_: batch for name in ("prepare", "start", "fetch")}
    with pytest.raises(type(error), match=str(error)):
        run_steps([1] * 50, Steps(**chosen), TokenBudget(1), overlap=True)
    assert len(calls) < 10
    assert is_alone()


@pytest.mark.parametrize("overlap", [False, True])
def test_the_budget_is_halved_if_there_is_no_memory_to_prepare_a_batch(overlap: bool) -> None:
    def prepare(rows: list[int]) -> list[int]:
        if len(rows) > 2:
            raise MemoryError
        return rows

    budget = TokenBudget(20)
    steps = Steps(prepare, list, lambda started, _rows: started)
    assert run_steps([5] * 11, steps, budget, overlap=overlap) == list(range(11))
    assert (budget.tokens, budget.halved) == (10, 1)
    assert is_alone()


def test_results_leave_no_pinned_memory_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = torch.arange(6.0).view(3, 2)
    device = SimpleNamespace(type="cuda")
    monkeypatch.setattr(torch.cuda, "Event", Mock)
    monkeypatch.setattr(torch.cuda, "current_stream", Mock())
    copy: Any = Copy(cast("Any", SimpleNamespace(device=device, to=lambda *_, **__: pinned)))
    rows = fetched_rows(copy, [0, 1, 2])
    assert rows.tolist() == pinned.tolist()
    assert not np.shares_memory(rows, pinned.numpy())


def test_nothing_to_read() -> None:
    assert run_steps([], Device([]).steps, TokenBudget(10), overlap=True) == []


# ---- texts and models ------------------------------------------------------------------------------------------------

TEXTS = [*LINES, "Yes.", "", "a", LINES[1] + " " + LINES[4], "Zwölf Boxkämpfer jagen 東京", LONG_TEXT]
TEXTS *= 6
pytestmark = pytest.mark.usefixtures("short_slices")


@pytest.fixture(scope="module")
def short_slices() -> Iterator[None]:
    """Let texts be tokenized in more than one slice, although they are few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("figeval.builtin.plugins.torch_models.reading.SLICE_TEXTS", 64)
        yield


@pytest.mark.parametrize(("kind", "pooling"), [("bert", "mean"), ("roberta", "cls"), ("gpt2", "last")])
def test_vectors_do_not_depend_on_it(kind: str, pooling: str, workshop: Workshop, open_model: Any) -> None:
    """GPT-2's tokenizer adds no special tokens: an empty text has no vector."""
    backend = open_model("encoder", workshop(kind, "Model"), pooling=pooling)
    expected = backend.embed([Text(text) for text in TEXTS])
    backend.overlap, backend.budget.tokens = True, 100
    embeddings = backend.embed([Text(text) for text in TEXTS])
    np.testing.assert_allclose(embeddings.values, expected.values, atol=1e-5)
    assert np.isnan(embeddings.values).any() == (kind == "gpt2")
    assert embeddings.truncated == expected.truncated


@pytest.mark.slow
def test_scores_of_other_models_do_not_depend_on_it(workshop: Workshop, open_model: Any) -> None:
    queries = [SpanQuery(text, LINES[0], LINES[0][:8]) for text in LINES]
    calls: list[tuple[Any, str, list[Any]]] = [
        (open_model("pairs", workshop("bert", "ForSequenceClassification", num_labels=1)), "score_pairs",
         [TextPair(left, other) for left in LINES for other in LINES] * 2),
        (open_model("masked", workshop("bert")), "loglikelihood", [Continuation("", text) for text in LINES]),
        (open_model("spans", workshop("bert", "ForQuestionAnswering")), "find_spans", queries),
    ]  # fmt: skip
    for backend, method, requests in calls:
        expected = numbers(getattr(backend, method)(requests))
        backend.overlap, backend.budget.tokens = True, 100
        assert numbers(getattr(backend, method)(requests)) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(("kind", "pooling"), [("bert", "mean"), ("gpt2", "last")])
def test_progress_is_that_of_the_tokens(
    kind: str, pooling: str, overlap: bool, workshop: Workshop, open_model: Any
) -> None:
    backend = open_model("encoder", workshop(kind, "Model"), pooling=pooling)
    backend.overlap, backend.budget.tokens = overlap, 64
    for texts in (LINES * 15, [*LINES * 15, ""]):
        with listen() as ears:
            ask(backend, [Text(text) for text in texts])
        counts = [answered for answered, _ in ears.heard]
        assert counts == sorted(counts)
        assert counts[-1] == len(texts)
        assert len(set(counts)) > 0.6 * len(texts)


def numbers(outputs: Any) -> list[float]:
    """Scores, or the spans and scores of texts."""
    values = getattr(outputs, "values", outputs)
    if isinstance(values[0], float):
        return list(values)
    return [number for spans in values for span in spans for number in (span.span.start, span.span.end, span.score)]
