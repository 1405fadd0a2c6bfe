"""Command `figeval annotate`: sheets on which people judge generated texts, and the scores of filled-in sheets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from figeval.cli.options import include_path, seed
from figeval.cli.output import counted, echo, echo_json

if TYPE_CHECKING:
    from figeval.evaluation.annotation.scores import Annotation
    from figeval.types import Score

HEAD = ("error", "texts by", "share", "95 % interval", "judged", "of")
AGREEMENT = ("error", "Krippendorff's alpha", "texts judged by several")
PATH = click.Path(path_type=Path)


def split_at_commas(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """Split e.g. `not a moral,unrelated` into ("not a moral", "unrelated"); names may contain blanks."""
    return tuple(part.strip() for part in value.split(",")) if value.strip() else ()


@click.group()
def annotate() -> None:
    """Have people judge the texts that models wrote, without knowing who wrote them."""


@annotate.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=PATH)
@click.option("--output", required=True, type=PATH, help="Folder to write the sheets and their key to.")
@click.option("--task", help="Task whose texts are judged; needed only if the runs share several.")
@click.option("--n", type=click.IntRange(min=1), default=50, show_default=True, help="Number of examples to draw.")
@click.option(
    "--annotators",
    type=click.IntRange(1, 99),
    default=1,
    show_default=True,
    help="Number of sheets, one per annotator.",
)
@click.option("--references", is_flag=True, help="Also show the reference of each example, as a control.")
@click.option(
    "--errors",
    default="",
    metavar="A,B,…",
    callback=split_at_commas,
    help="Error types, one column each.  [default: the error_types of the task]",
)
@seed
@include_path
def sheets(  # noqa: PLR0913 - one argument per option
    *,
    runs: tuple[Path, ...],
    output: Path,
    task: str | None,
    n: int,
    annotators: int,
    references: bool,
    errors: tuple[str, ...],
    seed: int,
    include_path: tuple[Path, ...],
) -> None:
    """Write CSV sheets with the texts of one or several runs, in a random order and without names.

    Each sheet has all texts of the same examples, an empty column for each error type, to be filled in with yes or no,
    and one for comments. key.json says who wrote each text: keep it from the annotators. The sheets contain texts of
    the benchmark, so its licence determines who may have them.

    \b
    figeval annotate sheets runs/a runs/b --n 30 --annotators 2 --references --output sheets
    """
    from figeval.evaluation.annotation.sheets import KEY, write_sheets
    from figeval.evaluation.annotation.texts import written_texts
    from figeval.evaluation.harness import Harness

    written = written_texts(runs, task, n, seed, Harness(include=include_path), references=references)
    key = write_sheets(output, written, errors, annotators=annotators, seed=seed)
    examples = len({item.example for item in key.items.values()})
    echo(f"{counted(len(key.items), 'text')} for {counted(examples, 'example')} of {key.task}: {', '.join(key.sheets)}")
    columns = "column" if len(key.error_types) == 1 else "columns"
    echo(f"{columns} to fill in with yes or no: {', '.join(key.error_types)}")
    for author, count in key.not_written.items():
        echo(f"{author}: {counted(count, 'text')} in the sample not written")
    echo(f"{output / KEY} says who wrote each text; keep it from the annotators")


@annotate.command()
@click.argument("folder", type=PATH)
@click.argument("files", nargs=-1, metavar="[SHEET]...", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Print all numbers as one JSON object.")
def score(folder: Path, files: tuple[Path, ...], as_json: bool) -> None:
    """Score the filled-in sheets in FOLDER, or SHEETs from elsewhere.

    Prints the share of texts with each error per model with 95 % intervals, and the agreement of the annotators. A cell
    is yes (y, 1, x, true), no (n, 0, false) or empty; an empty cell does not count as a judgement.

    \b
    figeval annotate score sheets
    figeval annotate score sheets returned/anna.csv returned/ben.csv
    """
    from figeval.evaluation.annotation.scores import score_sheets
    from figeval.evaluation.annotation.sheets import read_key

    key = read_key(folder)
    found = score_sheets(key, files or [folder / sheet for sheet in key.sheets])
    if as_json:
        echo_json(asdict(found) | {"key": key.model_dump(mode="json", exclude={"items"})})
        return
    if found.cells and all(count == found.cells for count in found.empty.values()):
        echo(f"{key.task}: nothing has been filled in yet")
        return
    from rich.console import Console

    from figeval.report.grid import Grid, say

    console = Console()
    Grid(HEAD, list(share_rows(found)), f"{key.task}: share of texts with an error", HEAD[2:]).print(console)
    console.print()
    Grid(AGREEMENT, list(agreement_rows(found)), "Agreement of annotators", AGREEMENT[1:]).print(console)
    for note in notes(found):
        say(console, f"  {note}")


def share_rows(found: Annotation) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of shares."""
    for one in found.shares:
        value = "–" if one.score.value is None else f"{one.score.value:.4f}"
        yield (one.error_type, one.author, value, interval(one.score), str(one.score.n), str(one.texts))


def agreement_rows(found: Annotation) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of agreement."""
    for one in found.agreement:
        yield (one.error_type, "–" if one.alpha is None else f"{one.alpha:.3f}", str(one.texts))


def interval(score: Score) -> str:
    """Return e.g. `0.301 to 0.398`, or an en dash if there is no interval."""
    return "–" if score.low is None or score.high is None else f"{score.low:.3f} to {score.high:.3f}"


def notes(found: Annotation) -> Iterator[str]:
    """Yield notes on what is missing."""
    for name, count in found.empty.items():
        if count:
            yield f"{name}: {count} of {found.cells} cells are empty and do not count as judgements"
    for one in found.agreement:
        if one.why:
            yield f"no alpha of {one.error_type!r}: {one.why}"
    for author, count in found.key.not_written.items():
        yield f"{author}: {counted(count, 'text')} in the sample not written, so not judged"
