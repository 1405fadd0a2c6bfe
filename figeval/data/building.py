"""The common parts of plugins' builds: stages and their dependencies, task names, and the tables of reports.

A stage is made once and kept in the folder; it is made again if its dependencies have changed.
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

from figeval.errors import DataError, FigevalError, OptionError
from figeval.io.files import digest_of_file, locked, replace_text, replacing
from figeval.io.json_files import read_json
from figeval.io.observer import Observer
from figeval.types import JSON

RECORD = "stages.json"


@dataclass
class Stages:
    """A folder with its finished stages.

    Attributes:
        folder: folder of all files.
        key: dependencies of every stage: input, language, seed, versions.
        observer: observer of the progress of a stage, and of the stages that are kept from an earlier session.
    """

    folder: Path
    key: JSON
    observer: Observer
    _done: dict[str, JSON] = field(default_factory=dict)

    @contextmanager
    def open(self) -> Iterator[Stages]:
        """Lock the folder for this process and read which stages are finished.

        Raises:
            FigevalError: the folder cannot be written, or another process builds in it.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            busy = FigevalError(
                f"another process is building in {self.folder}; wait for it, or choose another --output"
            )
            with locked(self.folder / ".lock", busy):
                if (file := self.folder / RECORD).is_file():
                    self._done = _finished_in(file)
                yield self
        except OSError as error:
            raise FigevalError(f"cannot write {self.folder} ({error.strerror}); choose another --output") from error

    def run(self, name: str, depends: object, files: Iterable[str], make: Callable[[Writers], JSON]) -> JSON:
        """Make a stage unless it is finished, and return its notes; its files are then in the folder.

        Args:
            name: name of the stage.
            depends: dependencies of the stage in addition to the key of all stages.
            files: names of the files that the stage writes.
            make: function that writes the rows and returns the notes; not called if the stage is finished and its
                files are unchanged.
        """
        key = _digest([self.key, depends])
        stage = self._done.get(name)
        if (
            stage
            and stage["key"] == key
            and all(checksum(self.folder / file) == sha for file, sha in stage["files"].items())
        ):
            self.observer.say(f"{name}: kept from an earlier session")
            stored_notes: JSON = stage["notes"]
            return stored_notes
        with Writers(self.folder, tuple(files)) as writers:
            notes = make(writers)
        sums = {file: checksum(self.folder / file) for file in writers.names}
        self._done[name] = {"build": _digest(self.key), "key": key, "files": sums, "notes": notes}
        replace_text(self.folder / RECORD, json.dumps(self._done, indent=1, ensure_ascii=False) + "\n")
        return notes

    def refuse_others(self, names: Iterable[str], option: str) -> None:
        """Check that the folder has no other stages from a build with another key, whose splits may differ.

        `option` is the command's flag that names stages, e.g. `--tasks`.

        Raises:
            DataError: there are such stages.
        """
        build = _digest(self.key)
        other_stages = [name for name, stage in self._done.items() if name not in names and stage["build"] != build]
        if other_stages:
            raise DataError(
                f"{self.folder} has {', '.join(other_stages)} made from other pairs or with another seed, options or "
                f"versions, which would not match; choose another --output, or also name them in {option}, too"
            )

    def checksums(self) -> Mapping[str, str]:
        """Return the sha256 of every file that a stage has written."""
        return {file: sha for stage in self._done.values() for file, sha in stage["files"].items()}


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _finished_in(file: Path) -> dict[str, JSON]:
    """Return the finished stages in a file. Raises `DataError` if no build has written it."""
    record = read_json(file, DataError, cure="delete it")
    kinds = {"build": str, "key": str, "files": dict, "notes": dict}
    if not isinstance(record, dict) or not all(
        isinstance(stage, dict) and all(isinstance(stage.get(name), kind) for name, kind in kinds.items())
        for stage in record.values()
    ):
        raise DataError(f"{file}: it was not written by a build; delete it")
    return record


class Writers:
    """Writers of JSON Lines files that replace older ones once all rows are written; a failed stage changes nothing."""

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
    """Return the sha256 of a file, or None if it does not exist, which is reported when it is read."""
    if file is None or not file.is_file():
        return None
    return digest_of_file(file).hex()


def package_versions(packages: Iterable[str]) -> dict[str, str | None]:
    """Return the installed versions of distributions, or None for those that are not installed."""
    versions: dict[str, str | None] = {}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return versions


def task_prefix(name: str) -> str:
    """Return a name in a form that task names may begin with. Raises `OptionError` if nothing is left of it."""
    prefix = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    if not prefix or not prefix[0].isalpha():
        raise OptionError(f"{name!r} cannot become a task name; give a --name that begins with a letter")
    return prefix


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; all columns but the first are right-aligned numbers."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
