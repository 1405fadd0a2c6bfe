"""Commands `figeval compare`, `figeval difficulty` and `figeval power`."""

from __future__ import annotations

from pathlib import Path

import click

from figeval import print_result
from figeval.cli.shared import HeadedCommand, include_path, option_under, split_names

PAIR = 2
subject_option, test_option = option_under("What is compared"), option_under("Tests")


@click.command(cls=HeadedCommand)
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN RUN...")
@subject_option(
    "--metric", help="Metric to compare. By default acc, or acc_of_all if a run left examples without an answer."
)
@subject_option(
    "--tasks",
    multiple=True,
    callback=split_names,
    help="Tasks, suites and contrasts to compare, separated by commas; p-values are corrected for their tests only. By "
    "default all that two runs have.",
)
@test_option("--seed", type=int, default=0, show_default=True, help="Random seed for tests and bootstrap.")
@subject_option(
    "--against",
    type=click.Path(path_type=Path),
    help="Compare all runs with this one (one of them) instead of all pairs.",
)
@test_option(
    "--correction",
    type=click.Choice(["holm", "bh"]),
    help="Correction for the number of tests: Holm's for planned comparisons, which is the default for two runs and "
    "with --against, or Benjamini and Hochberg's for exploration, the default for all pairs of several runs.",
)
@test_option(
    "--equivalence",
    "margin",
    type=click.FloatRange(min=0, min_open=True),
    metavar="MARGIN",
    help="Also test whether the runs differ by less than MARGIN (two one-sided tests).",
)
@subject_option(
    "--prompts",
    multiple=True,
    callback=split_names,
    help="Prompts to compare, one of run A and one of run B, e.g. default,lower.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all numbers as one JSON object.")
def compare(  # noqa: PLR0913 - one argument per option
    *,
    runs: tuple[Path, ...],
    metric: str | None,
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
    exchanging the two runs' answers to a cluster. `--metric auc` and `--metric balanced_acc` also compare how well the
    models tell the tasks of a suite apart (its contrasts). A folder of several seeds counts as one run, and the spread
    over seeds is part of the test. Whether the intervals of two runs overlap says little, because all models are asked
    the same hard examples.

    Three or more runs are also ranked.

    \b
    figeval compare results/runs/minilm results/runs/tfidf
    figeval compare A B --metric mrr --equivalence 0.02
    figeval compare A B C D --against A --tasks epic_mcq,impli
    figeval compare A A --prompts default,lower
    """
    from figeval import compare as compare_runs

    if len(runs) < PAIR:
        raise click.UsageError("give at least two runs")
    if prompts and (len(prompts) != PAIR or len(runs) != PAIR):
        cure = "give two runs, and two prompts separated by a comma, first that of run A"
        raise click.BadParameter(cure, param_hint="'--prompts'")
    if against is not None and against not in runs:
        raise click.BadParameter(f"{against} is none of the runs; list it among them", param_hint="'--against'")
    comparison = compare_runs(
        *runs,
        metric=metric,
        tasks=tasks,
        seed=seed,
        prompts=(prompts[0], prompts[1]) if prompts else None,
        against=None if against is None else runs.index(against),
        correction=correction,  # type: ignore[arg-type]
        margin=margin,
    )
    print_result(comparison, as_json=as_json)


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN RUN...")
@click.option("--metric", default="acc", show_default=True, help="A mean over examples with values from 0 to 1.")
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="CSV file with a line for each example."
)
@click.option("--json", "as_json", is_flag=True, help="Print all examples as a JSON list.")
def difficulty(runs: tuple[Path, ...], metric: str, output: Path | None, as_json: bool) -> None:
    """Find the examples of a task that several models get wrong, and labels that may be wrong.

    "nobody" and "everybody" count the examples that no model and that every model got right, next to the numbers for
    models of the same accuracy that err independently. A candidate is an example to which all models gave the same
    wrong answer, at least two of which are better than the most common right answer: look at its label.

    \b
    figeval difficulty results/runs/minilm results/runs/tfidf results/runs/smollm2
    figeval difficulty A B C --output items.csv
    """
    from figeval import difficulty as rate_examples
    from figeval import write_output

    if len(runs) < PAIR:
        raise click.UsageError("give at least two runs")
    ratings = rate_examples(runs, metric=metric)
    if output is not None:
        write_output(ratings.to_csv(), output, runs)
    print_result(ratings, as_json=as_json)


@click.command()
@click.option(
    "--tasks", required=True, multiple=True, callback=split_names, help="Tasks or suites, separated by commas."
)
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
    """Compute how large a difference in accuracy between two models must be for a task to show it, before any run.

    The numbers are for a paired comparison, as by `figeval compare`. They need the data, but no model. After an
    experiment, the column "detectable" of `figeval compare` has the same from the observed differences.

    \b
    figeval power --tasks epic_mcq,impli
    figeval power --tasks mini_fables --disagreement 0.3 --comparisons 3
    """
    from figeval import power as plan_comparisons

    plans = plan_comparisons(
        tasks,
        disagreement=disagreement,
        correlation=correlation,
        power=power,
        comparisons=comparisons,
        include_path=include_path,
    )
    print_result(plans, as_json=as_json)
