"""`figeval compare`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from figeval.cli.options import listed
from figeval.cli.output import echo_json

if TYPE_CHECKING:
    from figeval.evaluation.compare import RunComparison, TaskComparison
    from figeval.metrics.compare import Comparison
    from figeval.types import JSON

HEAD = ("task", "A", "B", "A − B", "95 % interval", "p", "p (Holm)", "n", "clusters", "test")
NOTHING = "–"
PAIR = 2


@click.command()
@click.argument("run_a", type=click.Path(path_type=Path))
@click.argument("run_b", type=click.Path(path_type=Path))
@click.option("--metric", default="acc", show_default=True, help="A metric that is a mean over examples.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed for the sign-flip test.")
@click.option("--prompts", callback=listed, help="Compare this prompt of run A with that of run B, e.g. default,lower.")
@click.option("--json", "as_json", is_flag=True, help="All numbers as one JSON object.")
def compare(run_a: Path, run_b: Path, metric: str, seed: int, prompts: tuple[str, ...], as_json: bool) -> None:
    """Compare two runs example by example, task by task.

    p is by a sign flip of the clusters' summed differences (for independent 0/1 rows the exact McNemar test), the
    interval of the difference by t with a clustered standard error. Two intervals that overlap say little, since both
    models meet the same hard examples.

    \b
    figeval compare results/runs/minilm results/runs/tfidf
    figeval compare A B --metric mrr
    figeval compare A A --prompts default,lower
    """
    from figeval.evaluation.compare import compare_runs

    if prompts and len(prompts) != PAIR:
        raise click.BadParameter("give two prompts, that of run A and that of run B", param_hint="'--prompts'")
    result = compare_runs(run_a, run_b, metric, seed, (prompts[0], prompts[1]) if prompts else None)
    if as_json:
        import json

        echo_json(json.dumps(described(result), indent=1, ensure_ascii=False))
    else:
        show(result)


def show(result: RunComparison) -> None:
    """Print the table and what must be known beside it."""
    from rich.console import Console

    from figeval.report.grid import Grid, say

    console = Console()
    of_a, of_b = (f", prompt {prompt}" for prompt in result.prompts) if result.prompts else ("", "")
    title = f"{result.metric}: A = {result.a.model.name}{of_a}, B = {result.b.model.name}{of_b}"
    Grid(HEAD, list(map(cells, result.tasks)), title, right=HEAD[1:-1], spare=("test", "clusters")).print(console)
    for note in notes(result):
        say(console, f"  {note}")


def cells(one: TaskComparison) -> tuple[str, ...]:
    """One line of the table."""
    found = one.comparison
    low, high = found.low, found.high
    interval = NOTHING if low is None or high is None else f"{low:+.3f} to {high:+.3f}"
    values = (decimal(found.value_a), decimal(found.value_b), decimal(found.difference, "+"))
    tests = (pvalue(found.p), pvalue(one.p_holm))
    return (one.task, *values, interval, *tests, str(found.n), clusters(found), found.test)


def clusters(found: Comparison) -> str:
    """`139 (30 eff.)`: the second number only where clusters of unequal size make it another."""
    from figeval.report.table import effective

    return f"{found.clusters}{effective(found.clusters, found.effective_clusters)}"


def decimal(value: float | None, sign: str = "") -> str:
    """Four digits behind the point."""
    return NOTHING if value is None else f"{value:{sign}.4f}"


def pvalue(p: float | None) -> str:
    """Four digits behind the point, and never 0."""
    return NOTHING if p is None else "<0.0001" if p < 1e-4 else f"{p:.4f}"


def notes(result: RunComparison) -> Iterator[str]:
    """The size of the family, and everything that did not enter the comparison."""
    yield f"Holm's correction over {result.family} test{'s' * (result.family != 1)}"
    for one in result.tasks:
        left = {"only in A": one.unmatched_a, "only in B": one.unmatched_b, "without a valid answer": one.unanswered}
        left |= {"that a model was trained or chosen on": one.seen}
        parts = [f"{count} {what}" for what, count in left.items() if count]
        if parts:
            yield f"{one.task}: left out {', '.join(parts)}"
        if one.comparison.note:
            yield f"{one.task}: {one.comparison.note}"
    for task, why in result.left_out.items():
        yield f"{task} not compared: {why}"


def described(result: RunComparison) -> JSON:
    """Everything for `--json`."""
    from dataclasses import asdict

    tasks = []
    for one in result.tasks:
        fields = asdict(one)
        tasks.append({"task": fields.pop("task"), **fields.pop("comparison"), **fields})
    runs = {"a": result.a, "b": result.b}
    about: JSON = {key: {"run": run.identity, "model": run.model.name} for key, run in runs.items()}
    for key, prompt in zip(runs, result.prompts or (), strict=False):
        about[key]["prompt"] = prompt
    left_out = dict(result.left_out)
    return {"metric": result.metric, **about, "family": result.family, "tasks": tasks, "left_out": left_out}
