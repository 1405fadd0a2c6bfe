"""The tasks that the arguments of `figeval validate` name: registered names, files, and folders with such files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from figeval.errors import FigevalError, TaskError
from figeval.runs.contrasts import check_columns, declared_contrasts
from figeval.runs.harness import Harness
from figeval.spec import SuiteSpec, TaskSpec
from figeval.spec.loader import KINDS, Catalogue, add_included, read_folder, read_item
from figeval.spec.tasks import Named


@dataclass(slots=True)
class Gathered:
    """The tasks that were found, each once, and the problems met on the way; a broken file hides no other problem.

    The problems include those of suites: a task that does not exist, or a contrast that no run could compute.
    """

    tasks: list[TaskSpec] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, find: Callable[[], tuple[Iterable[TaskSpec | SuiteSpec], Catalogue]]) -> None:
        """Add what a function finds and check the suites, or record the problem if it fails.

        Args:
            find: returns tasks and suites, and the catalogue in which the suites' names are looked up.
        """
        try:
            items, catalogue = find()
            for item in items:
                if isinstance(item, SuiteSpec):
                    self._check(item, catalogue)
                elif (item.name, item.folder) not in {(task.name, task.folder) for task in self.tasks}:
                    self.tasks.append(item)
        except FigevalError as error:
            self.problems.append(str(error))

    def complain(self, _file: str, message: str) -> None:
        """Record what is wrong with a file."""
        self.problems.append(message)

    def _check(self, suite: SuiteSpec, catalogue: Catalogue) -> None:
        """Record what is wrong with a suite."""
        try:
            columns = {task.name: task.fields.get("meta") for task in catalogue.expand(suite.tasks)}
        except FigevalError as error:
            self.problems.append(f"{suite.origin or suite.name}: {error}")
            return
        meta_columns = {name: list(meta) for name, meta in columns.items() if isinstance(meta, Mapping)}
        try:
            check_columns(declared_contrasts(suite, catalogue), meta_columns)
        except FigevalError as error:  # begins with the file of the suite
            self.problems.append(str(error))


def gather(targets: Iterable[str], folders: Iterable[Path], harness: Harness) -> Gathered:
    """Return the tasks that names, files and folders refer to.

    Without targets, these are the tasks in `folders` or, without these too, all usable registered tasks. The items in
    `folders` are registered, as with --include_path.
    """
    targets = list(targets)
    gathered = Gathered()
    for folder in folders:
        add_included(folder, harness.catalogue)
        if not targets:  # otherwise, files that are not named are warned about
            gathered.problems += harness.catalogue.broken.values()
            gathered.add(partial(in_folder, folder, harness, gathered.problems.append))
    for target in targets:
        gathered.add(partial(find_target, target, harness, gathered.problems.append))
    if not targets and not folders:
        gathered.add(partial(registered_items, harness))
        gathered.problems += [problem for row in harness.manager.plugins.values() for problem in row.problems]
    gathered.problems = list(dict.fromkeys(gathered.problems))  # a file may have been read twice
    return gathered


def registered_items(harness: Harness) -> tuple[list[TaskSpec | SuiteSpec], Catalogue]:
    """Return all usable tasks and suites of plugins."""
    catalogue = harness.catalogue
    tasks = [task for _, task in catalogue.tasks.usable(harness.manager)]
    return [*tasks, *(suite for _, suite in catalogue.suites.usable(harness.manager))], catalogue


def find_target(
    target: str, harness: Harness, complain: Callable[[str], None]
) -> tuple[list[TaskSpec | SuiteSpec], Catalogue]:
    """Return what one argument refers to. A registered name takes precedence over a folder of that name."""
    catalogue = harness.catalogue
    if target in catalogue.suites:
        return [catalogue.suites.get(target), *catalogue.expand([target])], catalogue
    path = Path(target)
    if target not in catalogue.tasks:
        if path.is_dir():
            return in_folder(path, harness, complain)
        if target.endswith(tuple(KINDS)):
            return from_file(path, harness)
    return list(catalogue.expand([target])), catalogue


def in_folder(
    folder: Path, harness: Harness, complain: Callable[[str], None]
) -> tuple[list[TaskSpec | SuiteSpec], Catalogue]:
    """Return the tasks and suites whose files are in a folder. Raises `TaskError` if there are none."""
    items, broken = _read(folder, harness)
    for message in broken:
        complain(message)
    if not items and not broken:
        raise TaskError(f"{folder} does not contain a *.task.yaml file")
    return items, harness.catalogue.overlaid(items)


def from_file(file: Path, harness: Harness) -> tuple[list[TaskSpec | SuiteSpec], Catalogue]:
    """Return the task of a task file, or a suite and its tasks; files in its folder win over registered tasks."""
    item = read_item(file, file.parent)
    if isinstance(item, TaskSpec):
        return [item.bound(harness.task_types)], harness.catalogue
    siblings, _ = _read(file.parent, harness)
    catalogue = harness.catalogue.overlaid(siblings)
    names = [name for name in item.tasks if name in catalogue.tasks or name in catalogue.suites]
    return [item, *catalogue.expand(names)], catalogue  # the suite's check names the others


def _read(folder: Path, harness: Harness) -> tuple[list[TaskSpec | SuiteSpec], list[str]]:
    """Return the items of a folder, tasks bound to their types, and a message for each file that is broken."""
    items: list[TaskSpec | SuiteSpec] = []
    broken: list[str] = []

    def add(item: Named) -> None:
        if isinstance(item, TaskSpec):
            items.append(item.bound(harness.task_types))
        elif isinstance(item, SuiteSpec):
            items.append(item)

    read_folder(folder, add, lambda _, message: broken.append(message))
    return items, broken
