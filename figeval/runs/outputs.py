"""Files that commands write with `--output`, which must neither be what they read nor a part of a stored run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from figeval.errors import OptionError, RecordError
from figeval.io.files import cure, replacing
from figeval.records.reference import MEASURED_FILE
from figeval.records.sweep import GRID, SEEDS

Files: TypeAlias = Mapping[str, str | bytes]  # file name → content
RECORDS = ("run.json", SEEDS, GRID, "figeval.json", MEASURED_FILE)  # of runs, sweeps, trained models, other numbers
FOLDERS = frozenset(("predictions", "replies", "shards", "training", "earlier"))  # within such a folder


def check_output(output: Path, inputs: Iterable[Path], option: str = "--output") -> None:
    """Check that a file may be replaced.

    Args:
        output: the file.
        inputs: files and folders that the command reads.
        option: the option that names the file, for messages.

    Raises:
        OptionError: it is one of the inputs, a record, or in a folder of a run that only figeval writes.
    """
    file = output.resolve()
    if file in {path.resolve() for path in inputs if path.is_file()}:
        raise OptionError(f"{option} {output} is the file that is read; choose another one")
    if file.name in RECORDS and file.exists():
        raise OptionError(f"{option} {output} would replace a record; choose another file")
    for folder in file.parents:
        if folder.name in FOLDERS and any((folder.parent / name).exists() for name in RECORDS):
            raise OptionError(f"{option} {output} is in a folder of the run {folder.parent}; choose another place")


def write_output(
    content: str | bytes | Files, output: Path, inputs: Sequence[Path] = (), *, option: str = "--output"
) -> None:
    """Write the file that a user names, or files below a folder. Each is replaced atomically.

    A link that the user names is followed. Links below a folder are not: they may come from somebody else.

    Args:
        content: content of the file, or for a folder the content of each file by its name.
        output: the file, or the folder.
        inputs: files and folders that were read, such as the runs.
        option: the option with which the user names it, for messages.

    Raises:
        OptionError: a file is one of the inputs or a part of a run.
        RecordError: there is no space or no permission, or a folder or a link is in the way.
    """
    if not isinstance(content, Mapping):
        check_output(output, inputs, option)
        with cure(output, option):
            if output.exists() and not output.is_dir() and not output.is_file():  # /dev/stdout, a pipe
                output.write_bytes(_bytes(content))
                return
            _write(content, output.resolve(), option)
        return
    files = {output / name: part for name, part in content.items()}
    for file in files:
        check_output(file, inputs, option)
        if linked := [parent for parent in file.parents if parent.is_symlink() and output in parent.parents]:
            raise RecordError(f"{linked[0]} is a symbolic link; choose another folder with {option}")
    for file, part in files.items():
        with cure(output, option):
            file.parent.mkdir(parents=True, exist_ok=True)
            _write(part, file, option)


def _write(content: str | bytes, file: Path, option: str) -> None:
    if file.is_dir():
        raise RecordError(f"{file} is a folder; give a file with {option}")
    with replacing(file) as stream:
        stream.write(_bytes(content))


def _bytes(content: str | bytes) -> bytes:
    return content.encode("utf-8") if isinstance(content, str) else content
