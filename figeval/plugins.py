"""Finds plugins, loads each one on its own, and keeps going when one of them is broken.

Three kinds, in this order: the core's own tables (`figeval.defaults`), everything in the folders `tasks/` and
`plugins/` (one plugin per module), and installed distributions with an entry point in the group `figeval`.
`FIGEVAL_PLUGINS=a,b` names modules to load instead of the entry points; empty means none.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any

import pluggy

from figeval import hookspecs
from figeval.errors import FigevalError, near

GROUP = "figeval"
HOOKS = frozenset(name for name, value in vars(hookspecs).items() if hasattr(value, "figeval_spec"))


@dataclass(slots=True)
class Plugin:
    """One row of `figeval ls plugins`."""

    name: str
    origin: str  # "core", "built in", or the distribution and version that brought it
    problems: list[str] = field(default_factory=list)


class Host:
    """The loaded plugins and what is wrong with some of them."""

    def __init__(self) -> None:
        self.manager = pluggy.PluginManager(hookspecs.PROJECT)
        self.manager.add_hookspecs(hookspecs)
        self.plugins: dict[str, Plugin] = {}

    def load(self, name: str, origin: str, imported: Callable[[], Any]) -> None:
        """Import one plugin and register it; whatever goes wrong becomes a problem of its row."""
        row = self.plugins.setdefault(name, Plugin(name, origin))
        try:
            plugin = imported()
            for problem in misspelt_hooks(plugin):
                self.problem(name, problem)
            self.manager.register(plugin, name)
        except Exception as error:  # any exception at all: it is somebody else's code
            self.problem(name, f"not loaded: {describe(error)}")
            return
        self.plugins[name] = row

    def problem(self, name: str, message: str) -> None:
        """Note a problem of a plugin and warn once, in one line on stderr."""
        problems = self.plugins.setdefault(name, Plugin(name, "unknown")).problems
        if message not in problems:
            problems.append(message)
            print(f"figeval: warning: plugin {name!r}: {message}", file=sys.stderr)

    def implementations(self, hook: str) -> Iterator[tuple[str, Callable[..., Any]]]:
        """(plugin name, function taking the hook's arguments by keyword) in order of loading."""
        for implementation in getattr(self.manager.hook, hook).get_hookimpls():
            yield implementation.plugin_name, _accepting(implementation)

    def each(self, hook: str, arguments: Callable[[str], dict[str, Any]]) -> None:
        """Call a hook of every plugin with `arguments(plugin name)`; one that raises does not stop the others."""
        for name, function in self.implementations(hook):
            try:
                function(**arguments(name))
            except Exception as error:  # see load
                self.problem(name, f"{hook}: {describe(error)}")

    def first(self, hook: str, **arguments: Any) -> Any:
        """The first answer that is not None. A `FigevalError` is an answer too: it reaches the user."""
        for name, function in self.implementations(hook):
            try:
                answer = function(**arguments)
            except FigevalError:
                raise
            except Exception as error:  # see load
                self.problem(name, f"{hook}: {describe(error)}")
                continue
            if answer is not None:
                return answer
        return None


def _accepting(implementation: pluggy.HookImpl) -> Callable[..., Any]:
    """The hook function, called with only those arguments that it names."""
    return lambda **given: implementation.function(*(given[name] for name in implementation.argnames))


def misspelt_hooks(plugin: Any) -> list[str]:
    """Functions marked as hooks that no hook is named after, with the nearest real name."""
    marked = [name for name in dir(plugin) if hasattr(getattr(plugin, name, None), "figeval_impl")]
    return [f"there is no hook {name!r}{near(name, HOOKS)}" for name in marked if name not in HOOKS]


def describe(error: BaseException) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, FigevalError) else f"{type(error).__name__}: {text}"


def builtin_modules() -> Iterator[str]:
    """One plugin per module of `tasks/` and `plugins/`: a benchmark is added or removed by its folder."""
    for room in ("tasks", "plugins"):
        package = importlib.import_module(f"figeval.builtin.{room}")
        for module in pkgutil.iter_modules(package.__path__):
            if not module.name.startswith("_"):
                yield f"{package.__name__}.{module.name}"


def installed() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """(name, origin, import function) of every plugin outside this distribution."""
    named = os.environ.get("FIGEVAL_PLUGINS")
    if named is not None:
        for module in filter(None, (part.strip() for part in named.split(","))):
            yield module, "FIGEVAL_PLUGINS", lambda module=module: importlib.import_module(module)  # type: ignore[misc]
        return
    for point in entry_points(group=GROUP):
        origin = f"{point.dist.name} {point.dist.version}" if point.dist else "entry point"
        yield point.name, origin, point.load


def load(modules: Iterable[str] | None = None) -> Host:
    """A host with the core, the built-in plugins and the installed ones; `modules` replaces the last two (tests)."""
    host = Host()
    host.load("figeval.defaults", "core", lambda: importlib.import_module("figeval.defaults"))
    for module in builtin_modules() if modules is None else modules:
        host.load(module, "built in", lambda module=module: importlib.import_module(module))  # type: ignore[misc]
    if modules is None:
        for name, origin, imported in installed():
            host.load(name, origin, imported)
    return host


@lru_cache(maxsize=1)
def host() -> Host:
    """The one host of this process."""
    return load()
