"""Rows of raw files: `scheme:path` is read by the reader that a plugin has registered for the scheme."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, TypeAlias

from figeval.errors import DataError, FigevalError
from figeval.plugins import PluginManager
from figeval.registry import Registry

Row: TypeAlias = Mapping[str, Any]
Availability: TypeAlias = Literal["here", "to be fetched", "needs your copy", "cannot be read"]


def fetch(benchmark: str, path: str) -> Path:
    """Return the local path of an upstream file, as `figeval.data.cache.fetch` does.

    The cache is imported when the first upstream file is asked for: tasks with files of their own need none of it.
    """
    from figeval.data import cache

    return cache.fetch(benchmark, path)


def copies(benchmark: str) -> list[Path]:
    """Return the folders that may hold a user's own copy of a benchmark, as `figeval.data.cache.copies` does."""
    from figeval.data import cache

    return cache.copies(benchmark)


@dataclass(frozen=True, slots=True)
class DataContext:
    """What a reader may use: the folder of the task that asks, and the upstream files of a benchmark.

    `folder` is where the task's YAML lies (resources shipped with it are read from there);
    `fetch(benchmark, path)` returns the local path of an upstream file listed in the benchmark's `sources.yaml`,
    from the cache, a mirror or upstream, with its sha256 checked. What a reader puts into `notes` (which tagger found
    the keywords, in which version) goes into the settings of the task's record, and the text `remark` among them is
    printed below its scores. `copies(benchmark)` lists the folders
    that may hold a user's own copy of what figeval cannot fetch.
    """

    folder: Traversable
    fetch: Callable[[str, str], Path]
    notes: dict[str, Any] = field(default_factory=dict)
    copies: Callable[[str], list[Path]] = copies


Opener: TypeAlias = Callable[[str, DataContext], Iterator[Row]]


def load_readers(manager: PluginManager) -> Registry[Opener]:
    """Return the readers of all plugins by scheme."""
    return Registry.collect(manager, "register_sources", "data scheme", "figeval ls plugins")


def read(reference: str, context: DataContext, readers: Registry[Opener]) -> Iterator[Row]:
    """Return the rows behind `scheme:path`.

    Raises:
        UnknownName: nobody reads this scheme.
        DataError: the reference has no scheme; whatever the reader finds wrong with the file.
    """
    scheme, colon, path = reference.partition(":")
    if not colon:
        raise DataError(f"data {reference!r} has no scheme; write for example 'jsonl:{reference}'")
    return readers.get(scheme)(path, context)


# ---- whether the rows are there --------------------------------------------------------------------------------------


class _Fetching(BaseException):
    """Stops a reader at the first upstream file that it asks for, whatever errors it handles itself."""

    def __init__(self, benchmark: str, path: str) -> None:
        self.asked = (benchmark, path)


def availability(reference: str, folder: Traversable, readers: Registry[Opener]) -> Availability:
    """Return whether the rows behind `scheme:path` are on this machine.

    The reader is started and stopped at the first upstream file, so that nothing is downloaded and no such file is
    parsed or digested. A user's own copy, of which nothing else is known, is read up to its first row.
    """
    copied: list[str] = []

    def fetching(benchmark: str, path: str) -> Path:
        raise _Fetching(benchmark, path)

    def copying(benchmark: str) -> list[Path]:
        copied.append(benchmark)
        return copies(benchmark)

    try:
        next(iter(read(reference, DataContext(folder, fetching, copies=copying), readers)), None)
    except _Fetching as stopped:
        return _on_disk(*stopped.asked)
    except Exception:  # a plugin's reader may fail in any way, which `figeval doctor` and a run report in full
        return "needs your copy" if copied else "cannot be read"
    return "here"


def _on_disk(benchmark: str, path: str) -> Availability:
    from figeval.data.cache import candidates
    from figeval.data.sources import data_file

    try:
        found = any(place.is_file() for _, place in candidates(data_file(benchmark, path)))
    except FigevalError:  # the reader names a file that no sources.yaml lists
        return "cannot be read"
    return "here" if found else "to be fetched"
