"""Answers that the page of `figeval annotate serve` stores: one file per annotator, one line of JSON per answer.

    journal = Journal(folder, "kim")
    journal.append(PageAnswer(annotator="kim", item="7", criterion="fluency", label="4", time="2026-01-31T23:59:59Z"))
    journal.answers()[("7", "fluency")].label

Lines are only appended, and each is on disk before `append` returns, so a process that is killed loses nothing that it
has confirmed. If an annotator answers again, the last line counts. A last line that a crash cut short never was
confirmed: it is ignored when the file is read, and replaced by the next answer.
"""

from __future__ import annotations

import errno
import json
import os
import re
import unicodedata
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from figeval import DataError, OptionError
from figeval.io.json_files import InvalidJSON, parse_json
from figeval.io.validation import validate

PREFIX, SUFFIX = "answers_", ".jsonl"
NAME = re.compile(r"[\w-]{1,40}")
CURE = "correct or remove the line"


class PageAnswer(BaseModel):
    """One answer of an annotator; the label is empty if an earlier answer was withdrawn. `time` is in UTC."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    annotator: str
    item: str
    criterion: str
    label: str
    time: str


class Journal:
    """The answers of one annotator in a folder. The file is created by the first answer."""

    def __init__(self, folder: Path, annotator: str) -> None:
        self.annotator = annotator
        self.file = folder / f"{PREFIX}{annotator}{SUFFIX}"

    def answers(self) -> dict[tuple[str, str], PageAnswer]:
        """Return the last answer to each (item, criterion), without withdrawn ones.

        Raises:
            DataError: the file cannot be read, a line other than an incomplete last one is damaged, or an answer is
                another annotator's.
        """
        answers = {(answer.item, answer.criterion): answer for _, answer in numbered_answers(self.file)}
        return {question: answer for question, answer in answers.items() if answer.label}

    def append(self, answer: PageAnswer) -> None:
        """Store an answer on disk.

        Raises:
            OSError: the answer could not be stored; the file is as before.
        """
        line = (json.dumps(answer.model_dump()) + "\n").encode()
        is_new = not self.file.exists()
        if not is_new and not self.file.is_file():  # reading a pipe may never end
            raise OSError(errno.EINVAL, f"{self.file.name} is not a regular file")
        with open_stored(self.file) as stream:
            content = stream.readall()
            complete, rest = _split_last_line(content)
            valid = content if rest and _is_object(rest) else complete
            line_end = b"" if valid.endswith(b"\n") or not valid else b"\n"
            try:
                stream.truncate(len(valid))
                stream.seek(len(valid))
                write_bytes(stream.fileno(), line_end + line)
                os.fsync(stream.fileno())
            except OSError:
                stream.truncate(len(valid))
                raise
        if is_new and hasattr(os, "O_DIRECTORY"):
            folder = os.open(self.file.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)  # the name of the file, too
            finally:
                os.close(folder)


def find_journals(folder: Path) -> tuple[Journal, ...]:
    """Return the journals in a folder, in the order of the annotators' names."""
    names = sorted(file.name[len(PREFIX) : -len(SUFFIX)] for file in folder.glob(f"{PREFIX}*{SUFFIX}"))
    return tuple(Journal(folder, name) for name in names if NAME.fullmatch(name))


def find_journal(folder: Path, name: str) -> Journal:
    """Return the journal of an annotator; an existing one is also found if its letters are of another case.

    Raises:
        OptionError: the name cannot be part of a file name.
    """
    spelled = unicodedata.normalize("NFC", name).strip()
    if not NAME.fullmatch(spelled):
        raise OptionError(
            f"{name!r:.60} is no name for an annotator; use up to 40 letters, digits, hyphens and underscores"
        )
    existing = (journal for journal in find_journals(folder) if _lower(journal.annotator) == _lower(spelled))
    return next(existing, Journal(folder, spelled))


def _lower(name: str) -> str:
    # Its case is not folded: that makes "SS" of "ß", and two people one.
    return unicodedata.normalize("NFC", name).lower()


def is_journal(file: Path) -> bool:
    return file.name.startswith(PREFIX) and file.suffix == SUFFIX


def numbered_answers(file: Path) -> Iterator[tuple[int, PageAnswer]]:
    """Yield the answers in a file in their order, each with its line, counted from 1; no file has no answers.

    Raises:
        DataError: the file cannot be read, a line other than an incomplete last one is damaged, or an answer is by
            another annotator than the one whom the file is named after, or than the answers before it.
    """
    content = read_stored(file)
    name = file.name.removeprefix(PREFIX).removesuffix(SUFFIX)
    annotator = name if NAME.fullmatch(name) else None
    for number, answer in _parse_answers(file, content):
        annotator = annotator or answer.annotator
        if _lower(answer.annotator) != _lower(annotator):
            raise DataError(
                f"{file}:{number}: an answer of {answer.annotator!r:.60} among those of {annotator!r:.60}; give the "
                "file its right name, or remove the line"
            )
        yield number, answer


def read_stored(file: Path) -> bytes:
    """Return the content of a file to which lines are appended; empty if it does not exist. Raises `DataError`."""
    try:
        if file.exists() and not file.is_file():  # reading a pipe may never end
            raise DataError(f"{file} is not a regular file; remove it")
        return file.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror}); make it readable") from error


def open_stored(file: Path) -> FileIO:
    """Open such a file, without a buffer and at its beginning; it is created if it does not exist."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(file, flags, 0o666), "r+b", buffering=0)


def _parse_answers(file: Path, content: bytes) -> Iterator[tuple[int, PageAnswer]]:
    complete, rest = _split_last_line(content)
    lines = [*complete.splitlines(), *([rest] if _is_object(rest) else [])]
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except InvalidJSON as error:
            raise DataError(f"{file}:{number}: not valid JSON: {error}; {CURE}") from error
        yield number, validate(row, f"{file}:{number}", PageAnswer, DataError, cure=CURE)


def _split_last_line(content: bytes) -> tuple[bytes, bytes]:
    end = content.rfind(b"\n") + 1
    return content[:end], content[end:]


def _is_object(line: bytes) -> bool:
    try:  # a last line may lack nothing but its line feed, which some editors remove
        return isinstance(parse_json(line), dict)
    except InvalidJSON:
        return False


def write_bytes(descriptor: int, line: bytes) -> None:
    """Write all bytes, however few the system takes at a time."""
    while line:
        line = line[os.write(descriptor, line) :]
