"""Runs as tables of papers, and in the formats of other tools."""

from __future__ import annotations

from figeval import CommandLine, ExporterRegistrar, ListingRegistrar, hookimpl


@hookimpl
def register_commands(cli: CommandLine) -> None:
    """Register the commands."""
    cli.add_lazy_command(
        "export",
        "figeval.wings.exporters.command:export",
        "Export runs as tables, or for other tools.",
        heading="Compare and publish",
    )
    cli.add_lazy_command(
        "package",
        "figeval.wings.exporters.package_command:package",
        "Write tasks as a data set for the hub.",
        heading="Tasks and plugins",
    )


@hookimpl
def register_listings(register: ListingRegistrar) -> None:
    """Register the tables of papers."""
    columns = ("name", "caption", "tasks", "owner")
    register("layouts", "figeval.wings.exporters.layouts:layout_rows", columns, "for export --layout, tables of papers")


@hookimpl
def register_exporters(register: ExporterRegistrar) -> None:
    """Register formats for programs, for people, for papers, and those of other tools."""
    register("bibtex", "figeval.wings.exporters.bibtex:export")
    register("csv", "figeval.wings.exporters.long_format:export_csv")
    register("json", "figeval.wings.exporters.long_format:export_json")
    register("latex", "figeval.wings.exporters.latex:export")
    register("markdown", "figeval.wings.exporters.markdown:export")
    register("published", "figeval.wings.exporters.markdown:export_published")
    register("every_eval_ever", "figeval.wings.exporters.every_eval_ever:export")
    register("inspect", "figeval.wings.exporters.inspect_log:export")
    register("lm_eval", "figeval.wings.exporters.lm_eval_results:export")
    register("model_index", "figeval.wings.exporters.hub:model_index")
    register("eval_results", "figeval.wings.exporters.hub:eval_results")
    register("parquet", "figeval.wings.exporters.long_format:export_parquet")
