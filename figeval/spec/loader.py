"""Loader of tasks and suites from YAML files, and the catalogue of those that plugins offer."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from pydantic import ValidationError

from figeval.errors import DuplicateName, TaskError, UnknownName
from figeval.io.files import EXTERNAL, YAML_SUFFIXES, inside, is_file
from figeval.io.frontend import warn
from figeval.io.text import near
from figeval.io.validation import first_location, first_problem
from figeval.io.yaml_files import read_mapping
from figeval.plugins import PluginManager
from figeval.registry import Deferred, Registry, a_type, fill
from figeval.spec.tasks import Named, SuiteSpec, TaskSpec
from figeval.task_types.registry import TaskTypes

DEEPEST = 8  # files that include one another, so that a circle ends
INCLUDE_FLAG = "--include_path"  # owner of the tasks and suites in the folders given there
ADDRESS = re.compile(r"\w+:.*[./#].*")  # of rows: hub:OWNER/NAME, csv:FILE.csv
SETTLED = 2  # seconds after which a change of a file is sure to change its time of modification
KINDS: dict[str, type[TaskSpec] | type[SuiteSpec]] = {".task.yaml": TaskSpec, ".suite.yaml": SuiteSpec}


class Catalogue:
    """Tasks and suites of all plugins; a task is bound to its task type when it is requested."""

    def __init__(self, task_types: TaskTypes) -> None:
        self.task_types = task_types
        self.tasks: Registry[TaskSpec] = Registry("task", "figeval ls tasks")
        self.suites: Registry[SuiteSpec] = Registry("suite", "figeval ls suites")
        self._warned: set[str] = set()
        self.broken: dict[str, str] = {}  # what is wrong with a file, by the name that its task or suite should have

    def add(self, item: Named, owner: str, *, checked: bool = True) -> None:
        """Register a task or a suite; they share one namespace, because `--tasks` takes both.

        Unless `checked`, a task is compared with its task type only when it is requested.

        Raises:
            DuplicateName: the name is taken.
            TaskError: the task does not meet the requirements of its type.
        """
        item = item.model_copy(update={"owner": owner})
        target: Any = item
        if isinstance(item, TaskSpec):
            target = item.bound(self.task_types) if checked else Deferred(partial(item.bound, self.task_types))
        first, second = (self.tasks, self.suites) if isinstance(item, TaskSpec) else (self.suites, self.tasks)
        if item.name in second:
            first, second = second, first  # that registry refuses it and names both owners
        first.add(item.name, target, owner)

    def warn_of_broken(self) -> None:
        """Warn once about each file of a user that is broken; to request its task or suite is an error."""
        for message in dict.fromkeys(self.broken.values()):  # several files may include the same broken one
            if message not in self._warned:
                warn(message)
        self._warned.update(self.broken.values())

    def overlaid(self, items: Iterable[TaskSpec | SuiteSpec]) -> Catalogue:
        """Return a catalogue of these tasks and suites and, under other names, those of this one.

        Raises:
            DuplicateName: two of the items have one name.
            TaskError: a task is not what its type wants.
        """
        catalogue = Catalogue(self.task_types)
        for item in items:
            catalogue.add(item, item.origin or item.name)
        taken = {registration.name for registry in (catalogue.tasks, catalogue.suites) for registration in registry}
        catalogue.tasks.extend(registration for registration in self.tasks if registration.name not in taken)
        catalogue.suites.extend(registration for registration in self.suites if registration.name not in taken)
        return catalogue

    def expand(self, names: Iterable[str]) -> list[TaskSpec]:
        """Return the tasks for names of tasks and suites, each once, in order.

        Raises:
            UnknownName: there is neither a task nor a suite of that name.
            TaskError: a suite contains itself, directly or through others; a name is an address of rows, or a YAML file
                whose name is not that of a task file.
        """
        tasks = []
        for name in self._tasks_behind(names):
            if name in self.broken:
                raise TaskError(self.broken[name])
            if name not in self.tasks:
                refuse_misnamed(name)
                if ADDRESS.fullmatch(name) or is_file(Path(name)):
                    new = f"`figeval new task NAME --from {shlex.quote(name)}`"
                    raise TaskError(
                        f"{name!r:.200} is the address of rows, not a task; {new} writes the task file, "
                        "and `figeval run --tasks NAME --include_path NAME` runs it"
                    )
                known_names = [registration.name for registry in (self.tasks, self.suites) for registration in registry]
                raise UnknownName("task", name, known_names, see="figeval ls tasks")
            tasks.append(self.tasks.get(name))
        self.warn_of_broken()
        return tasks

    def contrasted(self, suite: SuiteSpec, contrast: str) -> list[TaskSpec]:
        """Return the tasks of a suite's contrast, in order.

        Raises:
            TaskError: the contrast names a task that is not in the suite, or a suite contains itself.
            UnknownName: there is no such task.
        """
        self.check_contrast(suite, contrast)
        return self.expand(suite.contrasts[contrast].tasks)

    def check_contrast(self, suite: SuiteSpec, contrast: str) -> None:
        """Raise `TaskError` if a contrast has a task that is not in its suite; the task need not exist."""
        tasks = self._tasks_behind(suite.tasks)
        for name in self._tasks_behind(suite.contrasts[contrast].tasks):
            if name not in tasks:
                raise TaskError(
                    f"{suite.origin or suite.name}: contrast {contrast!r}: {name!r} is not a task of this suite"
                    f"{near(name, tasks)}; list it under `tasks`, too"
                )

    def _tasks_behind(self, names: Iterable[str]) -> list[str]:
        """Return the names with each suite replaced by its tasks, each once, in order."""
        task_names: dict[str, None] = {}
        expanded: set[str] = set()
        waiting = [iter(names)]
        opened: list[str] = []  # suites that are being expanded, outermost first
        while waiting:
            name = next(waiting[-1], None)
            if name is None:
                waiting.pop()
                expanded.update(opened[-1:])
                opened[-1:] = []
            elif name in self.suites and name not in self.broken:
                if name in opened:
                    cycle = " → ".join([*opened[opened.index(name) :], name])
                    raise TaskError(f"the suite {name!r} contains itself ({cycle}); remove one of them")
                if name not in expanded:
                    opened.append(name)
                    waiting.append(iter(self.suites.get(name).tasks))
            else:
                task_names[name] = None
        return list(task_names)


@dataclass(frozen=True, slots=True)
class _Item:
    """A task or suite that was read, with the files that it was read from and what would show that one has changed."""

    item: TaskSpec | SuiteSpec
    files: tuple[Path, ...]
    stamps: tuple[object, ...]

    @staticmethod
    def stamps_of(files: Iterable[Path]) -> tuple[object, ...]:
        stats = [file.stat() for file in files]
        return (
            os.environ.get(EXTERNAL),
            *((stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in stats),
        )


_ITEMS: dict[Path, _Item] = {}  # files of this process, because a program that runs several models reads them each time


def read_item(file: Traversable, folder: Traversable) -> TaskSpec | SuiteSpec:
    """Read one `*.task.yaml` or `*.suite.yaml`, unless this process has read it and it has not changed since.

    With `include: base.yaml` (a path from the folder of the file), that file is read first, and the file's own keys are
    merged into its keys (`merge_patch`). An included file may include another one.

    Raises:
        TaskError: the file is invalid; the message names file, key and the most similar known key.
    """
    if not isinstance(file, Path):
        return _read_item(file, folder, [])
    cached = _ITEMS.pop(file, None)
    with suppress(OSError):
        if cached is not None and cached.stamps == _Item.stamps_of(cached.files):
            _ITEMS[file] = cached
            return cached.item
    begun, parts = time.time(), list[_Part]()
    item = _read_item(file, folder, parts)
    files = tuple(part.file for part in parts if isinstance(part.file, Path))
    with suppress(OSError):
        if all(source.stat().st_mtime < begun - SETTLED for source in files):
            _ITEMS[file] = _Item(item, files, _Item.stamps_of(files))
    return item


class _Part(NamedTuple):
    """A file that contributes to an item, and the keys that it has itself."""

    file: Traversable
    keys: dict[str, Any]

    def has(self, location: Sequence[int | str]) -> bool:
        """Return whether the file itself has the key at a location."""
        inner: Any = self.keys
        for key in location:
            if isinstance(inner, dict) and key not in inner:
                return False
            inner = inner[key] if isinstance(inner, dict) else None
        return True


def _read_item(file: Traversable, folder: Traversable, parts: list[_Part]) -> TaskSpec | SuiteSpec:
    """Read an item; the files that it is made of are added to `parts`, the file itself first."""
    model = next(model for ending, model in KINDS.items() if file.name.endswith(ending))
    content = _with_included(file, file.name, folder, parts)
    try:
        item = model.model_validate(content)
    except ValidationError as error:
        location = first_location(error)
        wrong = next((part.file for part in parts if location and part.has(location)), file)
        raise TaskError(f"{wrong}: {first_problem(error, model)}") from error
    return item.model_copy(update={"folder": folder, "origin": file.name})


def _with_included(file: Traversable, path: str, folder: Traversable, parts: list[_Part]) -> dict[str, Any]:
    """Return the keys of a file merged into those of the file that it includes.

    Args:
        file: the file.
        path: its path in the folder.
        folder: folder of the item.
        parts: receives the file, and those that it includes.
    """
    content = read_mapping(file, TaskError)
    included = content.pop("include", None) if "include" in content else ""
    parts.append(_Part(file, content))
    if included == "":
        return content
    if not isinstance(included, str):
        raise TaskError(f"{file}: include: {included!r:.80} is not a path; write include: base.yaml")
    if len(parts) > DEEPEST:
        raise TaskError(f"{file}: include: files include one another more than {DEEPEST} deep; is there a circle?")
    beside = str(PurePosixPath(path).parent / included)
    # Task files for figeval up to 0.2 may give the path of a nested file from the folder of the task file.
    if beside != included and not _is_file(folder, beside) and _is_file(folder, included):
        beside = included
    base = inside(folder, beside, TaskError)
    if not base.is_file():
        raise TaskError(
            f"{file}: include: there is no file {base}; correct the path, which begins at the file's own folder"
        )
    inner = _with_included(base, beside, folder, parts)
    return merge_patch(inner, content, included, f"{file}: ")


def _is_file(folder: Traversable, path: str) -> bool:
    with suppress(TaskError, OSError):
        return inside(folder, path, TaskError).is_file()
    return False


def merge_patch(base: Mapping[str, Any], including: Mapping[str, Any], included: str, location: str) -> dict[str, Any]:
    """Return the keys of an included file with a file's own keys merged into them (JSON Merge Patch, RFC 7386).

    Mappings are merged key by key. Every other value, a list too, replaces the included one, and null removes it.

    Args:
        base: keys of the included file, or of one of its mappings.
        including: keys of the file that includes it, or of the same mapping there.
        included: name of the included file.
        location: beginning of error messages: the file that includes it, and the key of the mapping.

    Raises:
        TaskError: there is no such key that null could remove. A null outside of mappings is left to the model, since
            it is the default of some keys.
    """
    merged_keys = dict(base)
    for key, value in including.items():
        inherited_value = merged_keys.get(key)
        if isinstance(value, dict):
            inherited = inherited_value if isinstance(inherited_value, dict) else {}
            strange = next((name for name, part in value.items() if part is None and name not in inherited), None)
            if strange is not None:
                problem = f"null removes an included key, but {included} has no {strange!r} there"
                raise TaskError(f"{location}{key}: {problem}{near(str(strange), inherited)}")
            merged_keys[key] = merge_patch(inherited, value, included, f"{location}{key}.")
        elif value is None and key in merged_keys:
            del merged_keys[key]
        else:
            merged_keys[key] = value
    return merged_keys


def read_folder(folder: Traversable, add: Callable[[Named], None], complain: Callable[[str, str], None]) -> None:
    """Read every task and suite file of a folder; a broken file is reported and does not hide the others.

    Args:
        folder: the folder.
        add: receives each item.
        complain: receives the name of each file that is broken, and what is wrong with it.
    """
    try:
        entries = list(folder.iterdir())
    except OSError as error:
        raise TaskError(f"{folder} cannot be read ({error.strerror}); give a folder with task files") from error
    for file in sorted((path for path in entries if path.name.endswith(tuple(KINDS))), key=lambda path: path.name):
        try:
            add(read_item(file, folder))
        except (TaskError, DuplicateName) as error:
            complain(file.name, str(error))


def load_catalogue(manager: PluginManager, task_types: TaskTypes, include: Iterable[Traversable] = ()) -> Catalogue:
    """Return the catalogue of all plugins and of the folders given with `--include_path`."""
    catalogue = Catalogue(task_types)

    def add(task: Any, *, owner: str) -> None:
        if not isinstance(task, Named):
            raise TaskError(f"register(task) expects a task made with @figeval.task, not {a_type(task)}")
        catalogue.add(task, owner, checked=False)

    def add_folder(folder: Traversable, *, owner: str) -> None:
        read_folder(folder, partial(add, owner=owner), lambda _, message: manager.problem(owner, message))

    fill(manager, "register_tasks", add, folder=add_folder)
    for folder in include:
        add_included(folder, catalogue)
    for suite in map(catalogue.suites.get, [entry.name for entry in catalogue.suites]):
        try:
            for contrast in suite.contrasts:
                catalogue.check_contrast(suite, contrast)
        except TaskError as error:
            if suite.owner == INCLUDE_FLAG:
                catalogue.broken[suite.name] = str(error)
            else:
                manager.problem(suite.owner, str(error))
    return catalogue


def refuse_misnamed(name: str) -> None:
    """Raise `TaskError` for a YAML file whose name has another ending than those of task and suite files."""
    if name.endswith(YAML_SUFFIXES) and not name.endswith(tuple(KINDS)):
        cure = "the name of a task file must end in .task.yaml, that of a suite in .suite.yaml; rename it"
        raise TaskError(f"{name}: {cure}")


def read_task_files(names: Collection[str]) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """Return the names of tasks and suites, those of files as the files have them, and these files.

    Raises:
        TaskError: a file is missing or invalid, or its name has another ending.
    """
    for name in names:
        refuse_misnamed(name)
    files = {name: Path(name).expanduser() for name in names if name.endswith(tuple(KINDS))}
    for file in files.values():
        if not is_file(file):
            raise TaskError(f"there is no file {file}; correct the path, or name a task, see `figeval ls tasks`")
    return (
        tuple(read_item(files[name], files[name].parent).name if name in files else name for name in names),
        tuple(dict.fromkeys(files.values())),
    )


def _of_file(file: Path, add: Callable[[Named], None]) -> None:
    """Add the item of a file; for a suite also those items in the file's folder that it names, or that these name."""
    items: dict[str, Named] = {}
    names = [read_item(file, file.parent).name]
    read_folder(file.parent, lambda item: items.update({item.name: item}), lambda _file, _message: None)
    items[names[0]] = read_item(file, file.parent)
    for name in names:  # grows with every suite
        item = items.pop(name, None)
        names += item.tasks if isinstance(item, SuiteSpec) else ()
        with suppress(DuplicateName):  # kept among the broken ones
            if item is not None:
                add(item)


def _is_same(item: Named, registered: Named) -> bool:
    """Return whether an item is read from the file of a registered one."""
    file, other = (
        Path(str(getattr(each, "folder", ""))).resolve() / getattr(each, "origin", "") for each in (item, registered)
    )
    return file == other


def _refuse_taken(item: Named, catalogue: Catalogue) -> None:
    """Raise `DuplicateName` with the files of both if a user's item has the name of another one.

    The owner of both may be `--include_path`, which a user who names a file with `--tasks` never gave.
    """
    for registry in (catalogue.tasks, catalogue.suites):
        if item.name in registry:
            owner = registry.entry(item.name).owner
            other = _file_of(registry.get(item.name)) if owner == INCLUDE_FLAG else owner
            name = f"{registry.kind} {item.name!r}"
            raise DuplicateName(f"{name} of {_file_of(item)} is already registered by {other}; rename it")


def _file_of(item: Any) -> str:
    return str(Path(str(item.folder)) / item.origin)


def add_included(folder: Traversable, catalogue: Catalogue) -> None:
    """Add the items of a user's folder or file. What is wrong with it is kept under the name that its item should have.

    A file of an item that is registered already adds nothing.
    """

    def add(item: Named) -> None:
        registry: Registry[Any] = catalogue.tasks if isinstance(item, TaskSpec) else catalogue.suites
        if item.name in registry and _is_same(item, registry.get(item.name)):
            return
        try:
            _refuse_taken(item, catalogue)
            catalogue.add(item, INCLUDE_FLAG)
        except DuplicateName as error:
            catalogue.broken[item.name] = str(error)  # or the other task of this name would be scored unnoticed
            raise

    if isinstance(folder, Path) and folder.name.endswith(tuple(KINDS)):
        _of_file(folder, add)
        return
    read_folder(folder, add, lambda file, message: catalogue.broken.update({file.partition(".")[0]: message}))
