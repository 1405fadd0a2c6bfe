"""A finished run recomputed from its rows, and its files compared with their digests."""

from __future__ import annotations

from figeval import CommandLine, hookimpl


@hookimpl
def register_commands(cli: CommandLine) -> None:
    """Register the command."""
    cli.add_lazy_command(
        "verify",
        "figeval.wings.verify.command:verify",
        "Recompute the scores of a run and check its files.",
        heading="Compare and publish",
    )
