"""Batches that are prepared, computed and fetched at the same time.

On an accelerator, a thread tokenizes and pads the next batches while the device computes one, and results are fetched
once the batch after theirs has been started, so that the device need not wait. On a CPU, which computes with all of its
cores, the same steps are taken one after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from figeval.io.observer import report_share
from figeval.models.devices import copy_to

from .batching import TokenBudget, attempt, finished_batches
from .rows import MASK, lengths_of, with_lengths

if TYPE_CHECKING:
    from torch import Tensor

    from .tokens import Floats

MAX_PREPARED = 2  # batches that wait for the device, at most

Prepared = TypeVar("Prepared")
Started = TypeVar("Started")
T = TypeVar("T")
Prepare: TypeAlias = "Callable[[list[int]], dict[str, Tensor]]"
Start: TypeAlias = "Callable[[dict[str, Tensor], list[int]], Started]"
Fetch: TypeAlias = Callable[[Started, list[int]], Iterable[T]]


@dataclass(frozen=True, slots=True)
class Steps(Generic[Prepared, Started, T]):
    """The steps of a batch of inputs, given by their indexes; each is safe to repeat.

    Attributes:
        prepare: makes a batch on the host, in any thread.
        start: starts its computation on the device.
        fetch: waits for the results and returns one per input, in their order.
    """

    prepare: Callable[[list[int]], Prepared]
    start: Callable[[Prepared], Started]
    fetch: Callable[[Started, list[int]], Iterable[T]]

    def __call__(self, rows: list[int]) -> Iterable[T]:
        return self.fetch(self.start(self.prepare(rows)), rows)


def run_steps(
    lengths: Sequence[int],
    steps: Steps[Prepared, Started, T],
    budget: TokenBudget,
    *,
    overlap: bool,
    slices: Iterable[Sequence[int]] | None = None,
    weights: Sequence[int] | None = None,
) -> list[T | None]:
    """Take the steps of batches of inputs and return one result per input, in the order of the inputs.

    Args:
        lengths: tokens per input.
        steps: what is done with a batch; its inputs are of similar length, the longest of all come first.
        budget: size of a batch, halved if memory runs out.
        overlap: whether the steps of different batches overlap.
        slices: indexes of the inputs to be read, in slices, as they become known; by default all at once. The thread
            that prepares batches asks for the next slice, and only then has a look at the `lengths` of its inputs.
        weights: share of an input in the progress that is reported; by default its length. They are added up once the
            first batch is read. On a CPU all slices are known by then; where steps overlap, all weights have to be.

    Returns:
        Results; None for inputs that are in no slice.

    Raises:
        ModelError: memory runs out and the budget cannot be halved.
    """
    results: list[T | None] = [None] * len(lengths)
    slices_to_read = [range(len(lengths))] if slices is None else slices
    weights = lengths if weights is None else weights
    total = done = 0
    batches = overlapping_batches if overlap else successive_batches
    for rows, outputs in batches(slices_to_read, lengths, steps, budget):
        for index, output in zip(rows, outputs, strict=True):
            results[index] = output
        total = total or max(1, sum(weights))
        share = sum(weights[row] for row in rows)
        done += share
        report_share(share / total)
    unread = sum(weights) - done  # of inputs in no slice
    if unread > 0:
        report_share(unread / (done + unread))
    return results


def successive_batches(
    slices: Iterable[Sequence[int]],
    lengths: Sequence[int],
    steps: Callable[[list[int]], Iterable[T]],
    budget: TokenBudget,
) -> Iterator[tuple[list[int], Iterable[T]]]:
    """Take all steps of a batch before the next, and yield its inputs and results; all inputs are known at first."""
    inputs = [row for part in slices for row in part]

    def forward(rows: list[int]) -> Iterable[T]:
        return steps([inputs[row] for row in rows])

    for rows, outputs in finished_batches([lengths[row] for row in inputs], forward, budget):
        yield [inputs[row] for row in rows], outputs


def overlapping_batches(
    slices: Iterable[Sequence[int]],
    lengths: Sequence[int],
    steps: Steps[Prepared, Started, T],
    budget: TokenBudget,
) -> Iterator[tuple[list[int], Iterable[T]]]:
    """Prepare, compute and fetch batches at the same time, and yield the inputs and results of each.

    If memory runs out, the batch, and those that were made for the larger budget, are read one after the other.
    """

    def fetch(rows: list[int], started: Started) -> Iterator[tuple[list[int], Iterable[T]]]:
        outputs = attempt(partial(steps.fetch, started), rows)
        if outputs is None:  # some devices run out of memory only when they compute
            budget.halve(len(rows), lengths[rows[0]])
            yield from successive_batches([rows], lengths, steps, budget)
        else:
            yield rows, outputs

    running: tuple[list[int], Started] | None = None
    with closing(prepare_ahead(BatchPlanner(iter(slices), lengths, budget), steps.prepare)) as batches:
        for rows, prepared in batches:
            fits = len(rows) <= budget.fitting(lengths[rows[0]])
            started = attempt(steps.start, prepared) if fits and prepared is not None else None
            if fits and started is None:
                budget.halve(len(rows), lengths[rows[0]])
            if running is not None:
                yield from fetch(*running)
            running = None if started is None else (rows, started)
            if started is None:
                yield from successive_batches([rows], lengths, steps, budget)
    if running is not None:
        yield from fetch(*running)


@dataclass(slots=True)
class BatchPlanner:
    """Divides inputs into batches while further slices of them become known."""

    slices: Iterator[Sequence[int]]
    lengths: Sequence[int]
    budget: TokenBudget
    waiting: list[int] = field(default_factory=list)

    def next(self) -> list[int]:
        """Return the longest of the known inputs that fit into a batch, the longest first; nothing at the end."""
        while not self.waiting or len(self.waiting) < self._fitting():
            further_rows = next(self.slices, None)
            if further_rows is None:
                break
            self.waiting = sorted([*self.waiting, *further_rows], key=self.lengths.__getitem__, reverse=True)
        count = self._fitting() if self.waiting else 0
        rows, self.waiting = self.waiting[:count], self.waiting[count:]
        return rows

    def _fitting(self) -> int:
        return self.budget.fitting(self.lengths[self.waiting[0]])


def prepare_ahead(
    planner: BatchPlanner, prepare: Callable[[list[int]], Prepared]
) -> Generator[tuple[list[int], Prepared | None], None, None]:
    """Yield batches that a thread prepares ahead, None instead of one for which memory ran out.

    The thread ends with this generator, which raises what the thread raises.
    """

    def make() -> tuple[list[int], Prepared | None] | None:
        rows = planner.next()
        return (rows, attempt(prepare, rows)) if rows else None

    worker = ThreadPoolExecutor(1, thread_name_prefix="figeval-batches")
    try:
        ahead: deque[Future[tuple[list[int], Prepared | None] | None]] = deque(
            worker.submit(make) for _ in range(MAX_PREPARED)
        )
        while (batch := ahead.popleft().result()) is not None:
            ahead.append(worker.submit(make))
            yield batch
    finally:
        worker.shutdown(cancel_futures=True)


# ---- between host and device -----------------------------------------------------------------------------------------


def on_device(
    prepare: Prepare, start: Start[Started], fetch: Fetch[Started, T], device: str
) -> Steps[tuple[dict[str, Tensor], list[int]], Started, T]:
    """Return the steps of batches that are made of tensors on the host and copied to a device."""

    def with_rows(rows: list[int]) -> tuple[dict[str, Tensor], list[int]]:
        return prepare(rows), rows

    def started(prepared: tuple[dict[str, Tensor], list[int]]) -> Started:
        batch, rows = prepared
        return start(copy_batch(batch, device), rows)

    return Steps(with_rows, started, fetch)


def copy_batch(batch: dict[str, Tensor], device: str) -> dict[str, Tensor]:
    """Return tensors of the host on a device, without waiting for what it is computing."""
    tensors = {name: copy_to(tensor, device) for name, tensor in batch.items()}
    if MASK in batch and device.startswith("cuda"):
        with_lengths(tensors[MASK], lengths_of(batch[MASK]))
    return tensors


class Copy:
    """A copy on the host of a tensor that a device is computing. Only `values` waits for the device."""

    def __init__(self, tensor: Tensor) -> None:
        import torch

        self._done: torch.cuda.Event | None = None
        self._tensor = tensor
        if tensor.device.type == "cuda":
            self._tensor = tensor.to("cpu", non_blocking=True)  # into pinned memory
            self._done = torch.cuda.Event()
            self._done.record(torch.cuda.current_stream(tensor.device))

    @property
    def values(self) -> Tensor:
        """The tensor on the host, in memory of its own: pinned memory is scarce, and free again with this copy."""
        if self._done is None:
            return self._tensor.cpu()
        self._done.synchronize()
        return self._tensor.clone()


def fetched_rows(copy: Copy, _rows: list[int]) -> Floats:
    """Return what was computed as an array, whose first axis are the inputs."""
    values: Floats = copy.values.numpy()
    return values
