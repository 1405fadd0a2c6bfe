"""Command `figeval compare`."""

from __future__ import annotations

from pathlib import Path

import click

from figeval.cli.options import listed
from figeval.cli.output import echo_json, echo_result

PAIR = 2


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN RUN...")
@click.option("--metric", default="acc", show_default=True, help="Metric to compare.")
@click.option(
    "--tasks",
    callback=listed,
    help="Tasks, suites and contrasts to compare, separated by commas; p-values are corrected for their tests only. By "
    "default all that two runs have.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed for tests and bootstrap.")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    help="Compare all runs with this one (one of them) instead of all pairs.",
)
@click.option(
    "--correction",
    type=click.Choice(["holm", "bh"]),
    help="Correction for the number of tests: Holm's for planned comparisons, which is the default for two runs and "
    "with --against, or Benjamini and Hochberg's for exploration, the default for all pairs of several runs.",
)
@click.option(
    "--equivalence",
    "margin",
    type=click.FloatRange(min=0, min_open=True),
    metavar="MARGIN",
    help="Also test whether the runs differ by less than MARGIN (two one-sided tests).",
)
@click.option(
    "--prompts", callback=listed, help="Prompts to compare, one of run A and one of run B, e.g. default,lower."
)
@click.option("--json", "as_json", is_flag=True, help="Print all numbers as one JSON object.")
def compare(  # noqa: PLR0913 - one argument per option
    *,
    runs: tuple[Path, ...],
    metric: str,
    tasks: tuple[str, ...],
    seed: int,
    against: Path | None,
    correction: str | None,
    margin: float | None,
    prompts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Compare two or more runs example by example, task by task.

    p comes from flipping the signs of the clusters' summed differences (for independent 0/1 rows, this is the exact
    McNemar test), and for scores that are not means, such as macro-F1, a correlation or an area under a curve, from
    exchanging the two runs' answers to a cluster. `--metric auc` and `--metric balanced_acc` include the contrasts of
    suites. A folder of several seeds counts as one run, and the spread over seeds is part of the test. Whether the
    intervals of two runs overlap says little, because all models are asked the same hard examples.

    Three or more runs are also ranked.

    \b
    figeval compare results/runs/minilm results/runs/tfidf
    figeval compare A B --metric mrr --equivalence 0.02
    figeval compare A B C D --against A --tasks epic_mcq,impli
    figeval compare A A --prompts default,lower
    """
    from figeval.wings.comparison.api import compare as compare_runs

    if len(runs) < PAIR:
        raise click.UsageError("give at least two runs")
    if prompts and (len(prompts) != PAIR or len(runs) != PAIR):
        wanted = "give two runs, and two prompts separated by a comma, first that of run A"
        raise click.BadParameter(wanted, param_hint="'--prompts'")
    if against is not None and against not in runs:
        raise click.BadParameter(f"{against} is none of the runs; list it among them", param_hint="'--against'")
    found = compare_runs(
        *runs,
        metric=metric,
        tasks=tasks,
        seed=seed,
        prompts=(prompts[0], prompts[1]) if prompts else None,
        against=None if against is None else runs.index(against),
        correction=correction,  # type: ignore[arg-type]
        margin=margin,
    )
    if as_json:
        echo_json(found.to_dict())
    else:
        echo_result(found.grids, found.notes())
