"""Command `figeval audit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from figeval.cli.options import include_path

if TYPE_CHECKING:
    from figeval.wings.audit.audit import Audit, RuleScore


@click.command()
@click.argument("tasks", nargs=-1, required=True, metavar="TASK|SUITE...")
@click.option("--seed", default=0, show_default=True, help="Random seed for dividing the items into halves.")
@include_path
def audit(tasks: tuple[str, ...], seed: int, include_path: tuple[Path, ...]) -> None:
    """Measure what the options of a multiple-choice task give away without the question.

    Prints the accuracy of blind rules (position, length, likeness, how often an option is offered, a regression)
    with clustered 95 % intervals. A rule whose interval does not contain chance is marked with an asterisk.

    \b
    figeval audit epic_mcq
    """
    from figeval.runs.harness import Harness
    from figeval.wings.audit.audit import audit as audit_task

    harness = Harness(include=include_path)
    for task in harness.catalogue.expand(tasks):
        report(audit_task(task, harness, seed))


def report(found: Audit) -> None:
    """Print the table of one task."""
    from rich.console import Console

    from figeval.reporting.grid import Grid, say

    head = ("blind rule", "what it knows", "accuracy", "95 % interval", "")
    console = Console()
    clusters = f"{found.clusters} cluster{'s' * (found.clusters != 1)}"
    title = f"{found.task.name}, version {found.task.version}: {found.n} examples, {clusters}"
    Grid(head, [row(one) for one in found.findings], f"{title}, chance {decimals(found.chance)}", {"accuracy"}).print(
        console
    )
    if any(one.is_off for one in found.findings):
        say(console, "  * the interval does not contain chance")


def row(one: RuleScore) -> tuple[str, ...]:
    """Return the cells of one rule."""
    low, high = one.score.low, one.score.high
    interval = "–" if low is None or high is None else f"{decimals(low)} to {decimals(high)}"
    return (one.rule.name, one.rule.knows, decimals(one.score.value), interval, "*" if one.is_off else "")


def decimals(value: float | None) -> str:
    """Return a share with three decimals, e.g. `.200`."""
    return "–" if value is None else f"{value:.3f}".removeprefix("0")
