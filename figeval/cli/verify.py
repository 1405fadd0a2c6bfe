"""Command `figeval verify`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from figeval.cli.options import include_path
from figeval.cli.output import counted, echo, echo_json

if TYPE_CHECKING:
    from figeval.evaluation.verify import Check


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@include_path
@click.option("--no_data", is_flag=True, help="Do not read the tasks' data; rows and baselines are not recomputed.")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Another run that should be equal; print what differs, apart from times and machines.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of the checks.")
def verify(run: Path, include_path: tuple[Path, ...], no_data: bool, against: Path | None, as_json: bool) -> int:
    """Recompute the scores of a run from its predictions; exit code 2 if something does not agree.

    Checks every row against the task's data, computes scores, intervals and baselines again, and compares run.json and
    the predictions with their checksums. The checksums are stored in the run's own folder: they find damage and
    careless edits, but no forger. Nothing is written, and no model is loaded but the baselines.

    \b
    figeval verify results/runs/minilm
    figeval verify results/runs/minilm --against theirs/minilm
    """
    from rich.console import Console
    from rich.text import Text

    from figeval.evaluation.harness import Harness
    from figeval.evaluation.verify import verify as checks_of
    from figeval.text import one_line

    with Console(stderr=True).status("verifying") as status:  # shown on a terminal only
        harness = Harness(include=include_path)

        def progress(task: str) -> None:
            status.update(Text(f"verifying {one_line(task, 80)}"))

        checks = checks_of(run, harness, data=not no_data, progress=progress)
    if against is not None:
        from figeval.evaluation.against import compare

        checks += compare(run, against)
    if as_json:
        echo_json([asdict(check) for check in checks])
    else:
        report(checks)
    return 2 if any(check.state == "problem" for check in checks) else 0


def report(checks: Sequence[Check]) -> None:
    """Print one line for what is well about each part of the run, one for every other check, and their numbers."""
    for part in dict.fromkeys(check.part for check in checks):
        own = [check for check in checks if check.part == part]
        if fine := [check.detail for check in own if check.state == "ok"]:
            echo(f"{'ok':<11}  {part}: {'; '.join(fine)}")
        for check in own:
            if check.state != "ok":
                echo(f"{check.state:<11}  {part}: {check.name}: {check.detail}")
    states = Counter(check.state for check in checks)
    echo(
        f"{counted(len(checks), 'check')}, {counted(states['problem'], 'problem')}, {states['not checked']} not checked"
    )
