"""Run figeval with faulty training processes, as MOOD tells: `python -m tests.wings.training.moods train …`."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from figeval import TrainError


def mendable(rank: str, wire: Any) -> None:
    if rank == "1":
        raise TrainError("this cannot be trained; take that")
    time.sleep(60)


def buggy(rank: str, wire: Any) -> None:
    print("what libraries print")
    if rank == "1":
        raise ZeroDivisionError("a bug")
    time.sleep(60)


def busy(rank: str, wire: Any) -> None:
    wire.say("continuing from step 3 of 9")
    wire.start("training", 9, 3, unit="step")
    time.sleep(60)


MOODS = {mood.__name__: mood for mood in (mendable, buggy, busy)}


def worker() -> None:
    from figeval.wings.training import worker

    worker.train_in_process = lambda config, harness, wire: MOODS[os.environ["MOOD"]](os.environ["RANK"], wire)
    worker.main()


def figeval() -> None:
    from figeval.cli.main import main
    from figeval.wings.training import launcher

    launcher.WORKER = __spec__.name
    main(sys.argv[1:])


if __name__ == "__main__":
    (worker if "RANK" in os.environ else figeval)()
