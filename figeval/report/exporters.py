"""Registry of the export formats that plugins offer for finished runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from figeval.plugins import PluginManager
from figeval.records.schema import RunRecord
from figeval.registry import Registry

Exporter: TypeAlias = Callable[[Sequence[RunRecord]], str]


def load_exporters(manager: PluginManager) -> Registry[Exporter]:
    """Return the exporters of all plugins, by format."""
    return Registry.collect(manager, "register_exporters", "format", "figeval export --help")
