"""Registries of named objects: one small registry per kind, filled from plugins on first use.

`"module:attribute"` targets are imported on first `get`, so listing names imports nothing. A `Deferred` target is made
on first `get` as well, for cases in which an import is not enough.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Generic, Protocol, TypeVar

from figeval import hooks
from figeval.errors import DuplicateName, PluginError, UnknownName
from figeval.extras import missing_package
from figeval.io.text import near
from figeval.plugins import PluginManager, describe

T = TypeVar("T")


class Owned(Protocol):
    """An object that a plugin has registered."""

    @property
    def owner(self) -> str:
        """Name of the plugin."""


Thing = TypeVar("Thing", bound=Owned)


@dataclass(frozen=True)
class Deferred(Generic[T]):
    """An object that is made on first use and kept. If making it fails, the next request tries again."""

    make: Callable[[], T]

    @cached_property
    def made(self) -> T:
        """The object itself."""
        return self.make()


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """A registered object: its name, the object or its import path, the plugin that registered it, and a summary."""

    name: str
    target: T | Deferred[T] | str
    owner: str
    summary: str = ""

    def load(self) -> T:
        """Return the object, imported or made if necessary."""
        return self.target.made if isinstance(self.target, Deferred) else resolve(self.target)


class Registry(Generic[T]):
    """Objects of one kind by name, in the order of registration."""

    def __init__(self, kind: str, see: str) -> None:
        self.kind = kind
        self.see = see
        self._entries: dict[str, Entry[T]] = {}

    @classmethod
    def collect(cls, manager: PluginManager, hook: str, kind: str, see: str) -> Registry[T]:
        """Collect the registrations of plugins: `register(name, target)` or `register(name, target, summary)`."""
        registry = cls(kind, see)

        def add(*, owner: str, **arguments: Any) -> None:
            name, target, *summary = arguments.values()
            registry.add(name, target, owner, *summary)

        registry.fill(manager, hook, add)
        return registry

    def fill(self, manager: PluginManager, hook: str, add: Callable[..., None]) -> None:
        """Let plugins register through a hook (`fill`); the entries of those that are tried first come first."""
        self.prefer(fill(manager, hook, add))

    def add(self, name: str, target: T | Deferred[T] | str, owner: str, summary: str = "") -> None:
        """Register an object.

        Raises:
            DuplicateName: the name is taken; the message names both owners.
            PluginError: the name is not a string, or is empty.
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
        """Put the entries of these owners first, in their order; the order within an owner stays the same."""
        self._entries = {entry.name: entry for entry in sort_by_owner(self, owners)}

    def get(self, name: str) -> T:
        """Return the object of this name. Raises `UnknownName` with similar names."""
        return self.entry(name).load()

    def entry(self, name: str) -> Entry[T]:
        """Return the entry of this name. Raises `UnknownName` with similar names."""
        if name not in self._entries:
            raise UnknownName(self.kind, name, self._entries, see=self.see)
        return self._entries[name]

    def usable(self, manager: PluginManager) -> Iterator[tuple[Entry[T], T]]:
        """Yield every entry with its object. One that cannot be loaded is skipped, as a problem of its plugin."""
        for entry in self:
            try:
                thing = entry.load()
            except Exception as error:  # importing a plugin's module may raise anything
                manager.problem(entry.owner, describe(error))
            else:
                yield entry, thing

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)


def resolve(target: T | str) -> T:
    """Return a registered target, imported now if it is a `"module:attribute"` string."""
    return load_target(target) if isinstance(target, str) else target


def load_target(target: str) -> Any:
    """Import `"module:attribute"`.

    Raises:
        PluginError: there is no such module or attribute.
        MissingPackage: the module needs a package of an extra that is not installed.
    """
    module, _, attribute = target.partition(":")
    try:
        imported = importlib.import_module(module)
    except ImportError as error:
        general = PluginError(f"{target!r} cannot be imported ({error}); install what is missing")
        raise missing_package(error) or general from error
    if not hasattr(imported, attribute):
        raise PluginError(f"module {module!r} has no {attribute!r}{near(attribute, dir(imported))}")
    return getattr(imported, attribute)


def a_type(value: object) -> str:
    """Return the type of a value, e.g. `a str` or `None`, without calling its `__str__`, which may be broken."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def fill(manager: PluginManager, hook: str, add: Callable[..., None], **methods: Callable[..., None]) -> list[str]:
    """Let every plugin register through a hook; return the plugins in the order of preference.

    `add(**arguments, owner=...)` stores the arguments of `register(...)`, `methods` those of its methods
    (`register.folder(...)`). The arguments are bound by the signature of the hook's registrar in `figeval.hooks`, with
    its defaults, so that the documented signature is the only one. An error in a call is a problem of the plugin and
    costs only that registration; its others remain valid.
    """

    def arguments(owner: str) -> Mapping[str, Registrar]:
        return {"register": Registrar(manager, owner, hook, {"__call__": add, **methods})}

    manager.each(hook, arguments)
    return manager.preference(hook)


class Registrar:
    """The argument of a registration hook: the registrar of `figeval.hooks`, on behalf of one plugin."""

    def __init__(
        self, manager: PluginManager, owner: str, hook: str, methods: Mapping[str, Callable[..., None]]
    ) -> None:
        self._manager = manager
        self._owner = owner
        self._hook = hook
        self.methods = methods

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Register one object."""
        self._store("__call__", args, kwargs)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("_") or name == "methods" or name not in self.methods:
            names = [method for method in self.methods if not method.startswith("_")]
            raise AttributeError(f"register of {self._hook} has no method {name!r}{near(name, names)}")
        return lambda *args, **kwargs: self._store(name, args, kwargs)

    def _store(self, method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        called = "register" if method == "__call__" else f"register.{method}"
        try:
            arguments = bind_arguments(signature_of(self._hook, method), called, args, kwargs)
            self.methods[method](**arguments, owner=self._owner)
        except DuplicateName as error:
            self._manager.problem(self._owner, str(error))
        except Exception as error:  # the plugin has chosen the arguments, so the error is its problem as well
            self._manager.problem(self._owner, f"{self._hook}: {describe(error)}")


@cache
def signature_of(hook: str, method: str = "__call__") -> inspect.Signature:
    """Return the signature of a hook's registrar, or of one of its methods, from `figeval.hooks`, without `self`."""
    annotation = inspect.signature(getattr(hooks, hook)).parameters["register"].annotation
    signature = inspect.signature(getattr(getattr(hooks, annotation), method))
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def bind_arguments(
    signature: inspect.Signature, called: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call by name, with defaults. Raises `PluginError` with the correct call."""
    try:
        arguments = signature.bind(*args, **kwargs)
    except TypeError as error:
        strange = next((name for name in kwargs if name not in signature.parameters), "")
        hint = near(strange, signature.parameters) if strange else ""
        raise PluginError(f"{error}{hint}; call {spell_call(signature, called)}") from error
    arguments.apply_defaults()
    return dict(arguments.arguments)


def spell_call(signature: inspect.Signature, called: str) -> str:
    """Return how a function is called, without types, e.g. `register(name, factory, summary='')`."""
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return f"{called}{signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)}"


def sort_by_owner(things: Iterable[Thing], owners: Sequence[str]) -> list[Thing]:
    """Sort objects by their `owner`, in the order of `owners`; the order within an owner stays the same."""
    rank = {owner: index for index, owner in enumerate(owners)}
    return sorted(things, key=lambda thing: rank.get(thing.owner, len(rank)))
