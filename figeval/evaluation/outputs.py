"""Files that commands write with `--output`, which must neither be what they read nor a part of a stored run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from figeval.errors import OptionError
from figeval.records.measured import FILE as MEASURED
from figeval.records.sweep import GRID, SEEDS

RECORDS = ("run.json", SEEDS, GRID, "figeval.json", MEASURED)  # of runs, sweeps, trained models, other numbers
FOLDERS = frozenset(("predictions", "replies", "shards", "training", "earlier"))  # within such a folder


def check_output(output: Path, inputs: Iterable[Path]) -> None:
    """Check that a file may be replaced.

    Args:
        output: the file.
        inputs: files and folders that the command reads.

    Raises:
        OptionError: it is one of the inputs, a record, or in a folder of a run that only figeval writes.
    """
    file = output.resolve()
    if file in {one.resolve() for one in inputs if one.is_file()}:
        raise OptionError(f"--output {output} is the file that is read; choose another one")
    if file.name in RECORDS and file.exists():
        raise OptionError(f"--output {output} would replace a record; choose another file")
    for folder in file.parents:
        if folder.name in FOLDERS and any((folder.parent / name).exists() for name in RECORDS):
            raise OptionError(f"--output {output} is in a folder of the run {folder.parent}; choose another place")
