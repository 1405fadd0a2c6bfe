"""Command `figeval score`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

import click

from figeval.cli.flags import former_flags, portion, results, run_flags, seed
from figeval.cli.help_pages import HeadedCommand
from figeval.cli.shared import also, echo, include_path
from figeval.io.text import pluralize

if TYPE_CHECKING:
    from figeval.config import RunOptions


def sources(_context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> Path | dict[str, Path]:
    """Return the file of `FILE`, or the files of `TASK=FILE` by task."""
    files: dict[str, Path] = {}
    for value in values:
        task, equals, file = value.partition("=")
        has_task = bool(equals) and "?" not in task and not Path(value).exists()  # FILE.xlsx?header=2 has none
        key, path = (task.strip(), Path(file)) if has_task else ("", Path(value))
        if key in files or (files and not (key and all(files))):
            raise click.BadParameter("give one FILE, or TASK=FILE once for each task", param=parameter)
        files[key] = path
    return files.get("", files)


def columns(_context: click.Context, _parameter: click.Parameter, value: str) -> dict[str, str]:
    """Return our name of each column with the file's."""
    from figeval.data.row_files import read_columns
    from figeval.runs.given_rows import FIELDS

    return read_columns(value, FIELDS, "prediction=answer")


@click.command(cls=HeadedCommand, context_settings=also("output", "output_path"))
@run_flags("tasks")
@click.option(
    "--predictions",
    "-p",
    multiple=True,
    callback=sources,
    metavar="FILE|TASK=FILE",
    help="File with a row for each example: id, prediction, optionally scores, task and seed. JSONL, CSV, TSV, JSON, "
    "Parquet, Arrow or Excel (FILE#SHEET?header=ROW), or an address such as hub:OWNER/NAME#CONFIG/SPLIT.",
)
@click.option("--name", "-n", help="Name of the system in tables; by default that of the file.")
@click.option(
    "--columns",
    default="",
    callback=columns,
    metavar="NAME=COLUMN,…",
    help="Names of the columns in the file, if they differ, e.g. prediction=answer.",
)
@click.option(
    "--write_template",
    "template",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Score nothing, but write a JSONL, CSV, TSV or JSON file with the id of every example, to be filled in.",
)
@click.option(
    "--seeds", metavar="N|SEED,…", help="With --write_template: a row for each of N seeds, or of the seeds listed."
)
@portion
@seed
@results
@run_flags("settings")
@former_flags
@include_path
@run_flags("baselines", "fresh")
def score(template: Path | None, seeds: str | None, **flags: Any) -> int:
    """Score the predictions of another system, with the statistics, baselines and files of a run.

    An example without a prediction counts as unanswered, not as wrong. If the file has a column `seed`, every seed is a
    run of its own, and the table shows mean and spread.

    \b
    figeval score --tasks mini_pairs --write_template predictions.csv
    figeval score --tasks mini_pairs --predictions predictions.csv --name "my system"
    figeval score --tasks mini --predictions all.jsonl
    figeval score --tasks mini_pairs,mini_fables -p mini_pairs=a.csv -p mini_fables=b.csv --name ours
    """
    if bool(flags["predictions"]) == bool(template):
        raise click.UsageError("give either --predictions, or --write_template to get a file to fill in")
    if template is not None:
        write_template(template, seeds, flags)
        return 0
    if seeds is not None:
        raise click.UsageError("--seeds needs --write_template; the seeds of predictions are their column seed")
    from rich.console import Console

    from figeval.api.scoring import score as score_predictions
    from figeval.records.sweep import SEEDS, SeedsRecord, read
    from figeval.reporting.grid import say
    from figeval.reporting.table import show_breakdowns
    from figeval.reporting.training import show_seeds

    done = score_predictions(progress=True, **flags)
    console = Console()
    if (done.path / SEEDS).is_file():
        show_seeds(read(SeedsRecord, done.path / SEEDS), console)
        say(console, f"\n  {done.path / SEEDS}")
    else:
        done.print_summary(console)
        show_breakdowns(done.record, console)
        say(console, f"\n  {done.path}/run.json")
    return 0 if done.complete else 1


def write_template(file: Path, seeds: str | None, flags: dict[str, Any]) -> None:
    """Write a file to fill in, and print what to write for each task and how to score it."""
    from figeval.api.runs import run_config
    from figeval.records.sweep import parse_seeds
    from figeval.runs.given import write_template as write
    from figeval.runs.harness import Harness

    names = ("limit", "sample", "stratify", "seed", "protocol", "split", "include_path")
    config = run_config(flags["tasks"], "", cast("RunOptions", {name: flags[name] for name in names}))
    seed_list = [] if seeds is None else parse_seeds(seeds, config.seed)
    templates = write(file, config, seed_list, Harness(include=config.include_path))
    rows = sum(template.n for template in templates) * max(len(seed_list), 1)
    echo(f"{file}: {pluralize(rows, 'row')}; fill in the column prediction, and leave it empty where there is none")
    for template in templates:
        echo(f"  {template.task}: {pluralize(template.n, 'example')}; write {template.form}")
    instead = "--write_template" if seeds is None else "--write_template and --seeds"
    echo(f"then: the same command with --predictions {quote(str(file))} instead of {instead}")
