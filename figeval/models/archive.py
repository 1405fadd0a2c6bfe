"""Answers kept on disk between runs, and what they cost: what was paid for once is not asked again.

One SQLite file, safe for several processes. An answer and its price are one commit, so a kill at any moment loses
neither or both. SQLite's plain journal is used: the faster one does not work on network folders.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from figeval.errors import RecordError

TABLES = """
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spending (
    account TEXT PRIMARY KEY, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL) WITHOUT ROWID;
"""
PATIENCE = 60.0  # seconds that a process waits for another one's transaction
ELSEWHERE = "or set FIGEVAL_HOME to another folder"
AT_ONCE = 500  # keys in one query; old versions of SQLite take 999


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
        """Both together."""
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True, slots=True)
class PaidAnswer:
    """The tokens of one answer; the answer is None where it was lost on its way or is not to be kept."""

    usage: Usage
    key: str = ""
    answer: str | None = None


class Archive:
    """Answers by key, and tokens by account (whoever a budget belongs to)."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def known(self, keys: Iterable[str]) -> dict[str, str]:
        """Key → answer for those of the keys that are there."""
        wanted = list(keys)
        found: dict[str, str] = {}
        for begin in range(0, len(wanted), AT_ONCE):
            part = wanted[begin : begin + AT_ONCE]
            marks = ",".join("?" * len(part))
            found.update(self._connection.execute(f"SELECT key, answer FROM answers WHERE key IN ({marks})", part))
        return found

    def spent(self, account: str) -> Usage:
        """What the account has been charged so far, by whatever process."""
        row = self._connection.execute("SELECT tokens_in, tokens_out FROM spending WHERE account = ?", [account])
        spent = row.fetchone() or (0, 0)
        if not all(isinstance(count, int) and count >= 0 for count in spent):
            raise RecordError(f"the memo is damaged: it says that {spent} tokens were spent; delete it, {ELSEWHERE}")
        return Usage(*spent)

    def record(self, account: str, entries: Sequence[PaidAnswer]) -> Usage:
        """Keep answers and add what they cost to an account, with one commit; what the account has spent in all."""
        used = sum((entry.usage for entry in entries), Usage())
        answers = [(entry.key, entry.answer) for entry in entries if entry.answer is not None]
        with self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?)", answers)
            self._connection.execute(
                "INSERT INTO spending VALUES (?, ?, ?) ON CONFLICT (account) DO UPDATE SET "
                "tokens_in = tokens_in + excluded.tokens_in, tokens_out = tokens_out + excluded.tokens_out",
                (account, used.tokens_in, used.tokens_out),
            )
            return self.spent(account)


@contextmanager
def open_archive(file: Path) -> Iterator[Archive]:
    """The archive in a file, made if it is not there.

    Raises:
        RecordError: the file cannot be written, is none of ours, or there is no room left.
    """
    try:  # only its owner may read the folder: answers quote benchmarks
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        why = error.strerror or error
        raise RecordError(f"cannot make {file.parent} ({why}); make room there {ELSEWHERE}") from error
    try:
        with closing(sqlite3.connect(file, timeout=PATIENCE, check_same_thread=False)) as connection:
            # One damaged answer must not cost the others.
            connection.text_factory = lambda stored: stored.decode("utf-8", "replace")
            connection.executescript(TABLES)
            yield Archive(connection)
    except sqlite3.Error as error:
        raise RecordError(
            f"cannot use the memo {file} ({error}); make room, delete it if it is damaged, {ELSEWHERE}"
        ) from error
