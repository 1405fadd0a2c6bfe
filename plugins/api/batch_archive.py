"""Batches of requests on disk: which were submitted, under which name the server knows them, and what they may cost.

They are tables of the archive of answers, so that an answer, its cost and the state of its request are one commit.
A batch is written down before it is submitted (`begin`), and its name at the server as soon as that is known
(`created`), so a process may be killed at any moment without a batch being lost or submitted twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from figeval.io.text import one_line

from .archive import Archive, PaidAnswer, Usage, damaged_archive

TABLES = """
CREATE TABLE IF NOT EXISTS batches (
    label TEXT PRIMARY KEY, account TEXT NOT NULL, url TEXT NOT NULL, name TEXT NOT NULL, requests INTEGER NOT NULL,
    began REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batch_requests (
    label TEXT NOT NULL, key TEXT NOT NULL, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL,
    state TEXT NOT NULL, PRIMARY KEY (label, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS other_batches (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS guessed_batches (label TEXT PRIMARY KEY) WITHOUT ROWID;
"""

LONGEST_NAME = 200  # characters of an id at a server
BATCHED = "/batched"  # ends the name of the account that counts what batches have used


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch that has requests without an answer.

    Attributes:
        label: our own name for it, a digest of its requests.
        name: its id at the server; empty while it is not known whether the server has received it.
        requests: number of its requests.
        began: when it was about to be submitted, in seconds since 1970.
    """

    label: str
    name: str
    requests: int
    began: float


class BatchArchive(Archive):
    """An archive that also knows the batches whose answers it waits for. Its file may hold both."""

    tables = Archive.tables + TABLES

    def open_batches(self, account: str) -> list[StoredBatch]:
        """Return the batches of an account with requests that wait for an answer, oldest first.

        Raises:
            RecordError: the file is damaged.
        """
        cursor = self._connection.execute(
            "SELECT label, name, requests, began FROM batches WHERE account = ? AND EXISTS (SELECT 1 FROM "
            "batch_requests WHERE batch_requests.label = batches.label AND state = 'sent') ORDER BY began",
            [account],
        )
        batches = [StoredBatch(*row) for row in cursor]
        for batch in batches:
            kinds = (type(batch.name), type(batch.requests), type(batch.began))
            if kinds != (str, int, float) or len(batch.name) > LONGEST_NAME:
                raise damaged_archive(f"the batch {one_line(str(batch.label), LONGEST_NAME)} is recorded wrongly")
        return batches

    def waiting(self, account: str) -> dict[str, Usage]:
        """Return the requests of an account that wait for the answer of a batch, with what they may use.

        Raises:
            RecordError: the file is damaged.
        """
        cursor = self._connection.execute(
            "SELECT key, tokens_in, tokens_out FROM batch_requests JOIN batches USING (label) "
            "WHERE account = ? AND state = 'sent'",
            [account],
        )
        return estimates(cursor)

    def names(self) -> set[str]:
        """Return the ids at servers of all batches that are known, be they ours or not."""
        cursor = self._connection.execute("SELECT name FROM batches UNION SELECT name FROM other_batches")
        return {name for (name,) in cursor}

    def submitted(self, account: str) -> list[str]:
        """Return the ids at the server of all batches of an account, oldest first."""
        cursor = self._connection.execute(
            "SELECT name FROM batches WHERE account = ? AND name != '' ORDER BY began", [account]
        )
        return [name for (name,) in cursor]

    def attempts(self, account: str, keys: Iterable[str]) -> dict[str, int]:
        """Return how often each of these requests was submitted without an answer."""
        failed: dict[str, int] = {}
        wanted_keys = set(keys)
        cursor = self._connection.execute(
            "SELECT key, COUNT(*) FROM batch_requests JOIN batches USING (label) "
            "WHERE account = ? AND state = 'failed' GROUP BY key",
            [account],
        )
        failed.update((key, count) for key, count in cursor if key in wanted_keys)
        return failed

    def begin(self, label: str, account: str, url: str, requests: Mapping[str, Usage]) -> None:
        """Write down that a batch with these requests is about to be submitted."""
        with self._connection:
            self._connection.execute("DELETE FROM batch_requests WHERE label = ?", [label])  # of a batch that is gone
            self._connection.execute(
                "INSERT INTO batches VALUES (?, ?, ?, '', ?, ?)", [label, account, url, len(requests), time.time()]
            )
            self._connection.executemany(
                "INSERT INTO batch_requests VALUES (?, ?, ?, ?, 'sent')",
                [(label, key, usage.tokens_in, usage.tokens_out) for key, usage in requests.items()],
            )

    def created(self, label: str, name: str, *, guessed: bool = False) -> None:
        """Write down the id of a batch at the server; it is a guess if it is that of a batch that looks like ours."""
        with self._connection:
            self._connection.execute("UPDATE batches SET name = ? WHERE label = ?", [name, label])
            self._connection.execute("DELETE FROM guessed_batches WHERE label = ?", [label])
            if guessed:
                self._connection.execute("INSERT INTO guessed_batches VALUES (?)", [label])

    def is_guessed(self, label: str) -> bool:
        """Return whether the id of a batch at the server is a guess."""
        cursor = self._connection.execute("SELECT 1 FROM guessed_batches WHERE label = ?", [label])
        return cursor.fetchone() is not None

    def has(self, label: str) -> bool:
        return self._connection.execute("SELECT 1 FROM batches WHERE label = ?", [label]).fetchone() is not None

    def never_created(self, label: str) -> None:
        """Forget a batch that did not reach the server."""
        with self._connection:
            self._connection.execute("DELETE FROM batches WHERE label = ?", [label])
            self._connection.execute("DELETE FROM batch_requests WHERE label = ?", [label])

    def not_ours(self, label: str, name: str) -> None:
        """Write down that the batch with this id, which was taken for ours, is somebody else's."""
        with self._connection:
            self._connection.execute("INSERT OR IGNORE INTO other_batches VALUES (?)", [name])
            self._connection.execute("UPDATE batches SET name = '' WHERE label = ?", [label])

    def collected(self, account: str, label: str, answers: Sequence[PaidAnswer], failed: Iterable[str] = ()) -> None:
        """Store answers of a batch and charge the account, once for each request, however often they are collected.

        Args:
            account: account that pays.
            label: the batch.
            answers: answers by key.
            failed: keys of requests that got none.
        """
        with self._connection:
            for entry in answers:
                changed = self._connection.execute(
                    "UPDATE batch_requests SET state = 'answered' WHERE label = ? AND key = ? AND state = 'sent'",
                    [label, entry.key],
                )
                if changed.rowcount:
                    self._store(account, [entry])
                    self._store(f"{account}{BATCHED}", [PaidAnswer(entry.usage)])
            self._connection.executemany(
                "UPDATE batch_requests SET state = 'failed' WHERE label = ? AND key = ? AND state = 'sent'",
                [(label, key) for key in failed],
            )

    def batched(self, account: str) -> Usage:
        """Return the part of what was charged to the account that batches have used."""
        return self.spent(f"{account}{BATCHED}")

    def unanswered(self, label: str) -> dict[str, Usage]:
        """Return the requests of a batch that wait for an answer, with what they may use."""
        cursor = self._connection.execute(
            "SELECT key, tokens_in, tokens_out FROM batch_requests WHERE label = ? AND state = 'sent'", [label]
        )
        return estimates(cursor)

    def count(self, account: str) -> int:
        """Return the number of batches that an account has submitted."""
        (number,) = self._connection.execute("SELECT COUNT(*) FROM batches WHERE account = ?", [account]).fetchone()
        return int(number)


def estimates(rows: Iterable[tuple[str, int, int]]) -> dict[str, Usage]:
    """Return what requests may use, by key. Raises `RecordError` for what is no number of tokens."""
    usages = {key: Usage(read, wrote) for key, read, wrote in rows}
    for used in usages.values():
        if not all(type(count) is int and count >= 0 for count in (used.tokens_in, used.tokens_out)):
            raise damaged_archive("a request of a batch is recorded wrongly")
    return usages
