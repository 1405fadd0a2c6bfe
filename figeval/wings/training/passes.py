"""The cheapest division of a step into passes, for devices on which a pass costs more than some padding.

On an accelerator the time of a forward and backward pass is nearly a fixed part, in which the host starts its kernels,
and a part in proportion to its tokens. Both are measured on the device (`probe`); there is no table of devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from figeval.wings.training.batches import Plan

Seconds = Annotated[float, Field(ge=0)]


class PassCost(BaseModel):
    """Cost of a pass, as measured at the start of a training and kept with its progress.

    Attributes:
        seconds_per_pass: the part that does not depend on the tokens.
        seconds_per_token: the part per token, padding included.
        tokens: tokens of a pass that fit in memory, padding included.
        device: devices and processes that it was measured on.
        padding: whether padding takes time; False if the network reads rows without it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds_per_pass: Seconds
    seconds_per_token: Seconds
    tokens: PositiveInt
    device: str = ""
    padding: bool = True

    def plan(self, tokens: int) -> Plan:
        """Return the plan that is cheapest, of those whose passes have at most so many tokens, padding included."""
        if not self.padding:
            return fewest_passes(tokens)
        return CheapestPasses(tokens, self.seconds_per_pass, self.seconds_per_token)


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
        sizes = self._cheapest(longest)
        first = 0
        while first < len(longest):
            size = sizes[first]
            yield min(size * processes, len(lengths) - first * processes)
            first += size

    def _cheapest(self, lengths: Sequence[int]) -> list[int]:
        """Return for every row the size of the batch that begins there, if all rows from there on are to be cheapest.

        With n rows, of which at most m fit in a pass, this takes n vector operations of m numbers.
        """
        import numpy as np

        n = len(lengths)
        least = np.zeros(n + 1)  # seconds for the rows from each on
        sizes = [0] * n
        for first in range(n - 1, -1, -1):
            length = max(1, lengths[first])
            fitting = min(n - first, max(1, self.tokens // length))
            candidates = np.arange(fitting, 0, -1)  # the largest first, which wins a tie
            seconds = self.per_pass + self.per_token * length * candidates + least[first + candidates]
            index = int(seconds.argmin())
            sizes[first], least[first] = int(candidates[index]), seconds[index]
        return sizes


def fewest_passes(tokens: int) -> Plan:
    """Return the plan with as few passes as memory allows, whatever the padding."""
    return CheapestPasses(tokens, per_pass=1.0, per_token=0.0)
