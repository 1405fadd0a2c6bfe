"""Command `figeval checklist`."""

from __future__ import annotations

from pathlib import Path

import click

from figeval import print_result
from figeval.cli.shared import include_path


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "--format",
    "form",
    type=click.Choice(["arr", "neurips"]),
    default="arr",
    show_default=True,
    help="Checklist: Responsible NLP of ACL Rolling Review, or that of NeurIPS.",
)
@click.option(
    "--items",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of `figeval annotate export` whose instructions are quoted; may be repeated.",
)
@include_path
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def checklist(
    *, runs: tuple[Path, ...], form: str, items: tuple[Path, ...], include_path: tuple[Path, ...], as_json: bool
) -> None:
    """Answer a conference's reproducibility checklist from the records of runs, as Markdown.

    Data, licences, splits, hardware, hours, settings, hyperparameters and their search, the choice of the checkpoint,
    intervals and versions come from the records, also those of the trainings behind the models. "fill in" marks what
    only the authors know. Give all runs of the paper: their hours are added up.

    \b
    figeval checklist results/runs/* --format arr
    """
    from figeval.wings.checklist.api import checklist as answer_checklist

    print_result(answer_checklist(runs, form=form, items=items, include_path=include_path), as_json=as_json)
