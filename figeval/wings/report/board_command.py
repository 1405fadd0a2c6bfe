"""Command `figeval board`."""

from __future__ import annotations

from pathlib import Path

import click

from figeval.cli.options import include_path
from figeval.cli.output import echo
from figeval.io.text import counted


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR...")
@click.option(
    "--output",
    "-o",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("site"),
    show_default=True,
    help="Folder of the site.",
)
@click.option("--title", default="Leaderboard", show_default=True, help="Heading of the site.")
@click.option(
    "--reports", is_flag=True, help="Give each run the page of `figeval report`, without texts of benchmarks."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed for the sign-flip tests.")
@include_path
def board(
    folders: tuple[Path, ...],
    output: Path,
    title: str,
    reports: bool,
    seed: int,
    include_path: tuple[Path, ...],
) -> None:
    """Write a static site with leaderboards of all runs below some folders. No model is needed.

    Runs are ranked with 95 % confidence sets. Those on other data, on part of it, or with another prompt are ranked
    apart. The site works on any static host and from a folder, and loads nothing from elsewhere.

    \b
    figeval board results/runs
    figeval board results/runs models -o site --title "Our models" --reports
    """
    from figeval.wings.report.api import board as write_site

    made = write_site(folders, output=output, title=title, reports=reports, seed=seed, include_path=include_path)
    echo(f"{made.path / 'index.html'} ({counted(made.runs, 'run')}, {made.bytes / 1e6:.1f} MB)")
