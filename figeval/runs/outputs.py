"""Files that commands write with `--output`, which must neither be what they read nor a part of a stored run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from figeval.errors import OptionError, RecordError
from figeval.io.storage import cure, replacing
from figeval.records.measured import FILE as MEASURED
from figeval.records.sweep import GRID, SEEDS

Files: TypeAlias = Mapping[str, str | bytes]  # file name → content
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


def save(made: str | bytes | Files, output: Path, inputs: Sequence[Path] = ()) -> None:
    """Write a file, or files below a folder. Each is replaced atomically.

    A link that the user names is followed. Links below a folder are not: they may come from somebody else.

    Args:
        made: what an exporter made.
        output: the file, or the folder.
        inputs: the runs that were read.

    Raises:
        OptionError: a file is one of the inputs or a part of a run.
        RecordError: there is no space or no permission, or a folder or a link is in the way.
    """
    if not isinstance(made, Mapping):
        check_output(output, inputs)
        with cure(output, "--output"):
            if output.exists() and not output.is_dir() and not output.is_file():  # /dev/stdout, a pipe
                output.write_bytes(_bytes(made))
                return
            _write(made, output.resolve())
        return
    files = {output / name: content for name, content in made.items()}
    for file in files:
        check_output(file, inputs)
        if linked := [one for one in file.parents if one.is_symlink() and output in one.parents]:
            raise RecordError(f"{linked[0]} is a symbolic link; choose another folder with --output")
    for file, content in files.items():
        with cure(output, "--output"):
            file.parent.mkdir(parents=True, exist_ok=True)
            _write(content, file)


def _write(content: str | bytes, file: Path) -> None:
    if file.is_dir():
        raise RecordError(f"{file} is a folder; give a file with --output")
    with replacing(file) as stream:
        stream.write(_bytes(content))


def _bytes(content: str | bytes) -> bytes:
    return content.encode("utf-8") if isinstance(content, str) else content
