"""Comparison of runs example by example: tests, ranks, difficult examples, and what a task can show.

Other wings use `figeval.compare` with its `Comparison`, and the functions that the module `family` names.
"""

from __future__ import annotations

from figeval import CommandLine, hookimpl


@hookimpl
def register_commands(cli: CommandLine) -> None:
    """Register the commands."""
    cli.add_lazy_command(
        "compare",
        "figeval.wings.comparison.command:compare",
        "Compare two or more runs example by example.",
        heading="Compare and publish",
    )
    cli.add_lazy_command(
        "difficulty",
        "figeval.wings.comparison.command:difficulty",
        "Find examples that nobody gets right, and doubtful labels.",
        heading="Compare and publish",
    )
    cli.add_lazy_command(
        "power",
        "figeval.wings.comparison.command:power",
        "Compute how large a difference a task can show.",
        heading="Compare and publish",
    )
