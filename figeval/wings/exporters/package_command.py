"""Command `figeval package`."""

from __future__ import annotations

from pathlib import Path

import click

from figeval.cli.shared import include_path


@click.command()
@click.argument("tasks", nargs=-1, required=True, metavar="TASK|SUITE...")
@click.option(
    "--output", "-o", required=True, type=click.Path(path_type=Path), help="New folder for the data set, named like it."
)
@click.option("--licence", default="", help="Licence of the rows for the card; by default that of the benchmark.")
@click.option("--permitted", is_flag=True, help="Include rows that no licence lets you pass on; you have permission.")
@include_path
def package(
    tasks: tuple[str, ...], output: Path, licence: str, permitted: bool, include_path: tuple[Path, ...]
) -> None:
    """Write tasks as a data set for the Hugging Face Hub, with an eval.yaml.

    The folder has the rows, a card with licence and source, and the eval.yaml that Inspect reads. Nothing is uploaded.

    \b
    figeval package mabl_en -o mabl-en
    hf upload --repo-type dataset OWNER/mabl-en mabl-en
    """
    from figeval import write_output
    from figeval.io.frontend import warn
    from figeval.wings.exporters.eval_yaml import package_tasks

    files, remarks = package_tasks(
        tasks, title=output.resolve().name, licence=licence, permitted=permitted, include=include_path
    )
    write_output(files, output)
    for remark in remarks:
        warn(remark)
    for path in files:
        click.echo(output / path)
