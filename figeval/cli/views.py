"""What plugins offer `figeval show`: flags that view a run, and descriptions of their own things."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from figeval.errors import DuplicateName, PluginError
from figeval.plugins import PluginManager
from figeval.registry import Registry, fill, resolve

if TYPE_CHECKING:
    from figeval.api.runs import Run
    from figeval.reporting.grid import Result
    from figeval.runs.harness import Harness

    RunView: TypeAlias = Callable[[Run], Result]


def run_views(manager: PluginManager, params: Iterable[click.Parameter]) -> Registry[RunView]:
    """Return the views of runs by name; a name that cannot be a flag, or is one, is a problem of its plugin.

    Args:
        manager: the plugins.
        params: the parameters of `figeval show`.
    """
    views: Registry[RunView] = Registry("view", "figeval show --help")
    taken = {option for param in params for option in param.opts}

    def add(name: str, view: RunView | str, summary: str, *, owner: str) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise PluginError(f"the view {name!r} cannot be a flag; its name may have letters, digits and underscores")
        if f"--{name}" in taken:
            raise DuplicateName(f"view {name!r} of {owner}: `figeval show` has this flag already; rename it")
        views.add(name, view, owner, summary)

    fill(manager, "register_run_views", add)
    return views


def views_by_name(harness: Harness) -> dict[str, Callable[[], Result]]:
    """Return functions that describe the things of plugins, by their names."""
    views: dict[str, Callable[[], Result]] = {}

    def add(kind: str, names: Any, view: Any, *, owner: str) -> None:
        for name in resolve(names)(harness):
            if name in views:
                raise DuplicateName(f"{kind} {name!r} of {owner} is already registered; rename it")
            views[name] = lambda name=name: resolve(view)(harness, name)  # type: ignore[misc]

    fill(harness.manager, "register_views", add)
    return views
