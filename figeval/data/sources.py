"""Read the sources of upstream files from `sources.yaml`, one per benchmark.

The package of a plugin may hold `sources.yaml`, which describes the benchmark named like the package
(`tasks/epic/sources.yaml` → `epic`), and any number of `<name>.sources.yaml` (`glove.sources.yaml` → `glove`).
Built-in and third-party plugins are treated alike; nothing is registered by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, field_validator

from figeval import plugins
from figeval.citations import Citation
from figeval.errors import DataError, DuplicateName
from figeval.io.text import near
from figeval.io.yaml_files import read_yaml
from figeval.registry import Registry

FILE = "sources.yaml"


class Source(BaseModel):
    """One upstream file, pinned by its sha256.

    `path` is its place below `<cache>/data/<benchmark>/` and below `<mirror>/<benchmark>/`; `member` is its name
    in the zip archive at `url`, if upstream only has an archive, and `archive_bytes` the size of that archive. Without
    it, at most 4 GiB are downloaded.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str
    url: Annotated[str, Field(pattern=r"^https?://\S+$")]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    bytes: PositiveInt
    member: str | None = None
    archive_bytes: PositiveInt | None = None

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, path: str) -> str:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or "\\" in path:
            raise ValueError(f"{path!r} must be a relative path without '..', with forward slashes")
        return path


class Sources(BaseModel):
    """All upstream files of one benchmark, with licence, homepage, citation and a note."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    licence: str
    homepage: str
    citation: Citation | str
    note: str = ""
    files: Annotated[tuple[Source, ...], Field(min_length=1)]

    @field_validator("files")
    @classmethod
    def _different_paths(cls, listed: tuple[Source, ...]) -> tuple[Source, ...]:
        paths = [source.path for source in listed]
        if twice := sorted({path for path in paths if paths.count(path) > 1}):
            raise ValueError(f"{twice[0]!r} is listed twice")
        return listed


@dataclass(frozen=True, slots=True)
class DataFile:
    """One upstream file of one benchmark."""

    benchmark: str
    source: Source

    @property
    def name(self) -> str:
        """Path below a mirror, and name in messages, e.g. `epic/full_dataset.json`."""
        return f"{self.benchmark}/{self.source.path}"


def load_catalogue(manager: plugins.PluginManager) -> Registry[Sources]:
    """Return the sources of all loaded plugins; a broken or duplicate file is a problem of its plugin only."""
    catalogue: Registry[Sources] = Registry("benchmark", "figeval data ls")
    seen: set[str] = set()
    for plugin_name, plugin in manager.loaded():
        package = getattr(plugin, "__package__", None)
        if not package or package in seen:
            continue
        seen.add(package)
        for benchmark, file in source_files(package):
            try:
                catalogue.add(benchmark, read_yaml(file, Sources, DataError), package)
            except (DataError, DuplicateName) as error:
                manager.problem(plugin_name, str(error))
    return catalogue


def source_files(package: str) -> Iterator[tuple[str, Traversable]]:
    """Yield (benchmark, file) for every `sources.yaml` and `<name>.sources.yaml` in a package, by file name."""
    for file in sorted(files(package).iterdir(), key=lambda file: file.name):
        if file.name == FILE:
            yield package.rpartition(".")[2], file
        elif file.name.endswith(f".{FILE}"):
            yield file.name.removesuffix(f".{FILE}"), file


@lru_cache(maxsize=1)
def catalogue() -> Registry[Sources]:
    """Return the sources of this process's plugins."""
    return load_catalogue(plugins.plugin_manager())


def data_file(benchmark: str, path: str) -> DataFile:
    """Return one file. Raises `UnknownName` for the benchmark, `DataError` for the path, both with similar names."""
    listed = {source.path: source for source in catalogue().get(benchmark).files}
    if path not in listed:
        raise DataError(f"{benchmark!r} lists no file {path!r}{near(path, listed)}; see `figeval data ls {benchmark}`")
    return DataFile(benchmark, listed[path])


def data_files(benchmarks: Iterable[str] = ()) -> list[DataFile]:
    """Return all files of these benchmarks, or of all benchmarks if none is named. Raises `UnknownName`."""
    names = list(benchmarks) or [entry.name for entry in catalogue()]
    return [DataFile(name, source) for name in names for source in catalogue().get(name).files]
