"""Command `figeval power`."""

from __future__ import annotations

from pathlib import Path

import click

from figeval.cli.options import include_path, listed
from figeval.cli.output import echo_json, echo_result


@click.command()
@click.option("--tasks", required=True, callback=listed, help="Tasks or suites, separated by commas.")
@include_path
@click.option(
    "--disagreement",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.2,
    show_default=True,
    help="Share of examples that only one of the two models gets right.",
)
@click.option(
    "--correlation",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    help="Correlation of the differences within a cluster; it has no effect on tasks without clusters.",
)
@click.option(
    "--power",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.8,
    show_default=True,
    help="Probability of finding the difference.",
)
@click.option(
    "--comparisons",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of planned comparisons; the level 0.05 is divided by it (Bonferroni).",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def power(  # noqa: PLR0913 - one argument per option
    *,
    tasks: tuple[str, ...],
    include_path: tuple[Path, ...],
    disagreement: float,
    correlation: float,
    power: float,
    comparisons: int,
    as_json: bool,
) -> None:
    """Say which difference in accuracy between two models a task can show, before any model is run.

    The numbers are for a paired comparison, as by `figeval compare`. They need the data, but no model. After an
    experiment, the column "detectable" of `figeval compare` has the same from the observed differences.

    \b
    figeval power --tasks epic_mcq,impli
    figeval power --tasks mini_fables --disagreement 0.3 --comparisons 3
    """
    from figeval.wings.comparison.power_api import power as power_of

    found = power_of(
        tasks,
        disagreement=disagreement,
        correlation=correlation,
        power=power,
        comparisons=comparisons,
        include_path=include_path,
    )
    if as_json:
        echo_json(found.to_dict())
    else:
        echo_result(found.grids, found.notes())
