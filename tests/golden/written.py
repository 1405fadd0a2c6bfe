"""Files that a command has written, as values that JSON can hold."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.golden.markup import page

TIME = re.compile(rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")  # a file that differs in nothing else is not written anew
PRIVATE_FOLDERS = ("home",)  # folder of `FIGEVAL_HOME`, with remembered replies


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file below a folder without the times in it, by its path there."""
    files = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}
    return {
        name: hashlib.sha256(TIME.sub(b"", file.read_bytes())).hexdigest()
        for name, file in sorted(files.items())
        if name.split("/")[0] not in PRIVATE_FOLDERS and file.suffix != ".lock" and file.name != ".lock"
    }


def written(folder: Path, before: Mapping[str, str]) -> dict[str, Any]:
    """Return the content of each file that is new or changed since `before`, which `digests` returned.

    The rows of a run belong to its record, so both are one entry under the name of `run.json`.
    """
    changed = [name for name, digest in digests(folder).items() if before.get(name) != digest]
    rows = {name: record for name in changed if (record := record_of(folder / name)) is not None}
    names = dict.fromkeys(rows[name].relative_to(folder).as_posix() if name in rows else name for name in changed)
    return {name: content(folder / name) for name in sorted(names)}


def record_of(file: Path) -> Path | None:
    """Return the record of the run to which a file of predictions belongs; None for any other file."""
    record = file.parent.parent / "run.json"
    return record if file.parent.name == "predictions" and record.is_file() else None


def run_record(file: Path) -> Any:
    """Return the record of a run with the rows of each task."""
    record = json.loads(file.read_text("utf-8"))
    for task in record["tasks"]:
        stored = file.parent / task["predictions"]
        task["rows"] = list(json_lines(stored.read_text("utf-8"))) if stored.is_file() else None
        task["error"] = task["error"] and task["error"].strip().splitlines()[-1]
    return record


def content(file: Path) -> Any:
    """Return the content of a file by its kind: parsed, as rows or lines, and for binary files their SHA-256."""
    read = BY_NAME.get(file.name) or READERS.get(file.suffix, text_or_digest)
    return read(file)


def json_lines(text: str) -> Iterator[Any]:
    """Yield the rows of JSONL; a line that an interruption cut is given as text."""
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            yield {"cut off": line}


def table_rows(file: Path) -> Any:
    """Return the column types and the rows of a Parquet file."""
    from pyarrow import parquet

    table = parquet.read_table(file)
    return {"types": {column.name: str(column.type) for column in table.schema}, "rows": table.to_pylist()}


def text_or_digest(file: Path) -> Any:
    """Return the lines of a text, or the SHA-256 of what is none."""
    data = file.read_bytes()
    try:
        return data.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def manifest(file: Path) -> Any:
    """Return the files of a site; their digests depend on the time at which they were written."""
    return sorted(json.loads(file.read_text("utf-8"))["files"])


BY_NAME: dict[str, Callable[[Path], Any]] = {"run.json": run_record, "figeval-board.json": manifest}
READERS: dict[str, Callable[[Path], Any]] = {
    ".json": lambda file: json.loads(file.read_text("utf-8")),
    ".jsonl": lambda file: list(json_lines(file.read_text("utf-8"))),
    ".gz": lambda file: list(json_lines(gzip.decompress(file.read_bytes()).decode("utf-8"))),
    ".parquet": table_rows,
    ".html": lambda file: page(file.read_text("utf-8")),
}
