"""The plugin manager, which finds plugins, loads each one separately, and continues if one of them is broken.

There are three kinds, loaded in this order: the core's own tables (`figeval.defaults`), everything in the folders
`figeval/wings/`, `tasks/` and `plugins/` (one plugin per module), and installed distributions with an entry point in
the group `figeval`. `FIGEVAL_PLUGINS=a,b` names modules to load instead of the entry points; empty means none.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.metadata import entry_points
from threading import Lock
from typing import Any, TypeVar

import pluggy

from figeval import hooks
from figeval.errors import FigevalError, PluginError
from figeval.extras import needed_for
from figeval.io.frontend import warn
from figeval.io.text import near, one_line

T = TypeVar("T")
GROUP = "figeval"
BUILT_IN = "built in"


@dataclass(slots=True)
class Plugin:
    """One row of `figeval ls plugins`."""

    name: str
    origin: str  # "core", "built in", or the distribution and its version
    problems: list[str] = field(default_factory=list)


class PluginManager:
    """The loaded plugins and their problems.

    pluggy keeps the plugins and their order; the hooks are called here, one plugin at a time, because pluggy stops at
    the first one that raises an exception.
    """

    def __init__(self) -> None:
        self.plugins: dict[str, Plugin] = {}
        self._pluggy = pluggy.PluginManager(hooks.PROJECT)
        self._pluggy.add_hookspecs(hooks)

    def load(self, name: str, origin: str, imported: Callable[[], object]) -> None:
        """Import one plugin and register it; any error becomes a problem of the plugin."""
        if name in self.plugins:  # two distributions use the same name
            name = f"{name} of {origin}"
        self.plugins[name] = Plugin(name, origin)
        with self._contained(name, "not loaded"):
            plugin = imported()
            if (existing_name := self._pluggy.get_name(plugin)) is not None:
                raise PluginError(f"the same plugin is already loaded as {existing_name!r}")
            misspelt = check_hooks(plugin)
            self._register(plugin, name)
            for problem in misspelt:
                self.problem(name, problem)

    def _register(self, plugin: object, name: str) -> None:
        """Register a plugin with pluggy, completely or not at all."""
        try:
            self._pluggy.register(plugin, name)
        except BaseException:
            with suppress(Exception):
                self._pluggy.unregister(name=name)
            raise

    def problem(self, name: str, message: str) -> None:
        """Record a problem of a plugin and warn once, in one line on stderr."""
        problems = self.plugins.setdefault(name, Plugin(name, "unknown")).problems
        message = one_line(message)
        if message not in problems:
            problems.append(message)
            warn(f"plugin {name!r}: {message}")

    def loaded(self) -> list[tuple[str, object]]:
        """Return (name, plugin) for the plugins that could be loaded, in the order of loading."""
        return self._pluggy.list_name_plugin()

    def hooks_of(self, name: str) -> list[str]:
        """Return the names of the hooks that a plugin implements."""
        plugin = self._pluggy.get_plugin(name)
        callers = self._pluggy.get_hookcallers(plugin) if plugin is not None else None
        return [caller.name for caller in callers or ()]

    def implementations(self, hook: str) -> list[tuple[str, Callable[..., Any]]]:
        """Return (plugin name, function that takes the hook's arguments by keyword) in the order of the calls.

        This is pluggy's order, last loaded first, except for registration hooks, which are called in the order of
        loading: a name belongs to the plugin that was loaded first (see `figeval.hooks`).
        """
        implementations = self._in_call_order(hook)
        if hook.startswith("register_"):
            ranks = {name: number for number, name in enumerate(self.plugins)}
            implementations.sort(key=lambda hook_impl: ranks[hook_impl.plugin_name])

        def accepting(hook_impl: pluggy.HookImpl) -> Callable[..., Any]:
            """Return the hook function, called only with the arguments that it names."""
            return lambda **arguments: hook_impl.function(*(arguments[name] for name in hook_impl.argnames))

        return [(implementation.plugin_name, accepting(implementation)) for implementation in implementations]

    def tried_first(self, hook: str) -> list[str]:
        """Return the plugins that implement a hook with `tryfirst=True`."""
        return [implementation.plugin_name for implementation in self._in_call_order(hook) if implementation.tryfirst]

    def preference(self, hook: str) -> list[str]:
        """Return the plugins that implement a registration hook, in the order of preference.

        This is the order of loading, except that `tryfirst=True` comes before all others and `trylast=True` after them.
        """
        first = self.tried_first(hook)
        last = [
            implementation.plugin_name
            for implementation in self._in_call_order(hook)
            if implementation.trylast and not implementation.tryfirst
        ]
        return [*first, *(name for name, _ in self.implementations(hook) if name not in (*first, *last)), *last]

    def each(self, hook: str, arguments: Callable[[str], Mapping[str, object]]) -> None:
        """Call a hook of every plugin with `arguments(plugin name)`; an exception in one does not stop the others."""
        for name, function in self.implementations(hook):
            with self._contained(name, hook):
                refuse_unrun(function(**arguments(name)))

    def first(self, hook: str, **arguments: object) -> object:
        """Return the first answer that is not None. A `FigevalError` counts as an answer and reaches the user.

        So does a package that a built-in plugin misses: figeval was installed without its extra. Without a package of
        its own, an installed plugin is passed over, since it may have nothing to say about the question.
        """
        for name, function in self.implementations(hook):
            answer, refusal = None, None
            with self._contained(name, hook):
                try:
                    with needed_for() if self.plugins[name].origin == BUILT_IN else nullcontext():
                        returned = function(**arguments)
                except FigevalError as error:
                    refusal = error
                else:
                    answer = refuse_unrun(returned)
            if refusal is not None:
                raise refusal
            if answer is not None:
                return answer
        return None

    def _in_call_order(self, hook: str) -> list[pluggy.HookImpl]:
        return list(reversed(getattr(self._pluggy.hook, hook).get_hookimpls()))

    @contextmanager
    def _contained(self, name: str, doing: str) -> Iterator[None]:
        """Run a plugin's code; any exception except KeyboardInterrupt becomes a problem of the plugin."""
        try:
            with foreign_code():
                yield
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # including SystemExit, which a script may raise
            self.problem(name, f"{doing}: {describe(error)}")


class _StdoutOnStderr:
    """A `redirect_stdout(sys.stderr)` for overlapping threads: the last one to leave restores stdout."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._stdout = sys.stdout

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._stdout, sys.stdout = sys.stdout, sys.stderr
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                sys.stdout = self._stdout


_STDOUT_ON_STDERR = _StdoutOnStderr()


@contextmanager
def foreign_code(whose: str = "") -> Iterator[None]:
    """Run third-party code: its output goes to stderr, and the working folder is restored afterwards.

    Standard output is reserved for tables and JSON that programs read, and the run writes to relative paths. If the
    code changed the working folder, a warning names its owner (`whose`), once per process.

    Raises:
        MissingPackage: the code imports a package of an extra that is not installed.
    """
    before = _working_folder()
    try:
        with _STDOUT_ON_STDERR, needed_for():
            yield
    finally:
        if before is not None and _working_folder() != before:
            os.chdir(before)
            if whose:
                _warn_of_move(whose)


@cache
def _warn_of_move(whose: str) -> None:
    """Warn on the first call only, because the code of a metric runs once per example."""
    warn(f"{whose} changed the working folder; it was changed back")


def _working_folder() -> str | None:
    """Return the working folder, or None if it has been removed."""
    try:
        return os.getcwd()  # noqa: PTH109 - the path is only compared and restored
    except OSError:
        return None


def refuse_unrun(result: T) -> T:
    """Return the result of a hook. Raises `PluginError` for a generator or coroutine, whose body has not run."""
    if inspect.isgenerator(result) or inspect.iscoroutine(result):
        result.close()
        raise PluginError(f"returned a {type(result).__name__}, whose body never ran; write a plain function")
    return result


def find_hooks(plugin: object) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """Yield (name of the hook, function, options of the mark) for everything in a plugin with `@hookimpl`."""
    for name in dir(plugin):
        function = getattr(plugin, name, None)
        options = getattr(function, "figeval_impl", None)
        if options is not None and inspect.isroutine(function):
            yield options["specname"] or name, function, options


def check_hooks(plugin: object) -> list[str]:
    """Return one line for each function that is marked as a hook but has no hook's name.

    pluggy checks the arguments as well, but its message does not say what would be right.

    Raises:
        PluginError: a hook could not be called, or its body would never run.
    """
    misspelt = []
    for name, function, options in find_hooks(plugin):
        if name not in hooks.HOOKS:
            misspelt.append(f"there is no hook {name!r}{near(name, hooks.HOOKS)}")
            continue
        if options["wrapper"] or options["hookwrapper"]:
            raise PluginError(f"hook {name!r} is a wrapper, which figeval does not call; write a plain function")
        if any(test(function) for test in (inspect.isgeneratorfunction, inspect.isasyncgenfunction)):
            raise PluginError(f"hook {name!r} is a generator, whose body would never run; remove the yield")
        if inspect.iscoroutinefunction(function):
            raise PluginError(f"hook {name!r} is a coroutine, whose body would never run; write `def`, not `async def`")
        parameters = inspect.signature(getattr(hooks, name)).parameters
        for argument, details in inspect.signature(function).parameters.items():
            if argument not in parameters and details.default is details.empty:
                takes = ", ".join(parameters)
                raise PluginError(f"hook {name!r} takes {takes}, not {argument!r}{near(argument, parameters)}")
    return misspelt


def describe(error: BaseException) -> str:
    """Return an exception in one line, even if its own `__str__` is broken."""
    try:
        text = one_line(str(error))
    except KeyboardInterrupt:
        raise
    except BaseException as second:
        text = f"(its message cannot be shown: __str__ raised {type(second).__name__})"
    return text if isinstance(error, FigevalError) else f"{type(error).__name__}: {text}"


def builtin_modules() -> Iterator[str]:
    """Yield one plugin per module of wings, tasks and plugins, so that a folder adds or removes a feature."""
    for room in ("figeval.wings", "figeval.builtin.tasks", "figeval.builtin.plugins"):
        package = importlib.import_module(room)
        for module in pkgutil.iter_modules(package.__path__):
            if not module.name.startswith("_"):
                yield f"{package.__name__}.{module.name}"


def external_plugins() -> Iterator[tuple[str, str, Callable[[], object]]]:
    """Yield (name, origin, import function) for every plugin outside this distribution."""
    modules = os.environ.get("FIGEVAL_PLUGINS")
    if modules is not None:
        for module in filter(None, (part.strip() for part in modules.split(","))):
            yield module, "FIGEVAL_PLUGINS", lambda module=module: importlib.import_module(module)  # type: ignore[misc]
        return
    for point in entry_points(group=GROUP):
        origin = f"{point.dist.name} {point.dist.version}" if point.dist else "entry point"
        yield point.name, origin, point.load


def load(modules: Iterable[str] | None = None) -> PluginManager:
    """Return a manager with the core, the built-in and the installed plugins; `modules` replaces the last two."""
    manager = PluginManager()
    manager.load("figeval.defaults", "core", lambda: importlib.import_module("figeval.defaults"))
    for module in builtin_modules() if modules is None else modules:
        manager.load(module, BUILT_IN, lambda module=module: importlib.import_module(module))  # type: ignore[misc]
    if modules is None:
        for name, origin, imported in external_plugins():
            manager.load(name, origin, imported)
    return manager


@lru_cache(maxsize=1)
def plugin_manager() -> PluginManager:
    """Return the one plugin manager of this process."""
    return load()
