"""What the builds of plugins share: stages, what these depend on, names of tasks, and the tables of reports.

A stage is made once, kept in the folder, and made again when what it depends on has changed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO

from figeval.display import Display
from figeval.errors import DataError, FigevalError, OptionError
from figeval.jsonfile import read_json
from figeval.storage import locked, replace_text, replacing
from figeval.types import JSON

RECORD = "stages.json"


@dataclass
class Stages:
    """A folder with its finished stages.

    Attributes:
        folder: where all files are written.
        key: what every stage depends on: input, language, seed, versions.
        progress: where it is shown how far a stage is, and which ones are kept of an earlier session.
    """

    folder: Path
    key: JSON
    progress: Display
    _done: dict[str, JSON] = field(default_factory=dict)

    @contextmanager
    def open(self) -> Iterator[Stages]:
        """Hold the folder for this process and read what is finished.

        Raises:
            FigevalError: the folder cannot be written, or another process builds in it.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            busy = FigevalError(f"another process builds in {self.folder}; wait for it, or choose another --output")
            with locked(self.folder / ".lock", busy):
                if (file := self.folder / RECORD).is_file():
                    self._done = _finished_in(file)
                yield self
        except OSError as error:
            raise FigevalError(f"cannot write {self.folder} ({error.strerror}); choose another --output") from error

    def run(self, name: str, depends: object, files: Iterable[str], make: Callable[[Writers], JSON]) -> JSON:
        """Return what a stage notes, and leave its files in the folder.

        Args:
            name: of the stage.
            depends: what it depends on beside the key of all stages.
            files: the names of the files that it writes.
            make: writes the rows and returns the notes; not called if the stage is finished and its files are
                as they were written.
        """
        key = _digest([self.key, depends])
        stage = self._done.get(name)
        if (
            stage
            and stage["key"] == key
            and all(checksum(self.folder / file) == sha for file, sha in stage["files"].items())
        ):
            self.progress.say(f"{name}: kept from an earlier session")
            kept: JSON = stage["notes"]
            return kept
        with Writers(self.folder, tuple(files)) as writers:
            notes = make(writers)
        sums = {file: checksum(self.folder / file) for file in writers.names}
        self._done[name] = {"build": _digest(self.key), "key": key, "files": sums, "notes": notes}
        replace_text(self.folder / RECORD, json.dumps(self._done, indent=1, ensure_ascii=False) + "\n")
        return notes

    def refuse_others(self, names: Iterable[str], option: str) -> None:
        """Refuse to leave stages beside those of these names that are of another build, whose splits may differ.

        `option` is the flag of the command that names stages, such as `--tasks`.

        Raises:
            DataError: there are such stages.
        """
        build = _digest(self.key)
        others = [name for name, stage in self._done.items() if name not in names and stage["build"] != build]
        if others:
            raise DataError(
                f"{self.folder} has {', '.join(others)} of other pairs, another seed, other options or versions, which "
                f"would not fit; choose another --output, or name them in {option}, too"
            )

    def checksums(self) -> Mapping[str, str]:
        """Return the sha256 of every file that a stage has written."""
        return {file: sha for stage in self._done.values() for file, sha in stage["files"].items()}


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _finished_in(file: Path) -> dict[str, JSON]:
    """Return the finished stages that a file names. Raises `DataError` for one that no build has written."""
    found = read_json(file, DataError, cure="delete it")
    kinds = {"build": str, "key": str, "files": dict, "notes": dict}
    if not isinstance(found, dict) or not all(
        isinstance(stage, dict) and all(isinstance(stage.get(name), kind) for name, kind in kinds.items())
        for stage in found.values()
    ):
        raise DataError(f"{file}: no build has written this; delete it")
    return found


class Writers:
    """JSON Lines files that replace older ones when all rows are written; nothing changes if a stage fails."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self.names = names
        self._folder = folder
        self._stack = ExitStack()
        self._streams: dict[str, IO[bytes]] = {}

    def __enter__(self) -> Writers:
        for name in self.names:
            self._streams[name] = self._stack.enter_context(replacing(self._folder / name))
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.__exit__(*error)  # type: ignore[arg-type]

    def write(self, name: str, row: JSON) -> None:
        """Append a row to a file."""
        self._streams[name].write(f"{json.dumps(row, ensure_ascii=False)}\n".encode())


def checksum(file: Path | None) -> str | None:
    """Return the sha256 of a file, None where there is no file: it is reported missing when it is read."""
    if file is None or not file.is_file():
        return None
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def package_versions(packages: Iterable[str]) -> dict[str, str | None]:
    """Return the versions of distributions that a stage depends on, None for those that are not installed."""
    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def task_prefix(name: str) -> str:
    """Return a name as task names may begin. Raises `OptionError` if nothing is left of it."""
    prefix = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    if not prefix or not prefix[0].isalpha():
        raise OptionError(f"{name!r} makes no name of a task; give --name with a letter first")
    return prefix


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table with numbers in all columns but the first."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
