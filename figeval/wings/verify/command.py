"""Command `figeval verify`."""

from __future__ import annotations

from pathlib import Path

import click

from figeval.cli.shared import echo, echo_json, include_path


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@include_path
@click.option("--no_data", is_flag=True, help="Do not read the tasks' data; rows and baselines are not recomputed.")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Another run that should be equal; print what differs, apart from times and machines.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of the checks.")
def verify(run: Path, include_path: tuple[Path, ...], no_data: bool, against: Path | None, as_json: bool) -> int:
    """Recompute the scores of a run from its predictions; exit code 2 if something does not agree.

    Settings, scores, intervals and baselines are computed again from the rows and the tasks' data and compared, then
    run.json and the predictions with their checksums. What cannot be computed, such as times and versions, has only
    checksums, which a forger could renew. Nothing is written, and no model is loaded but the baselines.

    \b
    figeval verify results/runs/minilm
    figeval verify results/runs/minilm --against theirs/minilm
    """
    from figeval.wings.verify.api import verify as verify_run

    verification = verify_run(run, data=not no_data, against=against, include_path=include_path, progress=True)
    if as_json:
        echo_json(verification.to_dict())
    else:
        echo(verification)
    return 0 if verification.ok else 2
