"""File formats for finished runs: several runs become one table. Records are all that an exporter sees."""

from __future__ import annotations

from figeval.hooks import ExporterRegistrar, hookimpl


@hookimpl
def register_exporters(register: ExporterRegistrar) -> None:
    """One module per format."""
    for name in ("csv", "json", "latex", "markdown", "published"):
        register(name, f"{__name__}.{'json_' if name == 'json' else name}:export")
