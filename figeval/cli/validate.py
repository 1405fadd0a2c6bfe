"""Command `figeval validate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from figeval.cli.shared import echo, include_path
from figeval.io.text import pluralize

if TYPE_CHECKING:
    from figeval.runs.validate import Verdict


@click.command()
@click.argument("targets", nargs=-1, metavar="[TASK|SUITE|FILE|FOLDER]...")
@include_path
@click.option(
    "--num_fewshot",
    "-f",
    type=click.IntRange(min=0),
    default=0,
    help="Warn of test rows that cannot get so many solved examples of the train split.",
)
def validate(targets: tuple[str, ...], include_path: tuple[Path, ...], num_fewshot: int) -> int:
    """Check tasks from end to end without a model; exit code 2 if a task has errors.

    Reads every row of every split, compares gold with options, renders every prompt, looks up every name that a task
    file mentions, and counts the test rows that train, dev or validation has as well. Without arguments: the tasks of
    the --include_path folders, or all tasks of all plugins.

    \b
    figeval validate my_task.task.yaml
    figeval validate impli epic_mcq
    """
    from figeval.runs.harness import Harness
    from figeval.runs.targets import gather
    from figeval.runs.validate import validate as validate_task

    harness = Harness()
    verdicts = gather(targets, include_path, harness)
    errors = warnings = 0
    for problem in verdicts.problems:
        echo(f"error: {problem}")
    for task in verdicts.tasks:
        verdict = validate_task(task, harness, num_fewshot)
        report(verdict)
        errors += verdict.errors
        warnings += len(verdict.findings) - verdict.errors
    errors += len(verdicts.problems)
    echo(f"{pluralize(len(verdicts.tasks), 'task')}, {pluralize(errors, 'error')}, {pluralize(warnings, 'warning')}")
    return 2 if errors else 0


def report(verdict: Verdict) -> None:
    """Print the verdict on one task: whether it is valid, facts about it, and findings."""
    origin = f" ({verdict.origin})" if verdict.origin else ""
    echo(f"{verdict.task}{origin}: {pluralize(verdict.errors, 'error') if verdict.errors else 'ok'}")
    for fact in verdict.facts:
        echo(f"  {fact}")
    for finding in verdict.findings:
        echo(f"  {finding.level}: {finding.message}")
