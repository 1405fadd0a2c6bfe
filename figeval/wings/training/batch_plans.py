"""The examples of each step and their division into batches, each of which is one pass through the network.

Both are functions of seed, epoch and step and are not stored. Every process knows the whole plan and takes its share.
Losses are therefore divided by the same number whatever the number of processes, and a training may resume with another
number of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

# Padded tokens per call of the network. On a CPU, more would only push activations out of the caches.
TOKENS_BY_DEVICE = {"cpu": 1_024}
TOKENS_ON_ACCELERATOR = 16_384
SIMILAR_LENGTH = 0.85  # rows longer than this share of the longest row go into its batch
MIN_FILL = 8  # shorter rows, too, until the batch reaches this fraction (1/MIN_FILL) of the budget


@dataclass(frozen=True, slots=True)
class Epochs:
    """The order of `n` examples in every epoch, cut into steps of `batch_size`; the last step may be smaller.

    `shuffle="epochs"` draws another order for each epoch, "once" one for all (as Ghosh and Srivastava's code does).
    """

    n: int
    batch_size: int
    seed: int
    shuffle: str = "epochs"

    @property
    def steps(self) -> int:
        return -(-self.n // self.batch_size)

    def rows(self, step: int) -> list[int]:
        """Return the examples of a step; steps are counted from 0 over all epochs."""
        epoch, within = divmod(step, self.steps)
        order = self.order(epoch)
        return order[within * self.batch_size : (within + 1) * self.batch_size]

    def draw(self, step: int) -> int:
        """Return the seed of the random choices that are made for every example in every epoch."""
        return int.from_bytes(random.Random(f"{self.seed} {step // self.steps} draw").randbytes(6), "big")

    def order(self, epoch: int) -> list[int]:
        rows = list(range(self.n))
        random.Random(f"{self.seed} {epoch if self.shuffle == 'epochs' else 0}").shuffle(rows)
        return rows


@dataclass(frozen=True, slots=True)
class Share:
    """The rows of one process in one batch, and whether each row counts (1) or is padding (0)."""

    rows: list[int]
    counts: list[float]


class BatchPlan(Protocol):
    """Division of a step's rows into batches, each of which is one pass through the network."""

    @property
    def tokens(self) -> int:
        """Most tokens of one process in one pass, padding included, unless a single row has more."""
        ...

    def sizes(self, lengths: Sequence[int], processes: int) -> Iterator[int]:
        """Yield the number of rows of every batch, for all processes together; the lengths are sorted, longest first.

        The rows of a batch are dealt out to the processes in turn. The same arguments give the same sizes everywhere.
        """
        ...


@dataclass(frozen=True, slots=True)
class SimilarLengths:
    """Batches of similar lengths: the plan for devices on which padding is expensive and a pass is not, as on a CPU."""

    tokens: int

    def sizes(self, lengths: Sequence[int], processes: int) -> Iterator[int]:
        """Yield the sizes of batches that have as many rows as fit and are not much shorter than the longest."""
        first = 0
        while first < len(lengths):
            size = min(_count_similar(lengths[first:], self.tokens, processes), len(lengths) - first)
            yield size
            first += size


def divide_rows(
    rows: Sequence[int], lengths: Sequence[int], plan: BatchPlan, process: int, processes: int
) -> Iterator[Share]:
    """Yield one process's batches of a step, as the plan divides its rows.

    Every process gets the same number of batches and no empty one, since the exchange of gradients or weights waits
    for all processes.
    """
    ordered = sorted(rows, key=lengths.__getitem__, reverse=True)
    first = 0
    for size in plan.sizes([lengths[row] for row in ordered], processes):
        batch = ordered[first : first + size]
        first += size
        part = batch[process::processes]
        yield Share(part, [1.0] * len(part)) if part else Share([batch[0]], [0.0])


def _count_similar(lengths: Sequence[int], tokens: int, processes: int) -> int:
    """Return how many of the first rows, longest first, make one batch: those that fit and are not much shorter.

    Much shorter rows are added only until the batch is large enough for a call; beyond that, their padding costs more
    than another call.
    """
    longest = max(1, lengths[0])
    max_rows = max(1, tokens // longest) * processes
    min_rows = -(-tokens // (MIN_FILL * longest)) * processes
    similar_rows = sum(length > SIMILAR_LENGTH * longest for length in lengths[:max_rows])
    return min(max_rows, max(similar_rows, min_rows))


def token_budget(tokens_per_batch: int | None, device: str) -> int:
    """Return the padded tokens per batch: the configured number, or else enough to keep the device busy."""
    return tokens_per_batch or TOKENS_BY_DEVICE.get(device.partition(":")[0], TOKENS_ON_ACCELERATOR)


@dataclass(frozen=True)
class CheapestPasses:
    """The plan with the least `passes * per_pass + tokens * per_token`, padding included.

    Batches are contiguous in the order of lengths, so dynamic programming finds the optimum. The times may have any
    unit.
    """

    tokens: int
    per_pass: float
    per_token: float

    def sizes(self, lengths: Sequence[int], processes: int) -> Iterator[int]:
        """Yield the sizes of the batches of the cheapest division; of equally cheap ones, that with the fewest.

        All processes wait for the one with the longest rows. Rows that the others read beside its own cost nothing, so
        a division into multiples of `processes` rows is as cheap as any, and only the longest row of each matters.
        """
        longest = lengths[::processes]
        sizes = self._batch_sizes(longest)
        first = 0
        while first < len(longest):
            size = sizes[first]
            yield min(size * processes, len(lengths) - first * processes)
            first += size

    def _batch_sizes(self, lengths: Sequence[int]) -> list[int]:
        """Return for every row the size of the batch that begins there, if all rows from there on are to be cheapest.

        With n rows, of which at most m fit in a pass, this takes n vector operations of m numbers.
        """
        import numpy as np

        n = len(lengths)
        best_seconds = np.zeros(n + 1)  # seconds for the rows from each on
        sizes = [0] * n
        for first in range(n - 1, -1, -1):
            length = max(1, lengths[first])
            max_rows = min(n - first, max(1, self.tokens // length))
            row_counts = np.arange(max_rows, 0, -1)  # the largest first, which wins a tie
            seconds = self.per_pass + self.per_token * length * row_counts + best_seconds[first + row_counts]
            index = int(seconds.argmin())
            sizes[first], best_seconds[first] = int(row_counts[index]), seconds[index]
        return sizes


def fewest_passes(tokens: int) -> BatchPlan:
    """Return the plan with as few passes as memory allows, whatever the padding."""
    return CheapestPasses(tokens, per_pass=1.0, per_token=0.0)
