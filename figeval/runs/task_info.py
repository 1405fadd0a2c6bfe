"""Information about a task that needs no model: data, licence, splits, routes, published numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path

from figeval.data.hub_cache import HUB
from figeval.data.sources import Sources, catalogue, data_file
from figeval.errors import DataError, MissingData
from figeval.plugins import PluginManager
from figeval.records.reference import Published, published_results
from figeval.runs.harness import Harness
from figeval.spec import TaskSpec
from figeval.task_types.routes import Route


@dataclass(frozen=True, slots=True)
class Split:
    """One split of a task; if the data cannot be read, `n` is None and `problem` says why."""

    name: str
    source: str
    n: int | None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """Everything that `figeval show TASK` prints; `sources` are the upstream benchmarks whose files the task reads."""

    task: TaskSpec
    splits: tuple[Split, ...]
    sources: Mapping[str, Sources]
    readme: Traversable | None
    routes: tuple[Route, ...]
    published: tuple[Published, ...]


class LocalFiles:
    """Finds upstream files on this machine, as `Harness.fetch` does; nothing is downloaded.

    Attributes:
        benchmarks: benchmarks whose files were looked for, also in vain.
    """

    def __init__(self) -> None:
        self.benchmarks: dict[str, None] = {}

    def __call__(self, benchmark: str, path: str) -> Path:
        """Return the path of a file. Raises `MissingData` if it is not on this machine."""
        from figeval.data.cache import local_path

        if benchmark == HUB:
            raise MissingData(f"hub:{path} is not on this machine; `figeval data fetch hub:{path}` downloads it")
        self.benchmarks[benchmark] = None
        return local_path(data_file(benchmark, path))

    def sources(self, owner: str = "") -> dict[str, Sources]:
        """Return the sources of these benchmarks, or else all of the plugin `owner`, for a user's own copies."""
        entries = {entry.name: entry for entry in catalogue()}
        names = [name for name in self.benchmarks if name in entries]
        names = names or [name for name, entry in entries.items() if owner and entry.owner.rpartition(".")[2] == owner]
        return {name: entries[name].load() for name in names}


def task_info(task: TaskSpec, manager: PluginManager) -> TaskInfo:
    """Gather the information about a task. Only local files are read; nothing is downloaded."""
    files = LocalFiles()
    harness = Harness(manager, fetch=files)
    splits = tuple(_split(task, name, harness) for name in (task.data or ("test",)))
    readme = task.folder / "README.md" if task.folder is not None else None
    return TaskInfo(
        task=task,
        splits=splits,
        sources=files.sources(),
        readme=readme if readme is not None and readme.is_file() else None,
        routes=tuple(harness.routes.of(task.type)),
        published=tuple(published_results(task.name)),
    )


def _split(task: TaskSpec, name: str, harness: Harness) -> Split:
    """Count the rows of a split, which are its examples."""
    source = task.data.get(name, "Python")
    try:
        rows = harness.rows(task, name) if task.examples is None else harness.examples(task, name)
        return Split(name, source, sum(1 for _ in rows))
    except DataError as error:
        return Split(name, source, None, str(error))
