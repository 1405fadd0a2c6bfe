"""Names and what they stand for: one small registry per kind of thing, filled from plugins when first asked.

`"module:attribute"` targets are imported on first `get`, so listing names imports nothing. A `Deferred` target is made
then, where more than an import is to be done.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from figeval import hooks
from figeval.errors import DuplicateName, PluginError, UnknownName, near
from figeval.plugins import PluginManager, describe

T = TypeVar("T")


RENAMED = {"protocol": "task_type", "protocols": "task_types"}  # arguments of registrars of figeval 0.1


class Owned(Protocol):
    """What a plugin has registered."""

    @property
    def owner(self) -> str:
        """The name of the plugin."""


Thing = TypeVar("Thing", bound=Owned)


@dataclass(frozen=True)
class Deferred(Generic[T]):
    """A thing that is made when it is first asked for, and kept. If making it fails, the next request tries again."""

    make: Callable[[], T]

    @cached_property
    def made(self) -> T:
        """The thing itself."""
        return self.make()


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """A registered thing: its name, the thing or where to import it from, the plugin that brought it, and a line."""

    name: str
    target: T | Deferred[T] | str
    owner: str
    summary: str = ""

    def load(self) -> T:
        """The thing itself."""
        return self.target.made if isinstance(self.target, Deferred) else loaded(self.target)


class Registry(Generic[T]):
    """Things of one kind by name, in order of registration."""

    def __init__(self, kind: str, see: str) -> None:
        self.kind = kind
        self.see = see
        self._entries: dict[str, Entry[T]] = {}

    @classmethod
    def collect(cls, manager: PluginManager, hook: str, kind: str, see: str) -> Registry[T]:
        """Collect what plugins register as `register(name, target)` or `register(name, target, summary)`."""
        registry = cls(kind, see)

        def add(*, owner: str, **arguments: Any) -> None:
            name, target, *summary = arguments.values()
            registry.add(name, target, owner, *summary)

        registry.prefer(fill(manager, hook, add))
        return registry

    def add(self, name: str, target: T | Deferred[T] | str, owner: str, summary: str = "") -> None:
        """Register a thing.

        Raises:
            DuplicateName: the name is taken; the message names both owners.
            PluginError: the name is no string.
        """
        if not isinstance(name, str):
            raise PluginError(f"the name of a {self.kind} must be a string, not {a_type(name)}")
        if not name:
            raise PluginError(f"the name of a {self.kind} must not be empty")
        taken = self._entries.get(name)
        if taken is not None:
            raise DuplicateName(f"{self.kind} {name!r} of {owner} is already registered by {taken.owner}; rename it")
        self._entries[name] = Entry(name, target, owner, summary)

    def extend(self, entries: Iterable[Entry[T]]) -> None:
        """Register the things of another registry. Raises `DuplicateName` as `add` does."""
        for entry in entries:
            self.add(entry.name, entry.target, entry.owner, entry.summary)

    def prefer(self, owners: Sequence[str]) -> None:
        """Put the things of these owners first, in their order; each owner's things keep theirs."""
        self._entries = {entry.name: entry for entry in preferred(self, owners)}

    def get(self, name: str) -> T:
        """The thing of this name; raises `UnknownName` with near names."""
        return self.entry(name).load()

    def entry(self, name: str) -> Entry[T]:
        """The entry of this name; raises `UnknownName` with near names."""
        if name not in self._entries:
            raise UnknownName(self.kind, name, self._entries, see=self.see)
        return self._entries[name]

    def usable(self, manager: PluginManager) -> Iterator[tuple[Entry[T], T]]:
        """Yield every entry with its thing. One that cannot be loaded is a problem of its plugin, and is left out."""
        for entry in self:
            try:
                thing = entry.load()
            except Exception as error:  # a module of a plugin may raise anything when it is imported
                manager.problem(entry.owner, describe(error))
            else:
                yield entry, thing

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


def a_type(value: object) -> str:
    """`a str`, `an int`, `None`: what a value is, without asking the value itself, whose `__str__` may be broken."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def fill(manager: PluginManager, hook: str, add: Callable[..., None], **methods: Callable[..., None]) -> list[str]:
    """Let every plugin register through a hook; return the plugins, those whose things are preferred first.

    `add(**arguments, owner=...)` stores what `register(...)` was called with, `methods` store what its methods were
    called with (`register.folder(...)`). The arguments are bound by the signature of the hook's registrar in
    `figeval.hooks`, with its defaults, so no other signature can be in force than the documented one. What is
    wrong with a call is a problem of the plugin and costs that one registration: what else it registers stays in force.
    """

    def arguments(owner: str) -> Mapping[str, Registrar]:
        return {"register": Registrar(manager, owner, hook, {"__call__": add, **methods})}

    manager.each(hook, arguments)
    return manager.preference(hook)


class Registrar:
    """What a registration hook receives: the registrar of `figeval.hooks`, on behalf of one plugin."""

    def __init__(
        self, manager: PluginManager, owner: str, hook: str, methods: Mapping[str, Callable[..., None]]
    ) -> None:
        self._manager = manager
        self._owner = owner
        self._hook = hook
        self.methods = methods

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Register one thing."""
        self._store("__call__", args, kwargs)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("_") or name == "methods" or name not in self.methods:
            known = [method for method in self.methods if not method.startswith("_")]
            raise AttributeError(f"register of {self._hook} has no method {name!r}{near(name, known)}")
        return lambda *args, **kwargs: self._store(name, args, kwargs)

    def _store(self, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        called = "register" if method == "__call__" else f"register.{method}"
        try:
            arguments = bound(signature_of(self._hook, method), called, args, kwargs)
            self.methods[method](**arguments, owner=self._owner)
        except DuplicateName as error:
            self._manager.problem(self._owner, str(error))
        except Exception as error:  # what the arguments are is the plugin's doing as well
            self._manager.problem(self._owner, f"{self._hook}: {describe(error)}")


def signature_of(hook: str, method: str = "__call__") -> inspect.Signature:
    """The signature of a hook's registrar, or of a method of it, as `figeval.hooks` declares it, without `self`."""
    annotation = inspect.signature(getattr(hooks, hook)).parameters["register"].annotation
    whole = inspect.signature(getattr(getattr(hooks, annotation), method))
    return whole.replace(parameters=list(whole.parameters.values())[1:])


def bound(
    signature: inspect.Signature, called: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by name, with defaults. Raises `PluginError` saying how it is called."""
    try:
        found = signature.bind(*args, **kwargs)
    except TypeError as error:
        strange = next((name for name in kwargs if name not in signature.parameters), "")
        hint = near(strange, signature.parameters) if strange else ""
        if RENAMED.get(strange) in signature.parameters:
            hint = f"; {strange!r} of figeval 0.1 is {RENAMED[strange]!r} now"
        raise PluginError(f"{error}{hint}; call {spelled(signature, called)}") from error
    found.apply_defaults()
    return dict(found.arguments)


def spelled(signature: inspect.Signature, called: str) -> str:
    """`register(name, factory, summary='')`: how a function is called, without types."""
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return f"{called}{signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)}"


def preferred(things: Iterable[Thing], owners: Sequence[str]) -> list[Thing]:
    """Things with an `owner`, those of the first owner first; each owner's things keep their order."""
    rank = {owner: place for place, owner in enumerate(owners)}
    return sorted(things, key=lambda thing: rank.get(thing.owner, len(rank)))
