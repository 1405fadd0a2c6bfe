"""HTML pages: reports about runs, and sites with leaderboards."""

from __future__ import annotations

from figeval import CommandLine, hookimpl


@hookimpl
def register_commands(cli: CommandLine) -> None:
    """Register the commands."""
    cli.add_lazy_command(
        "report",
        "figeval.wings.report.command:report",
        "Write an HTML page about runs, with a sample explorer.",
        heading="Compare and publish",
    )
    cli.add_lazy_command(
        "board",
        "figeval.wings.report.command:board",
        "Write a site with leaderboards of many runs.",
        heading="Compare and publish",
    )
