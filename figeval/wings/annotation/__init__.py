"""Texts judged by people or by a model: sheets, a local page, agreement, and scores of the judgements."""

from __future__ import annotations

from figeval import CommandLine, hookimpl


@hookimpl
def register_commands(cli: CommandLine) -> None:
    """Register the command."""
    cli.add_lazy_command(
        "annotate",
        "figeval.wings.annotation.command:annotate",
        "Have people judge texts: export items, import judgements.",
        heading="People",
    )
