"""Audits of multiple-choice tasks: how far simple rules come."""

from __future__ import annotations

from figeval import CommandLine, hookimpl


@hookimpl
def register_commands(cli: CommandLine) -> None:
    """Register the command."""
    cli.add_lazy_command(
        "audit",
        "figeval.wings.audit.command:audit",
        "Measure what the options of a multiple-choice task give away.",
        heading="Tasks and plugins",
    )
