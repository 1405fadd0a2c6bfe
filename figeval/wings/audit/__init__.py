"""What the options of a multiple-choice task give away."""

from __future__ import annotations

from figeval.hooks import CommandLine, hookimpl


@hookimpl
def register_commands(cli: CommandLine) -> None:
    """Register the command."""
    cli.add_lazy_command(
        "audit", "figeval.wings.audit.command:audit", "Measure what the options of a multiple-choice task give away."
    )
