"""The command `figeval benchmark diagnose`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from .accuracy import TolerantAccuracy
    from .answers import AnsweredRun
    from .versus import Versus

OUTPUT = "results/diagnosis"
MAX_PROVERBS, MAX_PAIRS, MAX_TEXT_CHARS = 10, 12, 44  # proverbs at either end, confused pairs, characters of a proverb
LISTS = ("plain", "paraphrases", "defensible")


@click.command(short_help="Diagnose stored runs proverb by proverb.")
@click.argument("run_a", type=click.Path(path_type=Path))
@click.argument("run_b", type=click.Path(path_type=Path), required=False)
@click.option("--task", help="Only this task.  [default: every ePiC task of the runs]")
@click.option(
    "--output", default=OUTPUT, show_default=True, type=click.Path(path_type=Path), help="Folder to write to."
)
@click.option(
    "--no_plots", is_flag=True, help="Leave out the heat map of two runs, and with it the need for optional packages."
)
def diagnose(run_a: Path, run_b: Path | None, task: str | None, output: Path, no_plots: bool) -> None:
    """Diagnose stored runs proverb by proverb (ePiC: retrieval, multiple choice).

    \b
    Reports accuracy per proverb, the most frequent confusions, and accuracy that accepts near-duplicates;
    for two runs, also draws the heat map of the paper's Figure 5. No model is needed.

    \b
    figeval benchmark diagnose results/runs/minilm --task epic_retrieval_seen
    figeval benchmark diagnose results/runs/minilm results/runs/tfidf
    """
    from rich.console import Console

    from figeval.io import plots

    from . import answers

    if run_b is not None and not no_plots:
        plots.require()
    paths = [run_a] if run_b is None else [run_a, run_b]
    records = [answers.open_run(path) for path in paths]
    console = Console()
    for name in [task] if task else shared_tasks(paths, [answers.known_tasks(record) for record in records]):
        runs = [answers.read_answers(path, record, name) for path, record in zip(paths, records, strict=True)]
        diagnose_task(name, runs, output / name.replace("@", "_"), console, plot=not no_plots)


def shared_tasks(paths: Sequence[Path], tasks: Sequence[list[str]]) -> list[str]:
    """Return the tasks that all runs have. Raises `RecordError` if there are none."""
    from figeval.errors import RecordError

    common_tasks = [task for task in tasks[0] if all(task in run_tasks for run_tasks in tasks)]
    if not common_tasks:
        has = "; ".join(f"{path} has {', '.join(run_tasks)}" for path, run_tasks in zip(paths, tasks, strict=True))
        raise RecordError(f"the runs share no task that can be diagnosed: {has}")
    return common_tasks


def diagnose_task(name: str, runs: Sequence[AnsweredRun], folder: Path, console: Any, *, plot: bool) -> None:
    """Compute, write and print the diagnosis of one task."""
    from .. import duplicates
    from . import accuracy, store, versus

    relations = dict(zip(LISTS, ({}, duplicates.near_duplicates(), duplicates.defensible()), strict=True))
    accuracies = [
        {key: accuracy.tolerant_accuracy(run, accepted) for key, accepted in relations.items()} for run in runs
    ]
    comparison = versus.compare_runs(*runs) if len(runs) == 2 else None
    paths = store.write(folder, runs, accuracies, comparison)
    if comparison is not None and plot:
        from figeval.io import plots

        paths += plots.save(versus.chart(comparison), folder, "heat_map")
    for grid, notes in grids(name, runs, accuracies, comparison):
        from figeval.reporting.grid import print_grids

        console.print()
        print_grids(console, [grid], notes)
    click.echo(f"\n{len(paths)} files in {folder}: {', '.join(path.name for path in paths)}")


def grids(
    name: str, runs: Sequence[AnsweredRun], accuracies: Sequence[dict[str, TolerantAccuracy]], comparison: Versus | None
) -> Iterator[tuple[Any, list[str]]]:
    """Yield every table with its notes."""
    from .confusion import most_taken

    yield accuracy_grid(name, runs, accuracies)
    yield spread_grid(runs)
    for run in runs:
        yield proverb_grid(run), []
        favourites = ", ".join(f"{proverb} {count:.4g} times" for proverb, count in most_taken(run)[:5])
        yield confusion_grid(run), [f"most frequent wrong answers: {favourites or 'none'}"]
    if comparison is not None:
        yield versus_grid(comparison)


def accuracy_grid(
    name: str, runs: Sequence[AnsweredRun], accuracies: Sequence[dict[str, TolerantAccuracy]]
) -> tuple[Any, list[str]]:
    """Return the table of plain accuracy and of the two accuracies that accept near-duplicates, with its notes."""
    from figeval.reporting.grid import Grid

    from .store import TIES

    rows, notes = [], [TIES]
    for run, by_relation in zip(runs, accuracies, strict=True):
        for key, accuracy in by_relation.items():
            score = accuracy.score
            interval = "–" if score.low is None or score.high is None else f"{score.low:.4f} to {score.high:.4f}"
            value = "–" if score.value is None else f"{score.value:.4f}"
            rows.append((run.model, key, value, interval, f"{accuracy.chance:.4f}", str(score.n)))
            if accuracy.unknown:
                notes.append(
                    f"{run.model}, {key}: {accuracy.unknown} rows are left out because they do not say which "
                    "candidates tie"
                )
        if run.seen:
            notes.append(f"{run.model} was trained or chosen on {run.seen} of these narratives: no intervals")
        if run.unanswered:
            notes.append(f"{run.model}: {run.unanswered} narratives without a valid answer are left out")
    notes.append("paraphrases: the same lesson; defensible: the more generous list (near_duplicates.json)")
    head = ("model", "accepted", "acc", "95 %", "chance", "n")
    return Grid(head, rows, f"{name}: accuracy, clustered by proverb", right=head[2:]), notes


def spread_grid(runs: Sequence[AnsweredRun]) -> tuple[Any, list[str]]:
    """Return the table that counts the proverbs with 0, 1 … k narratives right, with its notes."""
    from figeval.reporting.grid import Grid

    from .accuracy import by_proverb, spread

    columns = [spread(by_proverb(run)) for run in runs]
    length = max(map(len, columns))
    head = ("model", *map(str, range(length)))
    rows = [(run.model, *(f"{n:.4g}" for n in column)) for run, column in zip(runs, columns, strict=True)]
    rows = [row + ("",) * (len(head) - len(row)) for row in rows]
    return Grid(head, rows, "Number of proverbs by number of correct narratives", right=head[1:]), []


def proverb_grid(run: AnsweredRun) -> Any:
    """Return the table of the best and the worst proverbs."""
    from figeval.reporting.grid import Grid

    from .store import rank_proverbs

    proverbs = rank_proverbs(run)
    selection = proverbs if len(proverbs) <= 2 * MAX_PROVERBS else [*proverbs[:MAX_PROVERBS], *proverbs[-MAX_PROVERBS:]]
    rows = [(key, f"{sum(values):.4g} of {len(values)}", shorten_text(run, key)) for key, values in selection]
    title = f"{run.model}: the best and the worst proverbs"
    return Grid(("proverb", "right", "text"), rows, title, right=("right",))


def confusion_grid(run: AnsweredRun) -> Any:
    """Return the table of the pairs confused most often."""
    from figeval.reporting.grid import Grid

    from .confusion import confusions

    rows = []
    for confusion in confusions(run)[:MAX_PAIRS]:
        listed_as = "paraphrase" if confusion.paraphrase else "defensible" if confusion.defensible else ""
        pair = f"{shorten_text(run, confusion.gold)} → {shorten_text(run, confusion.predicted)}"
        rows.append((confusion.gold, confusion.predicted, f"{confusion.count:.4g} of {confusion.n}", listed_as, pair))
    head = ("gold", "predicted", "times", "listed as", "texts")
    return Grid(head, rows, f"{run.model}: most frequent confusions", right=("times",))


def shorten_text(run: AnsweredRun, proverb: str) -> str:
    """Return the text of a proverb, truncated to the width of a column."""
    text = run.proverbs.get(proverb, "")
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[: MAX_TEXT_CHARS - 1]}…"


def versus_grid(comparison: Versus) -> tuple[Any, list[str]]:
    """Return the heat map as a table, with notes on the agreement of the two models."""
    from figeval.reporting.grid import Grid

    from .versus import READING

    k = len(comparison.cells)
    head = ("A \\ B", *map(str, range(k)))
    rows = [(str(i), *(f"{n:.4g}" for n in row)) for i, row in enumerate(comparison.cells)]
    shares = {
        "both": comparison.both,
        "only A": comparison.only_a,
        "only B": comparison.only_b,
        "neither": comparison.neither,
    }
    right = ", ".join(f"{name} {n:.4g}" for name, n in shares.items())
    notes = [
        READING,
        f"A = {comparison.a}, B = {comparison.b}; of {comparison.n} narratives, answered correctly by {right}",
    ]
    if comparison.same is not None:
        notes.append(f"the same proverb chosen in {100 * comparison.same:.1f} % of the narratives")
    if comparison.r is None:
        notes.append(
            "correlation of accuracies over proverbs: undefined, since one model has the same accuracy for all of them"
        )
    elif comparison.interval is None:
        notes.append(f"correlation of accuracies over proverbs: r = {comparison.r:.2f}")
    else:
        low, high = comparison.interval
        notes.append(f"correlation of accuracies over proverbs: r = {comparison.r:.2f} (95 % {low:.2f} to {high:.2f})")
    title = "Number of proverbs by narratives answered correctly by A (rows) and B (columns)"
    return Grid(head, rows, title, right=head[1:]), notes
