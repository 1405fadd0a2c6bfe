"""The folder of a run, `run.json` and `predictions/<task>.jsonl`, written so that a kill at any moment loses nothing.

Predictions are appended line by line and flushed; `run.json` is replaced atomically. A line that a kill cut short is
dropped when the run resumes. The record of a finished task contains the sha256 of its predictions, and every later
reader of the task checks it first. Rows are written before the record; before the rows of a finished task change, the
record is written without the sha256.

A record contains the sha256 of each of its parts and that of its file. Scores can be recomputed, but times, versions,
the hardware and the command cannot; only a digest shows that a byte of these was changed. A digest that is stored with
what it describes detects damage and careless edits. It cannot detect a forger, who computes it again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from itertools import compress, count
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NotRequired,  # pydantic asks for this one before Python 3.12
)

from typing_extensions import TypedDict

from figeval.errors import FolderInUse, RecordError
from figeval.io.files import cure, locked, replace_text
from figeval.io.json_files import InvalidJSON, finite_json, parse_json, read_json
from figeval.io.text import clean_json, one_line, valid
from figeval.io.validation import validate
from figeval.records.earlier_versions import sort_warnings
from figeval.records.ids import Ids, digest_of, digests_of, find_repeated
from figeval.records.predictions import (
    MAX_BYTES,
    PredictionRow,
    PredictionWriter,
    appending_writer,
    replacing_writer,
    rewrite,
    rows_of,
)
from figeval.records.rows_file import find_rows_file, has_more_lines, is_own, open_rows, sha256_of
from figeval.records.schema import READABLE_VERSIONS, SCHEMA_VERSION, TASK_NAME, RunRecord, TaskRecord
from figeval.types import JSON, KeptReply, Reply

if TYPE_CHECKING:
    from pydantic import JsonValue, TypeAdapter

VERSION = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4}){0,2}")  # of the schema
SEEDS = "seeds.json"  # the record of several seeds, above the folders of their runs


class RunFolder:
    """Reader and writer of one run folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_file = path / "run.json"

    def predictions_file(self, task: str) -> Path:
        """Return the path of a task's predictions.

        Raises:
            RecordError: the name would lead out of the folder, or `predictions` is a symbolic link.
        """
        return self._file("predictions", task)

    def replies_file(self, task: str) -> Path:
        """Return the path of the replies that did not become rows. Raises `RecordError` like `predictions_file`."""
        return self._file("replies", task)

    def _file(self, kind: str, task: str) -> Path:
        if TASK_NAME.fullmatch(task) is None:
            raise RecordError(f"{self.path}: {one_line(task, 80)!r} is not a valid task name")
        return own_folder(self.path / kind) / f"{task}.jsonl"

    def has_predictions(self, task: str) -> bool:
        """Return whether a task has predictions, packed or not. Raises `RecordError` like `predictions_file`."""
        return find_rows_file(self.predictions_file(task)) is not None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create the folder and lock it for this process.

        Raises:
            RecordError: the folder cannot be written, or another process writes it.
        """
        lock = self.path / ".lock"
        with cure(self.path):
            self.predictions_file("x").parent.mkdir(parents=True, exist_ok=True)
            if not is_own(lock):
                lock.touch()  # fails here, with the right message, if there is no space or no permission
        refusal = FolderInUse(f"{self.path}: another figeval run is writing to this folder; wait for it")
        with locked(lock, refusal):
            yield

    def read(self) -> RunRecord | None:
        """Return the record, or None if there is none yet. Raises `RecordError` if `run.json` is not a record."""
        if not self.run_file.exists():
            return None
        return read_record(self.run_file)

    def write(self, record: RunRecord) -> None:
        """Replace `run.json` atomically, with new digests."""
        text = seal_record(record)
        with cure(self.run_file):
            replace_text(self.run_file, text)

    @property
    def has_rows(self) -> bool:
        """True if there are predictions or replies, merged or not."""
        kinds = (f"{folder}{kind}/*.jsonl" for folder in ("", "shards/*/") for kind in ("predictions", "replies"))
        return any(any(self.path.glob(kind)) for kind in kinds)

    def put_aside(self) -> None:
        """Move an earlier run to `earlier/<start time>-<identity>/`, where it remains readable.

        Runs of several seeds move together with their `seeds.json`. The records are moved last, so that the next call
        finishes a move that was killed.

        Raises:
            RecordError: the run cannot be moved, or a record is none.
        """
        seeds = sorted(self.path.glob("seed-*"))
        records = (self.run_file, *(seed / self.run_file.name for seed in seeds))
        first = next((read_record(file) for file in records if file.exists()), None)
        if first is None and not self.has_rows and not (seeds or (self.path / SEEDS).exists()):
            return
        name = "unknown" if first is None else f"{first.started}-{first.identity}"
        destination = own_folder(self.path / "earlier") / re.sub(r"[^0-9A-Za-z-]", "", name)[:40]
        while any((destination / last).exists() for last in (SEEDS, self.run_file.name)):
            destination = destination.with_name(f"{destination.name}-again")
        with cure(destination):
            destination.mkdir(parents=True, exist_ok=True)
            parts = ("predictions", "replies", "shards", "logs", *(seed.name for seed in seeds))
            for name in (*parts, SEEDS, self.run_file.name):
                if (self.path / name).exists() and not (destination / name).exists():
                    (self.path / name).rename(destination / name)
            self.predictions_file("x").parent.mkdir(exist_ok=True)

    def rows(self, task: str) -> Iterator[PredictionRow]:
        """Yield the stored predictions of a task one at a time, without a last line that was cut short.

        Raises:
            RecordError: a line is not a prediction; or, after the last row, two lines are about the same example.
        """
        file = self.predictions_file(task)
        seen = bytearray()
        for row in rows_of(file):
            seen += digest_of(row["id"])
            yield row
        if (twice := find_repeated(seen)) is not None:
            name = next(row["id"] for row in rows_of(file) if digest_of(row["id"]) == twice)
            raise RecordError(
                f"{file} has two rows for {one_line(name, 80)!r}; delete one of them, or resume the run, which keeps "
                "the first and asks again about examples without a row"
            )

    def seal(self, task: TaskRecord) -> None:
        """Flush a finished task's predictions to disk and put their sha256 into its record."""
        file = self.predictions_file(task.task)
        with cure(file), file.open("rb") as stream:
            os.fsync(stream.fileno())
        task.predictions_sha256 = sha256_of(file)

    def check(self, task: TaskRecord) -> None:
        """Check that the predictions of a finished task are unchanged since it was scored, and no more than examples.

        Records before 1.4 have no sha256, and records may be shared without predictions: both are accepted.

        Raises:
            RecordError: the predictions have been changed.
        """
        file = self.predictions_file(task.task)
        if not self.has_predictions(task.task):
            return
        digest = task.predictions_sha256 and sha256_of(file)
        if digest != task.predictions_sha256:
            raise RecordError(
                f"{file} has been changed since {task.task} was scored (its sha256 is "
                f"{digest:.8}…, not {task.predictions_sha256:.8}…); restore it, or move it away and run the same "
                "command again to recompute its predictions"
            )
        if task.status == "done" and has_more_lines(file, task.n):  # readers keep them in memory
            raise RecordError(
                f"{file} has more rows than {task.task} has examples ({task.n:,}); restore it, or move it away and run "
                "the same command again to recompute its predictions"
            )

    def changed_parts(self) -> list[str] | None:
        """Return the parts of `run.json` that differ from their digests (`figeval.records.run_folder`)."""
        return changed_parts(self.run_file)

    def is_torn(self, task: str) -> bool:
        """Return whether the predictions of a task do not end with a line feed."""
        file = self.predictions_file(task)
        last = b""
        with open_rows(find_rows_file(file) or file) as stream:
            while block := stream.read(1 << 20):
                last = block
        return bool(last) and not last.endswith(b"\n")

    def drop(self, task: str, unwanted: Callable[[PredictionRow], bool]) -> int:
        """Remove the unwanted rows atomically, so that they are computed anew; return how many were removed."""
        file = self.predictions_file(task)
        mask = bytearray(not unwanted(row) for row in rows_of(file))
        dropped = mask.count(0)
        if dropped:
            rewrite(file, [file], compress(count(), mask))
        return dropped

    def replace(self, task: str, rows: Iterable[PredictionRow]) -> None:
        """Replace the stored rows atomically."""
        with replacing_writer(self.predictions_file(task)) as writer:
            for row in rows:
                writer.write(row)

    def arrange(self, task: str, order: bytearray, other_folders: Sequence[RunFolder] = ()) -> int:
        """Sort the stored rows by these ids, given by their digests (`digests_of`), and return their number.

        Rows that only the `other_folders` have are added. In the end each id has one row, the first that was found;
        rows with other ids are dropped. The file is rewritten only if something changes.
        """
        file = self.predictions_file(task)
        files = [file, *(folder.predictions_file(task) for folder in other_folders)]
        stored_digests = digests_of(row["id"] for row in rows_of(file))
        all_digests = stored_digests + digests_of(row["id"] for other_file in files[1:] for row in rows_of(other_file))
        if all_digests == stored_digests == order:
            return len(Ids(stored_digests))
        positions = Ids(order).first_places(all_digests)
        lines = positions[positions >= 0]
        all_in_order = len(lines) == len(Ids(stored_digests)) and (lines[1:] > lines[:-1]).all()
        if not all_in_order or len(all_digests) > len(stored_digests):
            rewrite(file, files, map(int, lines))
        return len(lines)

    @contextmanager
    def appending(self, task: str) -> Iterator[PredictionWriter]:
        """Open the predictions for appending after the last complete line.

        Raises:
            RecordError: no space or no permission; what was already written stays.
        """
        with appending_writer(self.predictions_file(task)) as writer:
            yield writer

    def replies(self, task: str) -> dict[str, KeptReply]:
        """Return the replies that did not become rows of a task, because a reader or a metric failed on them.

        The keys are digests of requests (`figeval.models.batching.digest_of`). An invalid line is skipped: the only
        cost is that the model is asked again.
        """
        file = self.replies_file(task)
        if not is_own(file):
            return {}
        replies = {}
        with file.open("rb") as stream:
            for line in iter(partial(stream.readline, MAX_BYTES), b""):
                with suppress(ValueError):
                    record = _kept_reply().validate_json(line, strict=True)
                    replies[record["request"]] = KeptReply(_output(record), record["truncated"])
        return replies

    def keep_replies(self, task: str, replies: Mapping[str, KeptReply]) -> None:
        """Append replies that did not become rows. Raises `RecordError` if there is no space."""
        file = self.replies_file(task)
        with cure(file):
            file.parent.mkdir(exist_ok=True)
            with file.open("a", encoding="ascii") as stream:
                for request, (output, truncated) in replies.items():
                    reply = Reply(text=output) if isinstance(output, str) else output
                    finish = None if isinstance(output, str) else reply.finish
                    record: JSON = {
                        "text": reply.text,
                        "finish": finish,
                        "reasoning": reply.reasoning,
                        "truncated": truncated,
                    }
                    record |= {"answer_tokens": reply.answer_tokens, "reasoning_tokens": reply.reasoning_tokens}
                    stream.write(json.dumps(clean_json({"request": request, **record}, valid)) + "\n")

    def forget_replies(self, task: str) -> None:
        """Remove the kept replies of a task that has all its rows."""
        file = self.replies_file(task)
        file.unlink(missing_ok=True)
        with suppress(OSError):  # not there, or not empty
            file.parent.rmdir()


class _KeptReply(TypedDict):
    request: str  # digest of the request
    text: str
    finish: Literal["stop", "length", "refusal"] | None  # None: the model returned a plain string
    reasoning: str
    truncated: bool
    answer_tokens: NotRequired[int | None]
    reasoning_tokens: NotRequired[int | None]


def _output(record: _KeptReply) -> Reply | str:
    if record["finish"] is None:
        return record["text"]
    return Reply(
        text=record["text"],
        finish=record["finish"],
        reasoning=record["reasoning"],
        answer_tokens=record.get("answer_tokens"),
        reasoning_tokens=record.get("reasoning_tokens"),
    )


@lru_cache(maxsize=1)
def _kept_reply() -> TypeAdapter[_KeptReply]:
    """Return the validator for a line of replies, built on first use."""
    from pydantic import TypeAdapter

    return TypeAdapter(_KeptReply)


def own_folder(path: Path) -> Path:
    """Return a folder within a run folder. Raises `RecordError` if it is a symbolic link."""
    if path.is_symlink():
        raise RecordError(f"{path} is a symbolic link, which figeval does not follow inside a run folder; move it away")
    return path


def read_record(file: Path) -> RunRecord:
    """Read a `run.json`. Raises `RecordError` if it is missing, has another version, or is not a record."""
    read = clean_json(read_json(file, RecordError, cure="give a run folder that figeval wrote"))
    try:
        content: JsonValue = finite_json(read)  # earlier versions wrote NaN
    except InvalidJSON as error:
        raise RecordError(f"{file}: {error}; it was not written by figeval") from error
    version = one_line(str(content.get("schema_version") if isinstance(content, dict) else None), 20)
    if version.partition(".")[0] not in READABLE_VERSIONS or not VERSION.fullmatch(version):
        raise RecordError(f"{file} has schema version {version}, but this version of figeval reads {SCHEMA_VERSION}")
    record = validate(content, str(file), RunRecord, RecordError, cure="it was not written by this version of figeval")
    sort_warnings(record)
    return record


def find_record(path: Path) -> Path:
    """Return the `run.json` for a path, which is the file itself or its folder."""
    return path / "run.json" if path.is_dir() else path


def read_run(path: Path) -> tuple[RunRecord, RunFolder]:
    """Read a run's record and check its finished tasks; `path` is the folder or its `run.json`.

    Raises:
        RecordError: there is no record, or the predictions of a finished task have been changed.
    """
    file = find_record(path)
    record, folder = read_record(file), RunFolder(file.parent)
    for task in record.tasks:
        folder.check(task)
    return record, folder


FILE = "file"  # key of the digest of the whole file
EMPTY_DIGEST = "0" * 64  # stands in for that digest while it is computed


def seal_record(record: RunRecord) -> str:
    """Return the content of `run.json` for a record, whose `digests` are set.

    The digest of the file is computed with 64 zeros in its own place, so that it covers every other byte.
    """
    record.digests = {}
    digests = dict(_parts(parse_json(_text(record))))
    record.digests = {FILE: EMPTY_DIGEST, **digests}
    file_digest = hashlib.sha256(_text(record).encode()).hexdigest()
    record.digests = {FILE: file_digest, **digests}
    return _text(record)


def _text(record: RunRecord) -> str:
    try:
        return record.model_dump_json(indent=1) + "\n"
    except ValueError:  # a model's description may contain half a surrogate pair, which UTF-8 cannot encode
        return RunRecord.model_validate(clean_json(record.model_dump(), valid)).model_dump_json(indent=1) + "\n"


def changed_parts(file: Path) -> list[str] | None:
    """Return the parts of a record that differ from their digests, e.g. `model` or `tasks/mini_proverbs`.

    The list is `["layout"]` if only bytes outside the values differ (spaces, the order of keys, the digest of the
    file). The result is None if the record has no digests.

    Raises:
        RecordError: the file cannot be read, or is not the record of a run.
    """
    try:
        data = file.read_bytes()
        content = parse_json(data)
    except (OSError, InvalidJSON) as error:
        raise RecordError(f"cannot read {file} ({getattr(error, 'strerror', None) or error})") from error
    digests: Mapping[str, Any] = content.get("digests") or {}
    if not digests:
        return None
    current_digests = dict(_parts(content))
    names = dict.fromkeys((*digests, *current_digests))
    changed = [name for name in names if name != FILE and digests.get(name) != current_digests.get(name)]
    stored = str(digests.get(FILE))
    file_digest = hashlib.sha256(data.replace(stored.encode(), EMPTY_DIGEST.encode(), 1)).hexdigest()
    return changed or ([] if file_digest == stored else ["layout"])


def _parts(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name and the digest of each part: a task, or another field of the record."""
    for key, value in content.items():
        if key == "tasks":
            for task in value:
                yield f"tasks/{task.get('task')}", _digest(task)
        elif key != "digests":
            yield key, _digest(value)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
