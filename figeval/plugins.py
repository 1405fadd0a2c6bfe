"""Finds plugins, loads each one on its own, and keeps going when one of them is broken.

Three kinds, in this order: the core's own tables (`figeval.defaults`), everything in the folders `tasks/` and
`plugins/` (one plugin per module), and installed distributions with an entry point in the group `figeval`.
`FIGEVAL_PLUGINS=a,b` names modules to load instead of the entry points; empty means none.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any

import pluggy

from figeval import hooks
from figeval.errors import FigevalError, PluginError, near
from figeval.text import one_line

GROUP = "figeval"
HOOKS = frozenset(name for name, value in vars(hooks).items() if hasattr(value, "figeval_spec"))
BROKEN = (Exception, SystemExit)  # whatever somebody else's code may raise; a script may even try to leave


@dataclass(slots=True)
class Plugin:
    """One row of `figeval ls plugins`."""

    name: str
    origin: str  # "core", "built in", or the distribution and version that brought it
    problems: list[str] = field(default_factory=list)


class Host:
    """The loaded plugins and what is wrong with some of them."""

    def __init__(self) -> None:
        self.manager = pluggy.PluginManager(hooks.PROJECT)
        self.manager.add_hookspecs(hooks)
        self.plugins: dict[str, Plugin] = {}

    def load(self, name: str, origin: str, imported: Callable[[], Any]) -> None:
        """Import one plugin and register it; whatever goes wrong becomes a problem of its row."""
        if name in self.plugins:  # two distributions chose one name
            name = f"{name} of {origin}"
        self.plugins[name] = Plugin(name, origin)
        try:
            plugin = imported()
            if (known := self.manager.get_name(plugin)) is not None:
                raise PluginError(f"the same plugin is already loaded as {known!r}")
            check_hooks(plugin)
            self.manager.register(plugin, name)
        except BROKEN as error:
            self.problem(name, f"not loaded: {describe(error)}")
            return
        for problem in misspelt_hooks(plugin):
            self.problem(name, problem)

    def problem(self, name: str, message: str) -> None:
        """Note a problem of a plugin and warn once, in one line on stderr."""
        problems = self.plugins.setdefault(name, Plugin(name, "unknown")).problems
        message = one_line(message)
        if message not in problems:
            problems.append(message)
            print(f"figeval: warning: plugin {name!r}: {message}", file=sys.stderr)

    def implementations(self, hook: str) -> Iterator[tuple[str, Callable[..., Any]]]:
        """(plugin name, function taking the hook's arguments by keyword) in order of loading.

        `@hookimpl(tryfirst=True)` comes before all others, `trylast=True` after them.
        """
        found = getattr(self.manager.hook, hook).get_hookimpls()
        for implementation in sorted(found, key=lambda one: one.trylast - one.tryfirst):
            yield implementation.plugin_name, _accepting(implementation)

    def each(self, hook: str, arguments: Callable[[str], dict[str, Any]]) -> None:
        """Call a hook of every plugin with `arguments(plugin name)`; one that raises does not stop the others."""
        for name, function in self.implementations(hook):
            try:
                function(**arguments(name))
            except BROKEN as error:
                self.problem(name, f"{hook}: {describe(error)}")

    def first(self, hook: str, **arguments: Any) -> Any:
        """The first answer that is not None. A `FigevalError` is an answer too: it reaches the user."""
        for name, function in self.implementations(hook):
            try:
                answer = function(**arguments)
            except FigevalError:
                raise
            except BROKEN as error:
                self.problem(name, f"{hook}: {describe(error)}")
                continue
            if answer is not None:
                return answer
        return None


def _accepting(implementation: pluggy.HookImpl) -> Callable[..., Any]:
    """The hook function, called with only those arguments that it names."""
    return lambda **given: implementation.function(*(given[name] for name in implementation.argnames))


def marked(plugin: Any) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """(hook it is meant for, function, options of its mark) of everything in a plugin that carries `@hookimpl`."""
    for name in dir(plugin):
        function = getattr(plugin, name, None)
        options = getattr(function, "figeval_impl", None)
        if options is not None and inspect.isroutine(function):
            yield options["specname"] or name, function, options


def misspelt_hooks(plugin: Any) -> list[str]:
    """Functions marked as hooks that no hook is named after, with the nearest real name."""
    return [f"there is no hook {name!r}{near(name, HOOKS)}" for name, _, _ in marked(plugin) if name not in HOOKS]


def check_hooks(plugin: Any) -> None:
    """Raise `PluginError` for a hook that could not be called, naming the arguments that it may have.

    pluggy finds the same, but only says what is wrong, not what would be right; and a wrapper, which pluggy allows,
    would never be run here.
    """
    for name, function, options in marked(plugin):
        if name not in HOOKS:
            continue
        if options["wrapper"] or options["hookwrapper"]:
            raise PluginError(f"hook {name!r} is a wrapper, which figeval does not call; write a plain function")
        known = inspect.signature(getattr(hooks, name)).parameters
        for argument, details in inspect.signature(function).parameters.items():
            if argument not in known and details.default is details.empty:
                takes = ", ".join(known)
                raise PluginError(f"hook {name!r} takes {takes}, not {argument!r}{near(argument, known)}")


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
