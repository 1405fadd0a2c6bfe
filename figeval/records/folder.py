"""The folder of a run: `run.json` and `predictions/<task>.jsonl`, written so that a kill at any moment loses nothing.

Predictions are appended a line at a time and flushed; `run.json` is replaced atomically. A line cut short by a kill
is dropped when the run goes on.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from pydantic import ValidationError

from figeval.errors import RecordError
from figeval.locking import alone
from figeval.records.schema import SCHEMA_VERSION, RunRecord
from figeval.types import JSON

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class RunFolder:
    """Reads and writes one run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_file = path / "run.json"

    def predictions_file(self, task: str) -> Path:
        """Where the predictions of a task lie."""
        return self.path / "predictions" / f"{task}.jsonl"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and keep it for this process alone.

        Raises:
            RecordError: the folder cannot be written, or another process writes it.
        """
        with cure(self.path):
            self.predictions_file("x").parent.mkdir(parents=True, exist_ok=True)
            (self.path / ".lock").touch()  # no room, no permission: told as such
        refusal = RecordError(f"{self.path}: another figeval run is writing here; wait for it")
        with alone(self.path / ".lock", refusal):
            yield

    def read(self) -> RunRecord | None:
        """The record, None if there is none yet. Raises `RecordError` for a file that is no record of ours."""
        if not self.run_file.exists():
            return None
        return read_record(self.run_file)

    def write(self, record: RunRecord) -> None:
        """Replace `run.json` atomically."""
        draft = self.run_file.with_suffix(".json.part")
        with cure(self.run_file):
            draft.write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
            draft.replace(self.run_file)

    def rows(self, task: str) -> Iterator[JSON]:
        """The stored predictions of a task, one at a time; a last line cut short is left out.

        Raises:
            RecordError: a whole line is no JSON object.
        """
        for row, _ in indexed(self.predictions_file(task)):
            yield row

    def drop(self, task: str, unwanted: Callable[[JSON], bool]) -> int:
        """Take rows out, atomically: they are to be computed anew. How many there were."""
        file = self.predictions_file(task)
        kept, dropped = [], 0
        for row, place in indexed(file):
            if unwanted(row):
                dropped += 1
            else:
                kept.append(place)
        if dropped:
            rewrite(file, kept)
        return dropped

    def replace(self, task: str, rows: Iterable[JSON]) -> None:
        """Put other rows in the place of the stored ones, atomically."""
        file = self.predictions_file(task)
        with replacing(file) as stream:
            writer = PredictionWriter(stream, file)
            for row in rows:
                writer.write(row)

    def arrange(self, task: str, ids: Iterable[str], others: Sequence[RunFolder] = ()) -> int:
        """Put rows into the order of these ids, if they are not: what came later by a detour goes where it belongs.

        Rows that only the `others` have are taken in. Each id has one row in the end; how many there are then.
        """
        wanted = {name: rank for rank, name in enumerate(ids)}
        found: dict[str, Place] = {}
        for folder in (self, *others):
            for row, place in indexed(folder.predictions_file(task)):
                found.setdefault(row["id"], place)
        ranked = sorted(found, key=lambda name: wanted.get(name, len(wanted)))
        file = self.predictions_file(task)
        if ranked != list(found) or any(place.file != file for place in found.values()):
            rewrite(file, [found[name] for name in ranked])
        return len(ranked)

    @contextmanager
    def appending(self, task: str) -> Iterator[PredictionWriter]:
        """A writer that goes on after the last whole line.

        Raises:
            RecordError: no room or no permission; what was written stays.
        """
        file = self.predictions_file(task)
        with cure(file):
            drop_torn_line(file)
            stream = file.open("ab", buffering=0)
        with stream:
            yield PredictionWriter(stream, file)


class PredictionWriter:
    """Appends prediction rows, each handed to the operating system at once."""

    def __init__(self, stream: IO[bytes], file: Path) -> None:
        self._stream = stream
        self._file = file

    def write(self, row: JSON) -> None:
        """Append one row. Raises `RecordError` when there is no room; a half-written line is dropped on resume."""
        text = json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"
        line = text.encode("utf-8", "backslashreplace")  # half a surrogate pair becomes JSON's own \ud800
        with cure(self._file):
            while line:  # an unbuffered write may take only a part
                line = line[self._stream.write(line) :]


def parsed(line: bytes, file: Path, number: int) -> JSON:
    """One line of a predictions file."""
    try:
        row = json.loads(line)
    except ValueError as error:  # neither UTF-8 nor JSON
        raise RecordError(f"{file}, line {number}, is damaged ({error}); delete the file and run again") from error
    if not isinstance(row, dict) or "id" not in row:
        raise RecordError(f"{file}, line {number}, is no prediction; delete the file and run again")
    return row


class Place(NamedTuple):
    """Where a line is; `begin` and `length` are in bytes."""

    file: Path
    begin: int
    length: int


def indexed(file: Path) -> Iterator[tuple[JSON, Place]]:
    """The whole lines of a predictions file and where they are: memory does not grow with their length."""
    if not file.exists():
        return
    begin = 0
    with file.open("rb") as lines:  # bytes: a cut may go through a character
        for number, line in enumerate(lines, start=1):
            if line.endswith(b"\n"):
                yield parsed(line, file, number), Place(file, begin, len(line))
            begin += len(line)


def rewrite(file: Path, places: Sequence[Place]) -> None:
    """Replace a predictions file, atomically, by these lines of itself and of others."""
    with ExitStack() as opened, replacing(file) as new:
        old = {source: opened.enter_context(source.open("rb")) for source in {place.file for place in places}}
        for place in places:
            old[place.file].seek(place.begin)
            new.write(old[place.file].read(place.length))


@contextmanager
def replacing(file: Path) -> Iterator[IO[bytes]]:
    """A stream whose content takes the place of a predictions file, at once or not at all."""
    draft = file.with_suffix(".jsonl.part")
    with cure(file):
        with draft.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())  # other copies of these lines may be deleted next
        draft.replace(file)


def drop_torn_line(file: Path) -> None:
    """Cut a file back to its last line feed."""
    if not file.exists():
        return
    with file.open("rb+") as stream:
        size = end = stream.seek(0, 2)
        while end > 0:
            begin = max(0, end - 65536)
            stream.seek(begin)
            position = stream.read(end - begin).rfind(b"\n")
            if position >= 0:
                end = begin + position + 1
                break
            end = begin
        if end < size:
            stream.truncate(end)


@contextmanager
def cure(path: Path, option: str = "--output_path") -> Iterator[None]:
    """Turn the operating system's refusals into one line with a cure; `option` is the flag that names the place."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            message = f"no room left for {path}; what was written is kept: free some space and run the same command"
        else:
            message = f"cannot write {path} ({error.strerror or error}); choose another place with {option}"
        raise RecordError(message) from error


def read_record(file: Path) -> RunRecord:
    """A `run.json`. Raises `RecordError` when it is missing, of another version, or no record."""
    try:
        content: Any = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"cannot read {file} ({error.strerror}); give the folder of a run") from error
    except ValueError as error:
        raise RecordError(f"{file} is no JSON ({error}); it was not written by figeval") from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if str(version).partition(".")[0] != SCHEMA_VERSION.partition(".")[0]:
        raise RecordError(f"{file} has schema version {version}, this figeval reads {SCHEMA_VERSION}")
    try:
        return RunRecord.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise RecordError(f"{file}: {place}: {first['msg']}; it was not written by this version of figeval") from error


def find_record(path: Path) -> Path:
    """The `run.json` that a path means: the file itself or the folder that holds it."""
    return path / "run.json" if path.is_dir() else path
