"""Commands `figeval report` and `figeval board`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from figeval.cli.shared import echo, include_path, split_names
from figeval.io.text import pluralize

if TYPE_CHECKING:
    from figeval import WrittenPage


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="File to write.",
)
@click.option("--title", default="Evaluation report", show_default=True, help="Heading of the page.")
@click.option(
    "--metric",
    multiple=True,
    callback=split_names,
    help="Metrics of the paired comparisons, e.g. acc,span_f1. By default acc, or acc_of_all if a run left examples "
    "without an answer.",
)
@click.option("--by", multiple=True, callback=split_names, metavar="KEY", help="Add scores by idiom, proverb, corpus …")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed for the sign-flip tests.")
@click.option("--no_texts", is_flag=True, help="Leave out the texts of the examples.")
@click.option("--allow_noncommercial", is_flag=True, help="Include texts whose licence excludes commercial use.")
@click.option("--no_plots", is_flag=True, help="Leave out the charts.")
@click.option(
    "--figures",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also write the charts to this folder, each as SVG and PDF.",
)
@include_path
def report(  # noqa: PLR0913 - one argument per option
    runs: tuple[Path, ...],
    output: Path,
    *,
    title: str,
    metric: tuple[str, ...],
    by: tuple[str, ...],
    seed: int,
    no_texts: bool,
    allow_noncommercial: bool,
    no_plots: bool,
    figures: Path | None,
    include_path: tuple[Path, ...],
) -> None:
    """Write one HTML page about one or several runs, with a sample explorer. No model is needed.

    The first run is compared with each of the others. The page is self-contained. The texts of its examples are read
    from the data on this machine, so their licences apply to the page.

    \b
    figeval report results/runs/demo
    figeval report results/runs/minilm results/runs/tfidf -o report.html --by proverb
    figeval report models/proverbs --no_texts
    figeval report results/runs/minilm --figures figures
    """
    from figeval import report as write_report

    page = write_report(
        runs,
        output=output,
        title=title,
        metric=metric,
        by=by,
        seed=seed,
        texts=not no_texts,
        allow_noncommercial=allow_noncommercial,
        plots=not no_plots,
        figures=figures,
        include_path=include_path,
    )
    for notice in page.notices:
        echo(notice)
    _echo_size(output, page)
    if figures is not None:
        echo(f"{figures} ({pluralize(len(page.figures) // 2, 'chart')} as SVG and PDF)")


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
    from figeval import board as write_site

    site = write_site(folders, output=output, title=title, reports=reports, seed=seed, include_path=include_path)
    _echo_size(site.path / "index.html", site)


def _echo_size(path: Path, page: WrittenPage) -> None:
    echo(f"{path} ({pluralize(page.runs, 'run')}, {page.bytes / 1e6:.1f} MB)")
