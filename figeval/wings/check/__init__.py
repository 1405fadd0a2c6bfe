"""A gate for continuous use: conditions that a run must meet."""

from __future__ import annotations

from figeval import CommandLine, hookimpl


@hookimpl
def register_commands(cli: CommandLine) -> None:
    """Register the command."""
    cli.add_lazy_command(
        "check",
        "figeval.wings.check.command:check",
        "Fail unless a run meets conditions, e.g. in CI.",
        heading="Compare and publish",
    )
