"""An archive of answers and their cost on disk, so that a paid answer is not requested again by a later run.

It is one SQLite file, safe for several processes. An answer and its cost are one commit, so a kill at any moment loses
neither or both. It uses SQLite's rollback journal, because the faster write-ahead log fails on network folders.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from figeval.errors import RecordError
from figeval.io.files import home
from figeval.io.json_files import parse_json
from figeval.io.text import clean_json, valid
from figeval.types import Reply

from .api_settings import ApiSettings

TABLES = """
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spending (
    account TEXT PRIMARY KEY, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL) WITHOUT ROWID;
"""
PATIENCE = 60.0  # seconds that a process waits for another one's transaction
ELSEWHERE = "or set FIGEVAL_HOME to another folder"
STORED_FINISHES = ("stop", "length", "refusal")
AT_ONCE = 500  # keys per query; old versions of SQLite allow 999


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a model read and wrote."""

    tokens_in: int = 0
    tokens_out: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out)

    def __sub__(self, other: Usage) -> Usage:
        return Usage(self.tokens_in - other.tokens_in, self.tokens_out - other.tokens_out)

    @property
    def total(self) -> int:
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True, slots=True)
class PaidAnswer:
    """The tokens of one answer; the answer is None if it was lost in transit or must not be stored."""

    usage: Usage
    key: str = ""
    answer: str | None = None


class Archive:
    """Answers by key, and tokens by account (the owner of a budget)."""

    tables = TABLES

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def known(self, keys: Iterable[str]) -> dict[str, str]:
        """Return the stored answers to these keys; missing keys are left out."""
        wanted_keys = list(keys)
        replies: dict[str, str] = {}
        for begin in range(0, len(wanted_keys), AT_ONCE):
            part = wanted_keys[begin : begin + AT_ONCE]
            marks = ",".join("?" * len(part))
            replies.update(self._connection.execute(f"SELECT key, answer FROM answers WHERE key IN ({marks})", part))
        return replies

    def spent(self, account: str) -> Usage:
        """Return what all processes have charged to the account so far."""
        row = self._connection.execute("SELECT tokens_in, tokens_out FROM spending WHERE account = ?", [account])
        spent = row.fetchone() or (0, 0)
        if not all(isinstance(count, int) and count >= 0 for count in spent):
            raise damaged_archive(f"it records {spent} tokens as spent")
        return Usage(*spent)

    def record(self, account: str, entries: Sequence[PaidAnswer]) -> Usage:
        """Store answers and charge their cost to an account, in one commit; return the account's total."""
        with self._connection:
            self._store(account, entries)
            return self.spent(account)

    def _store(self, account: str, entries: Sequence[PaidAnswer]) -> None:
        used = sum((entry.usage for entry in entries), Usage())
        answers = [(entry.key, entry.answer) for entry in entries if entry.answer is not None]
        self._connection.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?)", answers)
        self._connection.execute(
            "INSERT INTO spending VALUES (?, ?, ?) ON CONFLICT (account) DO UPDATE SET "
            "tokens_in = tokens_in + excluded.tokens_in, tokens_out = tokens_out + excluded.tokens_out",
            (account, used.tokens_in, used.tokens_out),
        )


def damaged_archive(reason: str) -> RecordError:
    """Return the error for an archive that holds what nothing writes."""
    return RecordError(f"the reply cache is damaged, since {reason}; delete it, {ELSEWHERE}")


A = TypeVar("A", bound=Archive)


@contextmanager
def open_archive(file: Path, kind: Callable[[sqlite3.Connection], A] = Archive) -> Iterator[A]:  # type: ignore[assignment]
    """Open the archive in a file, which is created if it does not exist, as an `Archive` or a class derived from it.

    Raises:
        RecordError: the file cannot be written, is not an archive, or there is no space left.
    """
    try:  # private folder, because answers quote benchmarks
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise RecordError(f"cannot make {file.parent} ({reason}); free some space there {ELSEWHERE}") from error
    try:
        with closing(sqlite3.connect(file, timeout=PATIENCE, check_same_thread=False)) as connection:
            # One damaged answer must not make the others unreadable.
            connection.text_factory = lambda stored: stored.decode("utf-8", "replace")
            archive = kind(connection)
            connection.executescript(archive.tables)
            yield archive
    except sqlite3.Error as error:
        raise RecordError(
            f"cannot use the reply cache {file} ({error}); free some space, delete it if it is damaged, {ELSEWHERE}"
        ) from error


# ---- one answer ------------------------------------------------------------------------------------------------------


def archive_file() -> Path:
    """Return the path of the archive of finished replies, which all API models share."""
    return home() / "api_memo" / "answers.sqlite3"


def key_of(url: str, served_models: str, body: bytes, settings: ApiSettings, sample: int = 0) -> str:
    """Return a sha256 of the address, the models that its server lists, and the request without its key.

    The request includes model, conversation and decoding options. If answers are sampled, the seed is part of the key,
    so that another seed gets another sample, and so is the number of the sample after the first one.
    """
    seed = settings.seed if settings.may_vary else None
    parts = [url, served_models, body.decode("ascii"), seed, *([sample] if sample else [])]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def pack(reply: Reply) -> str:
    """Return a reply in its stored form, which is ASCII because UTF-8 cannot encode half a surrogate pair."""
    return json.dumps(asdict(reply))


def unpack(row: object) -> Reply | None:
    """Return a stored reply, or None if the row is damaged, so that the question is asked again."""
    if not isinstance(row, str) or not row.isascii():  # `pack` writes nothing else
        return None
    try:
        reply = Reply(**clean_json(parse_json(row), valid))
    except (TypeError, ValueError):
        return None
    texts = (reply.text, reply.reasoning, reply.error)
    counts = (reply.answer_tokens, reply.reasoning_tokens)
    is_valid = all(isinstance(text, str) for text in texts) and reply.finish in STORED_FINISHES
    is_valid = is_valid and all(count is None or (type(count) is int and count >= 0) for count in counts)
    return reply if is_valid else None
