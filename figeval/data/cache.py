"""Find upstream files in the cache, in mirrors and upstream, and check the sha256 of each.

* The cache is `FIGEVAL_HOME` (default: the user's cache folder); files lie at `<home>/data/<benchmark>/<path>`.
* `FIGEVAL_DATA_MIRROR` lists folders and http(s) addresses with the layout `<benchmark>/<path>`, separated by commas
  or, like PATH, by `:` (`;` on Windows; only a comma separates after an address, since addresses contain colons). A
  run uses a file of a mirror folder in place; one from an address is downloaded into the cache.
* `figeval data fetch` puts every file into the cache, so that they are still available without the variable. Files of
  a mirror folder are copied, not linked, so that edits of the mirror do not change the cache. The ledger of the cache
  records where each file came from.
* If a place does not have the file or cannot be reached, the next one is tried. A wrong checksum is an error at once,
  since it means that somebody's copy is broken.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypedDict
from urllib.parse import quote

from figeval.data import download as web
from figeval.data.sources import DataFile, data_file
from figeval.errors import DataError, MissingData
from figeval.io.files import digest_of_file, expand_user, home, replace_text
from figeval.io.json_files import parse_json

requested_copies: set[str] = set()  # names that `copies` was asked for in this process, which --data may have misspelt
State = Literal["cached", "mirror", "missing", "corrupt"]


@dataclass(frozen=True, slots=True)
class Status:
    """Location of a file on this machine; `path` is None if it is missing."""

    file: DataFile
    state: State
    path: Path | None


def mirrors() -> list[str]:
    """Return the folders and addresses of `FIGEVAL_DATA_MIRROR`, in order."""
    listed = os.environ.get("FIGEVAL_DATA_MIRROR", "")
    parts = re.split(rf",|{re.escape(os.pathsep)}(?=https?://)", listed)
    split = ([part] if is_address(part.strip()) else part.split(os.pathsep) for part in parts)
    return [address.strip() for addresses in split for address in addresses if address.strip()]


def copies(benchmark: str) -> list[Path]:
    """Return the folders that may hold a user's own copy of a benchmark that figeval cannot fetch.

    First those of `FIGEVAL_DATA_COPIES` (`storal=FOLDER`, several separated by commas), which `--data` adds to, then
    the folder of that name in each mirror. Folders that do not exist are left out. No file of a copy has a known
    checksum.
    """
    requested_copies.add(benchmark)
    listed = (part.partition("=") for part in os.environ.get("FIGEVAL_DATA_COPIES", "").split(","))
    folders = [
        expand_user(folder.strip()) for name, _, folder in listed if name.strip() == benchmark and folder.strip()
    ]
    mirrored = [expand_user(mirror) / benchmark for mirror in mirrors() if not is_address(mirror)]
    return [folder for folder in (*folders, *mirrored) if folder.is_dir()]


def is_address(address: str) -> bool:
    """Return whether a mirror is an http(s) address."""
    return address.startswith(("http://", "https://"))


def cached_path(file: DataFile) -> Path:
    """Return the path of a file in the cache, whether it exists or not."""
    return home() / "data" / file.benchmark / file.source.path


def fetch(benchmark: str, path: str) -> Path:
    """Return the local path of an upstream file listed in a `sources.yaml`; this is `DataContext.fetch`.

    Raises:
        UnknownName: no plugin lists this benchmark.
        DataError: the file is not listed, cannot be obtained, or has a wrong checksum.
    """
    return obtain(data_file(benchmark, path))


def obtain(file: DataFile) -> Path:
    """Return the local path of a file, downloading it if necessary. Raises `DataError` like `fetch`."""
    cached = cached_path(file)
    return verify_checksum(cached, file) if cached.is_file() else _search(file, force=False)


def store(file: DataFile, *, force: bool = False) -> Path:
    """Return the path of a file in the cache, adding it if necessary; `force` replaces a cached file.

    Raises:
        DataError: as in `fetch`, or the cache cannot be written.
    """
    cached = cached_path(file)
    if cached.is_file() and not force:
        return verify_checksum(cached, file)
    source = _search(file, force)
    return source if source == cached else _copy_file(source, file)


def _search(file: DataFile, force: bool) -> Path:
    """Return the file from the first place that has it: in place in a mirror folder, or downloaded to the cache."""
    failures = []
    for address in [*mirrors(), file.source.url]:
        try:
            if is_address(address):
                return _from_address(address, file, force)
            path = expand_user(address) / file.name
            if path.is_file():
                return verify_checksum(path, file)
            failures.append(f"not in {address}" if expand_user(address).is_dir() else f"{address} is not a folder")
        except web.Unavailable as error:
            failures.append(str(error))
    raise MissingData(
        f"{file.name} is not on this machine and cannot be downloaded: {'; '.join(failures)}. With a network run "
        f"`figeval data fetch {file.benchmark}`; without one set FIGEVAL_DATA_MIRROR to a folder that holds {file.name}"
    )


def _from_address(address: str, file: DataFile, force: bool) -> Path:
    """Download the file into the cache, from upstream or a mirror; one process at a time per benchmark."""
    target = cached_path(file)
    with _writing(file):
        if force or not target.is_file():  # another process may have downloaded it in the meantime
            _download(address, file, target)
            _note(file, address)
        return verify_checksum(target, file)


def _copy_file(source: Path, file: DataFile) -> Path:
    """Copy the file into the cache; a copy is renamed only when it is complete and has the right checksum."""
    target = cached_path(file)
    part = target.with_name(f"{target.name}.part")
    with _writing(file):
        try:
            shutil.copyfile(source, part)
            if digest_of_file(part).hex() != file.source.sha256:
                raise DataError(
                    f"{source} changed while it was copied; run `figeval data fetch {file.benchmark}` again"
                )
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        _note(file, str(source.absolute()))
    return target


@contextmanager
def _writing(file: DataFile) -> Iterator[None]:
    """Lock a benchmark's folder in the cache for writing. Raises `DataError` if it cannot be written."""
    from filelock import FileLock

    target = cached_path(file)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(home() / "data" / f".{file.benchmark}.lock"):
            yield
    except OSError as error:
        raise DataError(
            f"cannot write {target} ({error.strerror or error}); free some space there or set FIGEVAL_HOME "
            f"to another folder"
        ) from error


def _download(address: str, file: DataFile, target: Path) -> None:
    if address != file.source.url:
        web.download(f"{address.rstrip('/')}/{quote(file.name)}", file, target)
    elif file.source.member is None:
        web.download(address, file, target)
    else:
        web.download_member(address, file, target)


def verify_checksum(path: Path, file: DataFile) -> Path:
    """Return the path if its checksum is right. Raises `DataError` with both checksums and the cure."""
    actual = digest_of_file(path).hex()
    if actual == file.source.sha256:
        return path
    mine = path == cached_path(file)
    cure = f"run `figeval data fetch --force {file.benchmark}`" if mine else "replace it in that mirror"
    raise DataError(f"{path} is corrupt: sha256 is {actual}, expected {file.source.sha256}; {cure}")


def status(file: DataFile) -> Status:
    """Return the location of a file without using the network. A corrupt file is reported and not raised."""
    for state, path in candidates(file):
        if path.is_file():
            return Status(file, state if digest_of_file(path).hex() == file.source.sha256 else "corrupt", path)
    return Status(file, "missing", None)


def candidates(file: DataFile) -> Iterator[tuple[State, Path]]:
    """Yield the places on this machine where a file may be, in the order of `obtain`."""
    yield "cached", cached_path(file)
    for mirror in mirrors():
        if not is_address(mirror):
            yield "mirror", expand_user(mirror) / file.name


def local_path(file: DataFile) -> Path:
    """Return the path of a file on this machine. Raises `DataError` if it is missing or corrupt."""
    for _, path in candidates(file):
        if path.is_file():
            return verify_checksum(path, file)
    raise MissingData(f"{file.name} is not on this machine; run `figeval data fetch {file.benchmark}`")


# ---- the ledger, `<home>/data/<benchmark>/.fetched.json`: when and from where each cached file was fetched ----------


class LedgerEntry(TypedDict):
    """Origin of a cached file (an address, or the path in a mirror folder), date, checksum and size."""

    origin: str
    fetched: str
    sha256: str
    bytes: int


def _note(file: DataFile, origin: str) -> None:
    """Record where a cached file came from. The caller holds the lock of the benchmark's folder."""
    book = _book(file)
    when = datetime.now(UTC).isoformat(timespec="seconds")
    source = file.source
    entry: LedgerEntry = {"origin": origin, "fetched": when, "sha256": source.sha256, "bytes": source.bytes}
    replace_text(book, json.dumps({**_entries(book), source.path: entry}, indent=1, sort_keys=True) + "\n")


def entry_of(file: DataFile) -> LedgerEntry | None:
    """Return the ledger entry of a cached file, or None if there is none."""
    return _entries(_book(file)).get(file.source.path)


def _book(file: DataFile) -> Path:
    return home() / "data" / file.benchmark / ".fetched.json"


def _entries(book: Path) -> dict[str, LedgerEntry]:
    """Return all entries, or none if the ledger is missing or damaged: only the files' checksums matter."""
    try:
        entries = parse_json(book.read_bytes())
    except (OSError, ValueError):
        return {}
    return entries if isinstance(entries, dict) else {}
