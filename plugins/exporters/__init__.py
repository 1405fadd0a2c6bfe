"""File formats for finished runs: several runs become one table. Records are all that an exporter sees."""

from __future__ import annotations

from figeval.hookspecs import hookimpl
from figeval.registry import ExporterRegister


@hookimpl
def register_exporters(register: ExporterRegister) -> None:
    """One module per format."""
    for name, module in {"csv": "csv", "json": "json_", "latex": "latex", "markdown": "markdown"}.items():
        register(name, f"{__name__}.{module}:export")
