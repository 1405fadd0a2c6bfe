"""Digests of a record, which show whether and where `run.json` was changed after figeval wrote it.

A record contains the sha256 of each of its parts and that of its file. Scores can be recomputed, but times, versions,
the hardware and the command cannot; only a digest shows that a byte of these was changed. A digest that is stored with
what it describes detects damage and careless edits. It cannot detect a forger, who computes it again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from figeval.errors import RecordError
from figeval.io.json_files import InvalidJSON, parse_json
from figeval.io.text import cleaned, valid
from figeval.records.schema import RunRecord

FILE = "file"  # key of the digest of the whole file
EMPTY = "0" * 64  # stands in for that digest while it is computed


def sealed(record: RunRecord) -> str:
    """Return the content of `run.json` for a record, whose `digests` are set.

    The digest of the file is computed with 64 zeros in its own place, so that it covers every other byte.
    """
    record.digests = {}
    digests = dict(_parts(parse_json(_text(record))))
    record.digests = {FILE: EMPTY, **digests}
    file_digest = hashlib.sha256(_text(record).encode()).hexdigest()
    record.digests = {FILE: file_digest, **digests}
    return _text(record)


def _text(record: RunRecord) -> str:
    try:
        return record.model_dump_json(indent=1) + "\n"
    except ValueError:  # a model's description may contain half a surrogate pair, which UTF-8 cannot encode
        return RunRecord.model_validate(cleaned(record.model_dump(), valid)).model_dump_json(indent=1) + "\n"


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
    file_digest = hashlib.sha256(data.replace(stored.encode(), EMPTY.encode(), 1)).hexdigest()
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
