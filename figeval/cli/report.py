"""Command `figeval report`."""

from __future__ import annotations

from pathlib import Path

import click

from figeval.cli.options import include_path, listed
from figeval.cli.output import counted, echo

DOWNLOADS = {"csv": "csv", "tex": "latex", "json": "json"}  # ending of a file → export format


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
    "--metric", default="acc", show_default=True, help="Metric of the paired comparisons, a mean over examples."
)
@click.option("--by", multiple=True, callback=listed, metavar="KEY", help="Add scores by idiom, proverb, corpus …")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed for the sign-flip tests.")
@click.option("--no_texts", is_flag=True, help="Leave out the texts of the examples.")
@click.option("--allow_noncommercial", is_flag=True, help="Include texts whose licence excludes commercial use.")
@click.option("--no_plots", is_flag=True, help="Leave out the charts.")
@include_path
def report(  # noqa: PLR0913 - one argument per option
    runs: tuple[Path, ...],
    output: Path,
    *,
    title: str,
    metric: str,
    by: tuple[str, ...],
    seed: int,
    no_texts: bool,
    allow_noncommercial: bool,
    no_plots: bool,
    include_path: tuple[Path, ...],
) -> None:
    """Write one HTML page about one or several runs, with a sample explorer. No model is needed.

    The first run is compared with each of the others. The page loads nothing from elsewhere. The texts of the examples
    come from the data on this machine, not from the runs, so their licences apply to the page.

    \b
    figeval report results/runs/demo
    figeval report results/runs/minilm results/runs/tfidf -o report.html --by proverb
    figeval report models/proverbs --no_texts
    """
    from figeval import plugins
    from figeval.evaluation.outputs import check_output
    from figeval.evaluation.report_content import report_content
    from figeval.evaluation.report_texts import ExampleTexts
    from figeval.report.exporters import load_exporters
    from figeval.report.html.page import Panels, page
    from figeval.storage import cure, replace_text

    check_output(output, runs)
    manager = plugins.plugin_manager()
    texts = None if no_texts else ExampleTexts(manager, include_path, allow_noncommercial=allow_noncommercial)
    found = report_content(runs, texts, metric=metric, by=by, seed=seed)
    exporters = load_exporters(manager)
    downloads = {f"scores.{ending}": exporters.get(form)(found.runs) for ending, form in DOWNLOADS.items()}
    panels = Panels(
        comparisons=found.comparisons,
        family=found.family,
        calibration=found.calibration,
        positions=found.positions,
        samples=found.samples,
        trainings=found.trainings,
        downloads=downloads,
        notices=found.notices,
    )
    made = page(title, found.runs, panels, draw=not no_plots)
    with cure(output, "--output"):
        replace_text(output, made)
    for notice in dict.fromkeys(found.notices):
        echo(notice)
    echo(f"{output} ({counted(len(found.runs), 'run')}, {len(made.encode()) / 1e6:.1f} MB)")
