"""Read the rows of raw files: `scheme:path` is read by the reader that a plugin registered for the scheme."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, TypeAlias

from figeval.data.hub_cache import HUB
from figeval.errors import DataError, FigevalError
from figeval.io.files import inside, is_file, is_folder
from figeval.io.text import near
from figeval.plugins import PluginManager
from figeval.registry import Registry

Row: TypeAlias = Mapping[str, Any]
Availability: TypeAlias = Literal["here", "to be fetched", "needs your copy", "cannot be read"]


def fetch(benchmark: str, path: str) -> Path:
    """Return the local path of an upstream file, as `figeval.data.cache.fetch` does, or `hub_cache.download`.

    Both are imported on first use, because tasks with their own files need neither.
    """
    if benchmark == HUB:
        from figeval.data import hub_cache

        return hub_cache.download(path)
    from figeval.data import cache

    return cache.fetch(benchmark, path)


def copies(benchmark: str) -> list[Path]:
    """Return the folders that may hold a user's own copy of a benchmark, as `figeval.data.cache.copies` does."""
    from figeval.data import cache

    return cache.copies(benchmark)


@dataclass(frozen=True, slots=True)
class DataContext:
    """The resources of a reader: the folder of the task, and the upstream files of a benchmark.

    `folder` contains the task's YAML and the files that are shipped with it; `fetch(benchmark, path)` returns the
    local path of an upstream file listed in the benchmark's `sources.yaml`, from the cache, a mirror or upstream, with
    its sha256 checked. What a reader puts into `notes` (e.g. the tagger that found the keywords, and its version) is
    stored in the settings of the task's record; the text `remark` among them is printed below its scores.
    `copies(benchmark)` lists the folders that may hold a user's own copy of files that figeval cannot fetch.
    """

    folder: Traversable
    fetch: Callable[[str, str], Path]
    notes: dict[str, Any] = field(default_factory=dict)
    copies: Callable[[str], list[Path]] = copies


Find: TypeAlias = Callable[[str], Traversable]  # path → file or folder
Opener: TypeAlias = Callable[[str, DataContext], Iterator[Row]]


def load_readers(manager: PluginManager) -> Registry[Opener]:
    return Registry.collect(manager, "register_sources", "data scheme", "figeval ls plugins")


def read(reference: str, context: DataContext, readers: Registry[Opener]) -> Iterator[Row]:
    """Return the rows at `scheme:path`.

    Raises:
        UnknownName: there is no reader for this scheme.
        DataError: the reference has no scheme; also any error that the reader finds in the file.
    """
    scheme, colon, path = reference.partition(":")
    if not colon:
        ending = reference.rpartition(".")[2].lower()
        likely = ending if ending in readers else "jsonl"
        raise DataError(f"data {reference!r} has no scheme; write, for example, '{likely}:{reference}'")
    return readers.get(scheme)(path, context)


def resource(path: str, context: DataContext, *, folders: bool = False) -> Traversable:
    """Return the file at this path, or with `folders` a folder. Raises `DataError` with similar names if there is none.

    The path is relative to the folder of the task.
    """
    file = inside(context.folder, path, DataError)
    if not is_file(file) and not (folders and is_folder(file)):
        beside = [other.name for other in context.folder.iterdir()] if context.folder.is_dir() else []
        raise DataError(f"there is no data file {path!r:.200} in {context.folder}{near(path, beside)}")
    return file


# ---- availability of the rows ---------------------------------------------------------------------------------------


class _Fetching(BaseException):
    """Stops a reader at the first upstream file that it requests; a BaseException, so that no reader handles it."""

    def __init__(self, benchmark: str, path: str) -> None:
        self.asked = (benchmark, path)


def first_request(
    reference: str, folder: Traversable, readers: Registry[Opener], copies: Callable[[str], list[Path]] = copies
) -> tuple[str, str] | None:
    """Return (benchmark, path) of the first upstream file that the rows are read from; None if they need none.

    The reader is stopped there, so that nothing is downloaded and no such file is parsed or hashed.

    Raises:
        Exception: whatever a plugin's reader raises.
    """

    def fetching(benchmark: str, path: str) -> Path:
        raise _Fetching(benchmark, path)

    try:
        next(iter(read(reference, DataContext(folder, fetching, copies=copies), readers)), None)
    except _Fetching as stopped:
        return stopped.asked
    return None


def availability(reference: str, folder: Traversable, readers: Registry[Opener]) -> Availability:
    """Return whether the rows at `scheme:path` are on this machine.

    A user's own copy, which has no known checksum, is read up to its first row.
    """
    copied: list[str] = []

    def copying(benchmark: str) -> list[Path]:
        copied.append(benchmark)
        return copies(benchmark)

    try:
        requested = first_request(reference, folder, readers, copying)
    except Exception:  # a plugin's reader may fail in any way, which `figeval doctor` and a run report in full
        return "needs your copy" if copied else "cannot be read"
    return "here" if requested is None else _on_disk(*requested)


def _on_disk(benchmark: str, path: str) -> Availability:
    if benchmark == HUB:  # a copy on this machine would have been read
        return "to be fetched"
    from figeval.data.cache import candidates
    from figeval.data.sources import data_file

    try:
        is_here = any(path.is_file() for _, path in candidates(data_file(benchmark, path)))
    except FigevalError:  # the reader names a file that no sources.yaml lists
        return "cannot be read"
    return "here" if is_here else "to be fetched"
