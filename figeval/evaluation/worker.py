"""One process of `--processes`: answers its part of the examples into a folder of its own, and scores nothing.

Its order comes through stdin, which then stays open: where that ends, the process that gave the order is gone or wants
no more, and so is this one.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from figeval.config import RunConfig
from figeval.ending import end_quickly
from figeval.errors import FigevalError
from figeval.evaluation.answering import Alone, noted, unanswered
from figeval.evaluation.begin import begin
from figeval.evaluation.harness import Harness
from figeval.evaluation.plan import Plan, prepare
from figeval.evaluation.scoring import Respondent
from figeval.models.model import Model
from figeval.records import provenance
from figeval.records.folder import RunFolder
from figeval.records.schema import TaskRecord
from figeval.text import one_line
from figeval.types import Example


@dataclass(frozen=True, slots=True)
class Order:
    """What one process is to do: of the unanswered examples in the folder `run` every `of`-th, beginning with `part`.

    Its rows go into the folder `shard`.
    """

    config: RunConfig
    run: Path
    shard: Path
    part: int  # 0 ≤ part < of
    of: int

    def examples(self, plan: Plan) -> Iterator[Example]:
        """Its examples of a task. All processes count alike: nobody writes answers of a task before all are through."""
        return islice(unanswered(plan, RunFolder(self.run)), self.part, None, self.of)

    def carry_out(self) -> None:
        """Answer task after task; what was done and by whom stands in the shard's `run.json` after each.

        Raises:
            FigevalError: what would be the same for every task; data or weights that are not those of the run.
        """
        model, plans, _ = prepare(self.config, Harness(include=self.config.include_path))
        shard = RunFolder(self.shard)
        with shard.locked():
            self._answer(shard, model, plans)
        model.close()

    def _answer(self, shard: RunFolder, model: Model, plans: list[Plan]) -> None:
        record = begin(RunFolder(self.run), self.config, model, plans)
        tasks, record.tasks = record.tasks, []
        alone = Alone(Respondent(model), shard, self.config.log_samples)
        for plan, task in zip(plans, tasks, strict=True):
            self._do(plan, task, alone)
            record.tasks.append(task)
            record.model.description = alone.description()
            shard.write(record)

    def _do(self, plan: Plan, task: TaskRecord, alone: Alone) -> None:
        began = time.monotonic()
        task.status = "running"
        with noted(task):
            examples = self.examples(plan)
            for first in islice(examples, 1):  # without one nothing is learned and no weights are loaded
                for _ in alone.store(plan, chain([first], examples)):
                    pass
            task.status = "done"
        task.seconds = round(time.monotonic() - began, 3)
        task.peak_memory_mb = provenance.peak_memory_mb()


def end_with_stdin() -> None:
    """Leave at once when stdin ends. Every row is with the operating system already, so nothing is lost."""
    while os.read(0, 4096):
        pass
    os._exit(130)


def main() -> None:
    """Read the order and carry it out. What a user can mend is one line on stderr and exit code 2, as everywhere."""
    end_quickly()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal; the first one decides
    order = pickle.load(sys.stdin.buffer)
    threading.Thread(target=end_with_stdin, daemon=True).start()
    try:
        order.carry_out()
    except FigevalError as error:
        print(f"figeval: {one_line(str(error))}", file=sys.stderr)
        sys.exit(2)
