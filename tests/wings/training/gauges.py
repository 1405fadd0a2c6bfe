"""A device whose times and memory are made up, so that a training on the CPU plans its passes as on an accelerator.

`python -m tests.wings.training.gauges train …` trains like this in all of its processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from figeval.wings.training import distributed
from figeval.wings.training.pass_cost import StepMeasurement, StepWork


@dataclass
class MadeUp:
    """Seconds by a formula; the bytes of a pass and of each of its tokens, and those that are free."""

    per_pass: float = 1.0
    per_token: float = 0.01
    bytes_per_token: int | None = None
    bytes_per_pass: int = 0
    free: int | None = None
    name: str = "made up"
    works: list[StepWork] = field(default_factory=list)

    def measure(self, run: Callable[[], StepWork]) -> StepMeasurement:
        work = run()
        self.works.append(work)
        seconds = self.per_pass * work.passes + self.per_token * work.tokens
        if self.bytes_per_token is None:
            return StepMeasurement(work, seconds)
        return StepMeasurement(work, seconds, self.bytes_per_pass + self.bytes_per_token * work.peak_tokens)

    def free_memory(self) -> int | None:
        return self.free


@contextmanager
def gauge(device: MadeUp) -> Iterator[None]:
    """Let trainings in this process measure a device that is made up."""
    gauge_of = distributed.gauge_of
    distributed.gauge_of = lambda _device: device
    try:
        yield
    finally:
        distributed.gauge_of = gauge_of


def main() -> None:
    from figeval.cli.main import main
    from figeval.wings.training import launcher, worker

    distributed.gauge_of = lambda _device: MadeUp()
    launcher.WORKER = __spec__.name
    if "RANK" in os.environ:
        worker.main()
    else:
        main(sys.argv[1:])


if __name__ == "__main__":
    main()
