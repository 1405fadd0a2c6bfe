"""Names and what they stand for: one small registry per kind of thing, filled from plugins when first asked.

`"module:attribute"` targets are imported on first `get`, so listing names imports nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from figeval.errors import DuplicateName, PluginError, UnknownName, near
from figeval.plugins import Host

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """A registered thing: its name, the thing or where to import it from, and the plugin that brought it."""

    name: str
    target: T | str
    owner: str

    def load(self) -> T:
        """The thing itself."""
        return loaded(self.target)


class Registry(Generic[T]):
    """Things of one kind by name, in order of registration."""

    def __init__(self, kind: str, see: str) -> None:
        self.kind = kind
        self.see = see
        self._entries: dict[str, Entry[T]] = {}

    def add(self, name: str, target: T | str, owner: str) -> None:
        """Register; raises `DuplicateName` naming both owners when the name is taken."""
        taken = self._entries.get(name)
        if taken is not None:
            raise DuplicateName(f"{self.kind} {name!r} of {owner} is already registered by {taken.owner}; rename it")
        self._entries[name] = Entry(name, target, owner)

    def get(self, name: str) -> T:
        """The thing of this name; raises `UnknownName` with near names."""
        return self.entry(name).load()

    def entry(self, name: str) -> Entry[T]:
        """The entry of this name; raises `UnknownName` with near names."""
        if name not in self._entries:
            raise UnknownName(self.kind, name, self._entries, see=self.see)
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)


def loaded(target: T | str) -> T:
    """What was registered, imported now if it was given as `"module:attribute"`."""
    return load_target(target) if isinstance(target, str) else target


def load_target(target: str) -> Any:
    """Import `"module:attribute"`. Raises `PluginError` if there is no such module or attribute."""
    module, _, attribute = target.partition(":")
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise PluginError(f"{target!r} cannot be imported ({error}); install what is missing") from error
    if not hasattr(found, attribute):
        raise PluginError(f"module {module!r} has no {attribute!r}{near(attribute, dir(found))}")
    return getattr(found, attribute)


def target_name(target: Any) -> str:
    """The name of a function, or of the function a `"module:attribute"` string points to."""
    return target.rpartition(":")[2] if isinstance(target, str) else str(target.__name__)


def plain(_owner: str, add: Callable[..., None]) -> Callable[..., None]:
    """The `dress` of hooks whose `register` is a plain function."""
    return add


def fill(
    host: Host, hook: str, add: Callable[..., None], dress: Callable[[str, Callable[..., None]], Any] = plain
) -> None:
    """Let every plugin register through `hook`.

    `add(..., owner=...)` stores one thing. A name that is taken is a problem of the plugin that came second, and of
    that one registration only: what else the plugin registers stays in force. `dress(owner, add)` makes of the
    bound `add` what the hook hands to plugins (`plain` where the function itself will do).
    """

    def arguments(owner: str) -> dict[str, Any]:
        def guarded(*args: Any, **kwargs: Any) -> None:
            try:
                add(*args, owner=owner, **kwargs)
            except DuplicateName as error:
                host.problem(owner, str(error))

        return {"register": dress(owner, guarded)}

    host.each(hook, arguments)


# ---- what the hooks hand to plugins, spelled out for type checkers and readers --------------------------------------


class TaskRegister(Protocol):
    """`register(task)` or `register.folder(traversable)`."""

    def __call__(self, task: Any) -> None: ...  # noqa: D102
    def folder(self, folder: Any) -> None: ...  # noqa: D102


class SourceRegister(Protocol):
    """`register(scheme, open)`."""

    def __call__(self, scheme: str, open: Any) -> None: ...  # noqa: D102


class TaskTypeRegister(Protocol):
    """`register(task_type)`: a subclass of `figeval.TaskType`, or where to import it from."""

    def __call__(self, task_type: Any) -> None: ...  # noqa: D102


class RouteRegister(Protocol):
    """`register(task_type, route)`."""

    def __call__(self, task_type: str, route: Any) -> None: ...  # noqa: D102


class BackendRegister(Protocol):
    """`register(name, factory, summary)`."""

    def __call__(self, name: str, factory: Any, summary: str = "") -> None: ...  # noqa: D102


class LearnerRegister(Protocol):
    """`register(protocol, head, factory, summary)`."""

    def __call__(self, protocol: str, head: str, factory: Any, summary: str = "") -> None: ...  # noqa: D102


class PresetRegister(Protocol):
    """`register(traversable)`."""

    def __call__(self, file: Any) -> None: ...  # noqa: D102


class MetricRegister(Protocol):
    """`register(name, function, higher_is_better, task_types, routes)`."""

    def __call__(  # noqa: D102
        self,
        name: str,
        function: Any,
        higher_is_better: bool = True,
        task_types: Iterable[str] = (),
        routes: Iterable[str] = (),
    ) -> None: ...


class ExporterRegister(Protocol):
    """`register(name, function)`."""

    def __call__(self, name: str, function: Any) -> None: ...  # noqa: D102
