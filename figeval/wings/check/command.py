"""Command `figeval check`."""

from __future__ import annotations

from pathlib import Path

import click

from figeval import print_result, shared_options
from figeval.cli.shared import Finite, split_names


def _read_bounds(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """Read e.g. `epic_mcq.acc=.3` into {"epic_mcq.acc": 0.3}."""
    bounds: dict[str, float] = {}
    for text in values:
        name, sign, number = text.rpartition("=")
        if not sign or not name.strip():
            raise click.BadParameter(f"{text!r} is not TASK.METRIC=BOUND, such as epic_mcq.acc=.3")
        if name.strip() in bounds:
            raise click.BadParameter(f"{name.strip()!r} has two bounds; give one")
        bounds[name.strip()] = Finite().convert(number.strip(), _parameter, _context)
    return bounds


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--min",
    "lower",
    multiple=True,
    callback=_read_bounds,
    metavar="TASK.METRIC=BOUND",
    help="The lower end of the 95 % interval must be at least BOUND; `*` and `?` stand for characters. Repeatable.",
)
@click.option(
    "--max",
    "upper",
    multiple=True,
    callback=_read_bounds,
    metavar="TASK.METRIC=BOUND",
    help="The upper end must be at most BOUND, e.g. for an error.",
)
@click.option(
    "--min_value",
    multiple=True,
    callback=_read_bounds,
    metavar="TASK.METRIC=BOUND",
    help="The score itself must be at least BOUND, whatever its interval.",
)
@click.option(
    "--max_value",
    multiple=True,
    callback=_read_bounds,
    metavar="TASK.METRIC=BOUND",
    help="The score itself must be at most BOUND.",
)
@click.option(
    "--not_worse_than",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="The run must not be worse than this one on any of its tasks, by paired tests.",
)
@click.option(
    "--margin",
    type=Finite(min=0, min_open=True),
    help="Largest difference that does not matter: the run must be shown to be worse by less than this. Without it, "
    "the run must not be significantly worse.",
)
@click.option(
    "--metric",
    multiple=True,
    callback=split_names,
    help="Metrics of the comparison; by default the first one of each task.",
)
@click.option(
    "--tasks",
    multiple=True,
    callback=split_names,
    help="Tasks, suites and contrasts to compare; by default all of the other run.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed of the tests.")
@shared_options("json")
def check(  # noqa: PLR0913 - one argument per option
    *,
    run: Path,
    lower: dict[str, float],
    upper: dict[str, float],
    min_value: dict[str, float],
    max_value: dict[str, float],
    not_worse_than: Path | None,
    margin: float | None,
    metric: tuple[str, ...],
    tasks: tuple[str, ...],
    seed: int,
    as_json: bool,
) -> int:
    """Check whether a run meets conditions: exit code 0 if all are met, 1 if one is not, 2 for errors.

    A number that is unknown, such as an interval that does not exist, meets no condition. Nothing is written, and no
    model is loaded.

    \b
    figeval check results/runs/minilm --min epic_mcq.acc=.3 --min "impli_*.acc=.5"
    figeval check results/runs/new --not_worse_than results/runs/old --margin .02
    """
    from figeval.wings.check.api import check as check_run

    gate = check_run(
        run,
        min=lower,
        max=upper,
        min_value=min_value,
        max_value=max_value,
        not_worse_than=not_worse_than,
        margin=margin,
        metric=metric,
        tasks=tasks,
        seed=seed,
    )
    print_result(gate, as_json=as_json)
    return 0 if gate.passed else 1
