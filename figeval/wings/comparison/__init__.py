"""Comparison of runs example by example: tests, ranks, difficult examples, and what a task can show."""

from __future__ import annotations

from figeval.hooks import CommandLine, hookimpl


@hookimpl
def register_commands(cli: CommandLine) -> None:
    """Register the commands."""
    cli.add_lazy_command(
        "compare", "figeval.wings.comparison.command:compare", "Compare two or more runs example by example."
    )
    cli.add_lazy_command(
        "difficulty",
        "figeval.wings.comparison.difficulty_command:difficulty",
        "Find examples that nobody gets right, and doubtful labels.",
    )
    cli.add_lazy_command(
        "power", "figeval.wings.comparison.power_command:power", "Say which difference between models a task can show."
    )
