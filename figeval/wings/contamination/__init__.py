"""Measures of what a model may remember of a benchmark."""

from __future__ import annotations

from figeval import CommandLine, hookimpl


@hookimpl
def register_commands(cli: CommandLine) -> None:
    """Register the command."""
    cli.add_lazy_command(
        "contamination",
        "figeval.wings.contamination.command:contamination",
        "Measure what a model may remember of a benchmark.",
        heading="Benchmarks",
    )
