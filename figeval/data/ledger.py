"""The ledger of the cache: where each file came from and when, in `<home>/data/<benchmark>/.fetched.json`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from figeval.data.sources import DataFile
from figeval.jsonfile import parse_json
from figeval.resources import home
from figeval.storage import replace_text


class Entry(TypedDict):
    """Where a cached file came from (an address, or the path in a mirror folder), when, and what it was."""

    origin: str
    fetched: str
    sha256: str
    bytes: int


def note(file: DataFile, origin: str) -> None:
    """Write down where a file of the cache came from. The caller holds the lock of the benchmark's folder."""
    book = _book(file)
    when = datetime.now(UTC).isoformat(timespec="seconds")
    source = file.source
    entry: Entry = {"origin": origin, "fetched": when, "sha256": source.sha256, "bytes": source.bytes}
    replace_text(book, json.dumps({**_entries(book), source.path: entry}, indent=1, sort_keys=True) + "\n")


def entry_of(file: DataFile) -> Entry | None:
    """What is known of a cached file; None if nothing is."""
    return _entries(_book(file)).get(file.source.path)


def _book(file: DataFile) -> Path:
    return home() / "data" / file.benchmark / ".fetched.json"


def _entries(book: Path) -> dict[str, Entry]:
    """All entries; none where the file is missing or damaged, since the sums of the files are what counts."""
    try:
        found = parse_json(book.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
