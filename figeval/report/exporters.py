"""The file formats that plugins offer for finished runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from figeval.plugins import Host
from figeval.records.schema import RunRecord
from figeval.registry import Registry, fill, plain

Exporter: TypeAlias = Callable[[Sequence[RunRecord]], str]


def load_exporters(host: Host) -> Registry[Exporter]:
    """Every exporter of every plugin."""
    registry: Registry[Exporter] = Registry("format", "figeval export --help")

    def add(name: str, function: Exporter | str, *, owner: str) -> None:
        registry.add(name, function, owner)

    fill(host, "register_exporters", add, plain)
    return registry
