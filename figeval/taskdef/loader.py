"""YAML files → tasks and suites; the catalogue of all that plugins offer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib.resources.abc import Traversable
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from figeval.errors import TaskError, UnknownName, near
from figeval.plugins import Host
from figeval.registry import Registry, fill
from figeval.taskdef.spec import Named, SuiteSpec, TaskSpec

N = TypeVar("N", bound=Named)
KINDS: dict[str, type[TaskSpec] | type[SuiteSpec]] = {".task.yaml": TaskSpec, ".suite.yaml": SuiteSpec}
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Catalogue:
    """Every task and suite that a plugin offers."""

    def __init__(self) -> None:
        self.tasks: Registry[TaskSpec] = Registry("task", "figeval ls tasks")
        self.suites: Registry[SuiteSpec] = Registry("suite", "figeval ls suites")

    def add(self, item: Named, owner: str) -> None:
        """Register a task or a suite; they share one space of names, as `--tasks` does."""
        item = item.model_copy(update={"owner": owner})
        first, second = (self.tasks, self.suites) if isinstance(item, TaskSpec) else (self.suites, self.tasks)
        if item.name in second:
            first, second = second, first  # refused there, naming both owners
        first.add(item.name, item, owner)  # type: ignore[arg-type]

    def expand(self, names: Iterable[str]) -> list[TaskSpec]:
        """The tasks behind names of tasks and suites, each once, in order. Raises `UnknownName`."""
        found: dict[str, TaskSpec] = {}
        for name in names:
            if name in self.suites:
                found.update((task.name, task) for task in self.expand(self.suites.get(name).tasks))
            elif name in self.tasks:
                found[name] = self.tasks.get(name)
            else:
                known = [entry.name for registry in (self.tasks, self.suites) for entry in registry]
                raise UnknownName("task", name, known, see="figeval ls tasks")
        return list(found.values())


def read_yaml(file: Traversable) -> dict[str, Any]:
    """A YAML mapping; `include: base.yaml` (same folder) is read first and the file's own keys win.

    Raises:
        TaskError: no such file, no YAML, no mapping.
    """
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), Loader=_Loader)
    except OSError as error:
        raise TaskError(f"{file.name}: cannot be read ({error.strerror})") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise TaskError(f"{file.name}: not valid YAML ({' '.join(str(error).split())})") from error
    if not isinstance(content, dict):
        raise TaskError(f"{file.name}: a task file is a mapping of keys to values")
    return content


def read_item(file: Traversable, folder: Traversable) -> TaskSpec | SuiteSpec:
    """One `*.task.yaml` or `*.suite.yaml`. Raises `TaskError` naming file, key and the nearest known key."""
    model = next(model for ending, model in KINDS.items() if file.name.endswith(ending))
    content = read_yaml(file)
    if "include" in content:
        content = {**read_yaml(folder / str(content.pop("include"))), **content}
    try:
        read = model.model_validate(content)
    except ValidationError as error:
        raise TaskError(f"{file.name}: {first_problem(error, model)}") from error
    return read.model_copy(update={"folder": folder, "origin": file.name})


def first_problem(error: ValidationError, model: type[Named]) -> str:
    """The first of pydantic's complaints in one line; for an unknown key, with the nearest known one."""
    problem = error.errors()[0]
    place = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        hidden = {"folder", "examples", "owner", "origin"}
        return f"unknown key {place!r}{near(place, set(model.model_fields) - hidden)}"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def read_folder(folder: Traversable, add: Callable[[Named], None], complain: Callable[[str], None]) -> None:
    """Every task and suite file of a folder; a broken file is complained about and does not hide the others."""
    files = sorted((file for file in folder.iterdir() if file.name.endswith(tuple(KINDS))), key=lambda f: f.name)
    for file in files:
        try:
            add(read_item(file, folder))
        except TaskError as error:
            complain(str(error))


class _Register:
    """What `register_tasks` hands to plugins."""

    def __init__(self, add: Callable[[Named], None], complain: Callable[[str], None]) -> None:
        self._add = add
        self._complain = complain

    def __call__(self, task: Any) -> None:
        if not isinstance(task, Named):
            raise TaskError(f"register(task) wants a task made with @figeval.task, not {describe_type(task)}")
        self._add(task)

    def folder(self, folder: Traversable) -> None:
        read_folder(folder, self._add, self._complain)


def describe_type(value: Any) -> str:
    """`a str`, `an int` …"""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def load_catalogue(host: Host, include: Iterable[Traversable] = ()) -> Catalogue:
    """All tasks and suites of all plugins, and those of the folders given with `--include_path`."""
    catalogue = Catalogue()

    def dress(owner: str, add: Callable[..., None]) -> _Register:
        return _Register(add, lambda message: host.problem(owner, message))

    fill(host, "register_tasks", catalogue.add, dress)
    for folder in include:
        register = _Register(lambda item: catalogue.add(item, "--include_path"), _refuse)
        register.folder(folder)
    return catalogue


def _refuse(message: str) -> None:
    raise TaskError(message)


@lru_cache(maxsize=1)
def catalogue_of(host: Host) -> Catalogue:
    """The catalogue of a host, read once."""
    return load_catalogue(host)
