"""File formats for finished runs, which are combined into one table. Exporters see only run records."""

from __future__ import annotations

from figeval.hooks import ExporterRegistrar, hookimpl


@hookimpl
def register_exporters(register: ExporterRegistrar) -> None:
    """Register two formats for programs, two for people, and one with published numbers."""
    register("csv", f"{__name__}.long_format:export_csv")
    register("json", f"{__name__}.long_format:export_json")
    register("latex", f"{__name__}.latex:export")
    register("markdown", f"{__name__}.markdown:export")
    register("published", f"{__name__}.markdown:export_published")
