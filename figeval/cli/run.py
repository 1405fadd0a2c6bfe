"""Command `figeval run`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from figeval.cli.options import (
    Finite,
    also,
    budget,
    include_path,
    listed,
    model_args,
    portion,
    prompting,
    results,
    seed,
    some,
)
from figeval.io.text import whole_number


@click.command(context_settings=also("output", "output_path"))
@click.option(
    "--tasks", "-t", multiple=True, required=True, callback=some, help="Tasks and suites, separated by commas."
)
@click.option(
    "--model", "-m", "-M", required=True, help="Model: a name from `figeval ls models`, a folder or a hub id."
)
@model_args
@portion
@prompting
@click.option("--batch_size", "-b", default="auto", help="Batch size; auto: as large as memory allows.")
@click.option("--device", help="cpu, cuda, cuda:1 or mps; the fastest available by default.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of processes that share the examples; each loads the model, on its own GPU if there are several.",
)
@click.option(
    "--ray",
    default="",
    metavar="auto|HOST:PORT",
    help="Share the examples among workers on a Ray cluster; auto: that of this machine.",
)
@click.option(
    "--workers", type=click.IntRange(min=1), help="Number of workers on the cluster; one per GPU or machine by default."
)
@click.option("--gpus_per_worker", type=Finite(min=0), help="GPUs of each worker; 1 if the cluster has GPUs.")
@click.option(
    "--slurm",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Instead of running, write a batch script for SLURM that starts Ray on the machines of its job.",
)
@seed
@results
@click.option("--threshold", type=Finite(), help="Minimum similarity for a pair to get the first label.")
@click.option(
    "--temperature",
    type=Finite(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Temperature of the distributions that similarity tasks compare.",
)
@budget
@click.option(
    "--batch",
    is_flag=True,
    help="Ask an API model through its batch API, at half the price; the same command collects the answers later.",
)
@click.option(
    "--resubmit_lost",
    is_flag=True,
    help="With --batch: submit requests again whose batch is unknown to the server or has no results for them. They "
    "may have been billed, and count against the budget.",
)
@click.option(
    "--trackers",
    multiple=True,
    callback=listed,
    help="Also send scores to trackers: mlflow, wandb, tensorboard …",
)
@include_path
@click.option("--no_baselines", is_flag=True, help="Leave out the trivial baselines.")
@click.option(
    "--fresh", is_flag=True, help="Start over; an earlier run in --output_path is moved to its subfolder earlier/."
)
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

    given, console = options(flags), Console()
    if (slurm := given.pop("slurm")) is not None:
        say(Console(stderr=True), write_job(slurm, given))
        return 0
    done = run_tasks(progress=True, **given)
    show(done.record, console)
    show_breakdowns(done.record, console)
    say(console, f"\n  {done.path}/run.json")
    return 0 if done.complete else 1


def write_job(file: Path, given: dict[str, Any]) -> str:
    """Write the batch script of a run, and return what to do with it."""
    from figeval.api.runs import run_config
    from figeval.errors import OptionError
    from figeval.runs.harness import Harness
    from figeval.runs.workers.slurm import spread_script, write_script

    if given["ray"] not in {None, "", "auto"}:
        raise OptionError(f"--slurm starts Ray on the machines of its job; leave out --ray {given['ray']}")
    rest: Any = {**given, "ray": "auto"}
    asked = run_config(rest.pop("tasks"), rest.pop("model"), rest)
    if Harness().backends.answers_in_parallel(asked.model):
        raise OptionError(f"{asked.model} already answers many requests in parallel; leave out --slurm")
    gpus = asked.gpus_per_worker if asked.gpus_per_worker is not None else float(asked.device != "cpu")
    name = asked.output_path.name if asked.output_path is not None else "run"
    return write_script(file, spread_script(sys.argv[1:], Path.cwd(), name, asked.workers or 1, gpus))


def options(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the flags as arguments of `figeval.run`."""
    batch = str(flags.pop("batch_size"))
    if batch != "auto" and not whole_number(batch):
        raise click.BadParameter(f"--batch_size must be a positive integer or auto, not {batch!r}")
    return {"baselines": not flags.pop("no_baselines"), "batch_size": whole_number(batch) or "auto", **flags}
