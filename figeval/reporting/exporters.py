"""Registry of the export formats that plugins offer for finished runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from figeval.plugins import PluginManager
from figeval.registry import Registry

Exporter: TypeAlias = Callable[..., Any]  # checked when it is called (figeval.wings.exporters.api)


def load_exporters(manager: PluginManager) -> Registry[Exporter]:
    """Return the exporters of all plugins, by format."""
    return Registry.collect(manager, "register_exporters", "format", "figeval export --help")
