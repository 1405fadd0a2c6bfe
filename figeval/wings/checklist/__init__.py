"""A conference's reproducibility checklist, answered from the records of runs."""

from __future__ import annotations

from figeval import CommandLine, hookimpl


@hookimpl
def register_commands(cli: CommandLine) -> None:
    """Register the command."""
    cli.add_lazy_command(
        "checklist",
        "figeval.wings.checklist.command:checklist",
        "Answer a conference's reproducibility checklist.",
        heading="Compare and publish",
    )
