"""The command `figeval diagnose`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from .accuracy import Tolerant
    from .answers import Answers
    from .versus import Versus

OUTPUT = "results/diagnosis"
SHOWN, PAIRS, TEXT = 10, 12, 44  # proverbs at either end, confused pairs, characters of a proverb
LISTS = ("plain", "paraphrases", "defensible")


@click.command(short_help="Diagnose stored runs proverb by proverb.")
@click.argument("run_a", type=click.Path(path_type=Path))
@click.argument("run_b", type=click.Path(path_type=Path), required=False)
@click.option("--task", help="Only this task.  [default: every ePiC task of the runs]")
@click.option(
    "--output", default=OUTPUT, show_default=True, type=click.Path(path_type=Path), help="Folder to write to."
)
@click.option("--no_plots", is_flag=True, help="Do not plot the heat map of two runs; needs no optional packages.")
def diagnose(run_a: Path, run_b: Path | None, task: str | None, output: Path, no_plots: bool) -> None:
    """Diagnose stored runs proverb by proverb (ePiC: retrieval, multiple choice).

    \b
    Reports accuracy per proverb, the most frequent confusions, and accuracy that accepts near-duplicates;
    for two runs, also draws the heat map of the paper's Figure 5. No model is needed.

    \b
    figeval diagnose results/runs/minilm --task epic_retrieval_seen
    figeval diagnose results/runs/minilm results/runs/tfidf
    """
    from rich.console import Console

    from figeval.io import plots

    from . import answers

    if run_b is not None and not no_plots:
        plots.require()
    paths = [run_a] if run_b is None else [run_a, run_b]
    records = [answers.open_run(path) for path in paths]
    console = Console()
    for name in [task] if task else shared(paths, [answers.known_tasks(record) for record in records]):
        runs = [answers.read_answers(path, record, name) for path, record in zip(paths, records, strict=True)]
        one_task(name, runs, output / name.replace("@", "_"), console, plot=not no_plots)


def shared(paths: Sequence[Path], tasks: Sequence[list[str]]) -> list[str]:
    """Return the tasks that all runs have. Raises `RecordError` if there are none."""
    from figeval.errors import RecordError

    found = [task for task in tasks[0] if all(task in others for others in tasks)]
    if not found:
        has = "; ".join(f"{path} has {', '.join(own)}" for path, own in zip(paths, tasks, strict=True))
        raise RecordError(f"the runs share no task that can be diagnosed: {has}")
    return found


def one_task(name: str, runs: Sequence[Answers], folder: Path, console: Any, *, plot: bool) -> None:
    """Compute, write and print the diagnosis of one task."""
    from .. import duplicates
    from . import accuracy, store, versus

    relations = dict(zip(LISTS, ({}, duplicates.near_duplicates(), duplicates.defensible()), strict=True))
    aware = [{key: accuracy.tolerant(one, accepted) for key, accepted in relations.items()} for one in runs]
    found = versus.versus(*runs) if len(runs) == 2 else None
    written = store.write(folder, runs, aware, found)
    if found is not None and plot:
        from figeval.io import plots

        written += plots.save(versus.chart(found), folder, "heat_map")
    for grid, notes in grids(name, runs, aware, found):
        from figeval.reporting.grid import say

        console.print()
        grid.print(console)
        for note in notes:
            say(console, f"  {note}")
    click.echo(f"\n{len(written)} files in {folder}: {', '.join(path.name for path in written)}")


def grids(
    name: str, runs: Sequence[Answers], aware: Sequence[dict[str, Tolerant]], found: Versus | None
) -> Iterator[tuple[Any, list[str]]]:
    """Yield every table with its notes."""
    from .confusion import most_taken

    yield accuracy_grid(name, runs, aware)
    yield spread_grid(runs)
    for answers in runs:
        yield proverb_grid(answers), []
        taken = ", ".join(f"{proverb} {count:.4g} times" for proverb, count in most_taken(answers)[:5])
        yield confusion_grid(answers), [f"most frequent wrong answers: {taken or 'none'}"]
    if found is not None:
        yield versus_grid(found)


def accuracy_grid(name: str, runs: Sequence[Answers], aware: Sequence[dict[str, Tolerant]]) -> tuple[Any, list[str]]:
    """Return the table of plain accuracy and of the two accuracies that accept near-duplicates, with its notes."""
    from figeval.reporting.grid import Grid

    from .store import TIES

    rows, notes = [], [TIES]
    for answers, accuracies in zip(runs, aware, strict=True):
        for key, one in accuracies.items():
            score = one.score
            interval = "–" if score.low is None or score.high is None else f"{score.low:.4f} to {score.high:.4f}"
            value = "–" if score.value is None else f"{score.value:.4f}"
            rows.append((answers.model, key, value, interval, f"{one.chance:.4f}", str(score.n)))
            if one.unknown:
                notes.append(
                    f"{answers.model}, {key}: {one.unknown} rows are left out because they do not say which "
                    "candidates tie"
                )
        if answers.seen:
            notes.append(f"{answers.model} was trained or chosen on {answers.seen} of these narratives: no intervals")
        if answers.unanswered:
            notes.append(f"{answers.model}: {answers.unanswered} narratives without a valid answer are left out")
    notes.append("paraphrases: the same lesson; defensible: the more generous list (near_duplicates.json)")
    head = ("model", "accepted", "acc", "95 %", "chance", "n")
    return Grid(head, rows, f"{name}: accuracy, clustered by proverb", right=head[2:]), notes


def spread_grid(runs: Sequence[Answers]) -> tuple[Any, list[str]]:
    """Return the table that counts the proverbs with 0, 1 … k narratives right, with its notes."""
    from figeval.reporting.grid import Grid

    from .accuracy import by_proverb, spread

    columns = [spread(by_proverb(answers)) for answers in runs]
    most = max(map(len, columns))
    head = ("model", *map(str, range(most)))
    rows = [(one.model, *(f"{n:.4g}" for n in column)) for one, column in zip(runs, columns, strict=True)]
    rows = [row + ("",) * (len(head) - len(row)) for row in rows]
    return Grid(head, rows, "Number of proverbs by number of correct narratives", right=head[1:]), []


def proverb_grid(answers: Answers) -> Any:
    """Return the table of the best and the worst proverbs."""
    from figeval.reporting.grid import Grid

    from .store import ranked

    found = ranked(answers)
    shown = found if len(found) <= 2 * SHOWN else [*found[:SHOWN], *found[-SHOWN:]]
    rows = [(key, f"{sum(own):.4g} of {len(own)}", short(answers, key)) for key, own in shown]
    title = f"{answers.model}: the best and the worst proverbs"
    return Grid(("proverb", "right", "text"), rows, title, right=("right",))


def confusion_grid(answers: Answers) -> Any:
    """Return the table of the pairs confused most often."""
    from figeval.reporting.grid import Grid

    from .confusion import confusions

    rows = []
    for one in confusions(answers)[:PAIRS]:
        listed = "paraphrase" if one.paraphrase else "defensible" if one.defensible else ""
        pair = f"{short(answers, one.gold)} → {short(answers, one.predicted)}"
        rows.append((one.gold, one.predicted, f"{one.count:.4g} of {one.n}", listed, pair))
    head = ("gold", "predicted", "times", "listed as", "texts")
    return Grid(head, rows, f"{answers.model}: most frequent confusions", right=("times",))


def short(answers: Answers, proverb: str) -> str:
    """Return the text of a proverb, truncated to the width of a column."""
    text = answers.proverbs.get(proverb, "")
    return text if len(text) <= TEXT else f"{text[: TEXT - 1]}…"


def versus_grid(found: Versus) -> tuple[Any, list[str]]:
    """Return the heat map as a table, with notes on the agreement of the two models."""
    from figeval.reporting.grid import Grid

    from .versus import READING

    k = len(found.cells)
    head = ("A \\ B", *map(str, range(k)))
    rows = [(str(i), *(f"{n:.4g}" for n in row)) for i, row in enumerate(found.cells)]
    shares = {"both": found.both, "only A": found.only_a, "only B": found.only_b, "neither": found.neither}
    right = ", ".join(f"{name} {n:.4g}" for name, n in shares.items())
    notes = [READING, f"A = {found.a}, B = {found.b}; of {found.n} narratives, answered correctly by {right}"]
    if found.same is not None:
        notes.append(f"the same proverb chosen in {100 * found.same:.1f} % of the narratives")
    if found.r is None:
        notes.append(
            "correlation of accuracies over proverbs: undefined, since one model has the same accuracy for all of them"
        )
    elif found.interval is None:
        notes.append(f"correlation of accuracies over proverbs: r = {found.r:.2f}")
    else:
        low, high = found.interval
        notes.append(f"correlation of accuracies over proverbs: r = {found.r:.2f} (95 % {low:.2f} to {high:.2f})")
    title = "Number of proverbs by narratives answered correctly by A (rows) and B (columns)"
    return Grid(head, rows, title, right=head[1:]), notes
