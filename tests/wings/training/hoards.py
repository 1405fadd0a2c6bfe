"""Keep the state of every checkpoint of a training: `python -m tests.wings.training.hoards train …`.

A checkpoint is deleted when the next one is there, and the last one has no state. The state of step 15 of a training
in `DIR` is kept in `DIR.step-000015`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from figeval.wings.training import loop
from figeval.wings.training.distributed import write_state


def write_twice(tensors: dict[str, Any], folder: Path) -> None:
    hoard = Path(os.environ["TRAINING"]).with_suffix(f".{folder.parent.stem}")
    hoard.mkdir(exist_ok=True)
    write_state(tensors, hoard)
    write_state(tensors, folder)


def main() -> None:
    from figeval.cli.main import main
    from figeval.wings.training import launcher, worker

    loop.write_state = write_twice
    launcher.WORKER = __spec__.name
    if "RANK" in os.environ:
        worker.main()
    else:
        main(sys.argv[1:])


if __name__ == "__main__":
    main()
