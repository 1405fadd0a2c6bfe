"""The tasks that the arguments of `figeval validate` name: registered names, task files, folders with task files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from figeval.errors import FigevalError, TaskError
from figeval.evaluation.harness import Harness
from figeval.spec import SuiteSpec, TaskSpec
from figeval.spec.loader import KINDS, read_folder, read_item
from figeval.spec.tasks import Named


@dataclass(slots=True)
class Gathered:
    """The tasks that were found, each once, and the problems met on the way; a broken file hides no other problem."""

    tasks: list[TaskSpec] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, tasks: Callable[[], Iterable[TaskSpec]]) -> None:
        """Add the tasks that a function finds, or record the problem if it fails."""
        try:
            known = {(task.name, task.folder) for task in self.tasks}
            self.tasks += [task for task in tasks() if (task.name, task.folder) not in known]
        except FigevalError as error:
            self.problems.append(str(error))


def gather(targets: Iterable[str], folders: Iterable[Path], harness: Harness) -> Gathered:
    """Return the tasks that names, files and folders refer to.

    Without targets, these are the tasks in `folders` or, without these too, all usable registered tasks. The items in
    `folders` are registered, as with --include_path.
    """
    targets = list(targets)
    gathered = Gathered()
    for folder in folders:
        read_folder(folder, lambda item: harness.catalogue.add(item, "--include_path"), gathered.problems.append)
        if not targets:
            gathered.add(lambda folder=folder: in_folder(folder, harness, gathered.problems.append))  # type: ignore[misc]
    for target in targets:
        gathered.add(lambda target=target: behind(target, harness, gathered.problems.append))  # type: ignore[misc]
    if not targets and not folders:
        gathered.add(lambda: [task for _, task in harness.catalogue.tasks.usable(harness.manager)])
        gathered.problems += [problem for row in harness.manager.plugins.values() for problem in row.problems]
    gathered.problems = list(dict.fromkeys(gathered.problems))  # a file may have been read twice
    return gathered


def behind(target: str, harness: Harness, complain: Callable[[str], None]) -> Iterable[TaskSpec]:
    """Return the tasks that one argument refers to. A registered name takes precedence over a folder of that name."""
    if target in harness.catalogue.tasks or target in harness.catalogue.suites:
        return harness.catalogue.expand([target])
    path = Path(target)
    if path.is_dir():
        return in_folder(path, harness, complain)
    if target.endswith(tuple(KINDS)):
        return from_file(path, harness)
    if path.suffix in {".yaml", ".yml"}:
        raise TaskError(f"{target}: a task file is called NAME.task.yaml, a suite NAME.suite.yaml; rename it")
    return harness.catalogue.expand([target])


def bound(item: Named, harness: Harness) -> Named:
    """Return a task bound to its task type, or a suite as it is. Raises `TaskError` if a task does not fit its type."""
    return item.bound(harness.task_types) if isinstance(item, TaskSpec) else item


def in_folder(folder: Path, harness: Harness, complain: Callable[[str], None]) -> list[TaskSpec]:
    """Return the tasks whose files are in a folder. Raises `TaskError` if there are none."""
    found: list[Named] = []
    broken: list[str] = []
    read_folder(folder, lambda item: found.append(bound(item, harness)), broken.append)
    for message in broken:
        complain(message)
    if not found and not broken:
        raise TaskError(f"{folder} holds no *.task.yaml")
    return [item for item in found if isinstance(item, TaskSpec)]


def from_file(file: Path, harness: Harness) -> Iterator[TaskSpec]:
    """Yield the task of a task file, or the tasks of a suite file; files in its folder win over registered tasks."""
    item = bound(read_item(file, file.parent), harness)
    if isinstance(item, TaskSpec):
        yield item
    if not isinstance(item, SuiteSpec):
        return
    beside: dict[str, Named] = {}
    read_folder(file.parent, lambda one: beside.update({one.name: bound(one, harness)}), lambda _message: None)
    for name in item.tasks:
        other = beside.get(name)
        if isinstance(other, TaskSpec):
            yield other
        else:
            yield from harness.catalogue.expand([name])
