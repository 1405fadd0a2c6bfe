"""Command `figeval run`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from figeval.cli.flags import run_flags
from figeval.cli.shared import also, include_path
from figeval.config import FLAGS


@click.command(context_settings=also("output", "output_path"))
@run_flags(*(name for name in FLAGS if name != "include_path"))
@click.option(
    "--slurm",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Instead of running, write a batch script for SLURM that starts Ray on the machines of its job.",
)
@include_path
def run(**flags: Any) -> int:
    """Run tasks with a model. The same command resumes an interrupted run.

    \b
    figeval run --tasks epic_mcq,impli --model minilm
    figeval run --tasks mini --model tfidf --by proverb
    figeval run --tasks impli --model roberta-large-mnli --output_path results/nli
    """
    from rich.console import Console

    from figeval.api.runs import run as run_tasks
    from figeval.reporting.grid import say
    from figeval.reporting.table import show, show_breakdowns

    console, slurm = Console(), flags.pop("slurm")
    if slurm is not None:
        say(Console(stderr=True), write_job(slurm, flags))
        return 0
    done = run_tasks(progress=True, **flags)
    show(done.record, console)
    show_breakdowns(done.record, console)
    say(console, f"\n  {done.path}/run.json")
    return 0 if done.complete else 1


def write_job(file: Path, flags: dict[str, Any]) -> str:
    """Write the batch script of a run, and return what to do with it."""
    from figeval.api.runs import run_config
    from figeval.errors import OptionError
    from figeval.runs.harness import Harness
    from figeval.runs.workers.slurm import spread_script, write_script

    if flags["ray"] not in {None, "", "auto"}:
        raise OptionError(f"--slurm starts Ray on the machines of its job; leave out --ray {flags['ray']}")
    rest: Any = {**flags, "ray": "auto"}
    config = run_config(rest.pop("tasks"), rest.pop("model"), rest)
    if Harness().backends.answers_in_parallel(config.model):
        raise OptionError(f"{config.model} already answers many requests in parallel; leave out --slurm")
    gpus = config.gpus_per_worker if config.gpus_per_worker is not None else float(config.device != "cpu")
    name = config.output_path.name if config.output_path is not None else "run"
    return write_script(file, spread_script(sys.argv[1:], Path.cwd(), name, config.workers or 1, gpus))
