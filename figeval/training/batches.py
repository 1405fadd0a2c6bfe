"""The examples of each step and their batches: functions of seed, epoch and step, so nothing of them is stored.

All processes know the whole plan and take their share of it. So a loss is divided by the right number however many
processes there are, and a run may go on with another number of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# Padded tokens that go through the network at once. On a CPU more only pushes activations out of its caches.
TOKENS = {"cpu": 1_024}
TOKENS_ON_ACCELERATOR = 16_384
ALIKE = 0.85  # of the longest row of a batch, unless it would be smaller than
WORTH = 8  # such a part of the budget


@dataclass(frozen=True, slots=True)
class Epochs:
    """The order of `n` examples in every epoch, cut into steps of `batch_size`; the last one may be smaller.

    `shuffle` "epochs" draws another order for each, "once" one for all (as Ghosh and Srivastava's code does).
    """

    n: int
    batch_size: int
    seed: int
    shuffle: str = "epochs"

    @property
    def steps(self) -> int:
        """The number of steps of one epoch."""
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
        """Return all examples in the order of an epoch."""
        rows = list(range(self.n))
        random.Random(f"{self.seed} {epoch if self.shuffle == 'epochs' else 0}").shuffle(rows)
        return rows


@dataclass(frozen=True, slots=True)
class Share:
    """The rows of one process in one batch, and whether each counts (1) or is padding (0)."""

    rows: list[int]
    counts: list[float]


def shares(rows: Sequence[int], lengths: Sequence[int], tokens: int, process: int, processes: int) -> Iterator[Share]:
    """Yield the part of one process in a step: batches of similar length, of at most `tokens` each after padding.

    Every process gets the same number of batches and no empty one, since gathering gradients or weights waits for all.
    """
    ordered = sorted(rows, key=lengths.__getitem__, reverse=True)
    while ordered:
        count = together([lengths[row] for row in ordered], tokens, processes)
        batch, ordered = ordered[:count], ordered[count:]
        own = batch[process::processes]
        yield Share(own, [1.0] * len(own)) if own else Share([batch[0]], [0.0])


def together(lengths: Sequence[int], tokens: int, processes: int) -> int:
    """Return how many of the first rows, longest first, make one batch: no more than fit, and no much shorter ones.

    A batch goes on to shorter rows only until it is worth a call; from there on padding costs more than another call.
    """
    longest = max(1, lengths[0])
    most = max(1, tokens // longest) * processes
    least = -(-tokens // (WORTH * longest)) * processes
    near = sum(length > ALIKE * longest for length in lengths[:most])
    return min(most, max(near, least))


def budget(asked: int | None, device: str) -> int:
    """Return the padded tokens per batch: as configured, else as many as keep such a device busy."""
    return asked or TOKENS.get(device.partition(":")[0], TOKENS_ON_ACCELERATOR)
