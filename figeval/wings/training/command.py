"""Command `figeval train`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click

from figeval.cli.options import C, Finite, allow_external_files, also, listed, settings
from figeval.errors import FolderInUse, TrainError
from figeval.runs.workers.slurm import MASTER, script, spread_script, write_script
from figeval.wings.training.config import TrainConfig

if TYPE_CHECKING:
    from rich.console import Console

    from figeval.reporting.progress import TrainingProgress
    from figeval.wings.training.sweep import Grid, Sweep

METAVARS = {int: "N", float: "X", Path: "PATH"}
SHORT = {"task": "-t", "model": "-m", "output": "-o", "batch_size": "-b", "limit": "-L"}


def flags(command: C) -> C:
    """Add one flag per field of the config to a command; a flag that is not given changes nothing."""
    for name, field in reversed(TrainConfig.model_fields.items()):
        both = f"--{name}/--no_{name}" if field.annotation is bool else f"--{name}"
        names = [both, *([SHORT[name]] if name in SHORT else [])]
        told = not field.is_required() and field.default not in (None, (), {})
        default = f"  [default: {shown(field.default)}]" if told else ""
        command = click.option(*names, name, help=f"{field.description}{default}", **kind(field.annotation))(command)
    return command


def kind(annotation: Any) -> dict[str, Any]:
    """Return click's arguments for a field: a switch, words, settings, or a text that the config checks."""
    if annotation is bool:
        return {"default": None}
    if get_origin(annotation) in (dict, Mapping):
        return {"callback": optional(settings), "metavar": "KEY=VALUE,…"}
    if any(get_origin(one) is tuple for one in (annotation, *get_args(annotation))):
        return {"callback": optional(listed), "metavar": "A,B"}
    return {"metavar": metavar(annotation)}


def metavar(annotation: Any) -> str:
    """Return the placeholder of a flag in --help: the words that it accepts, or the kind of value."""
    inner = [one for one in get_args(annotation) if one is not type(None)]
    if get_origin(annotation) is Literal:
        return "|".join(inner)
    return metavar(inner[0]) if inner else METAVARS.get(annotation, "TEXT")


def optional(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return a click callback that ignores a flag that was not given."""
    return lambda context, parameter, value: None if value is None else read(context, parameter, value)


def shown(default: object) -> str:
    """Return a default as it would be typed."""
    if isinstance(default, bool):
        return "yes" if default else "no"
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)


@click.command(context_settings=also("output_path", "output"))
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML file that sets any of these options.",
)
@flags
@allow_external_files
@click.option(
    "--seeds",
    metavar="N|A,B",
    help="Train once for each of N seeds, or of the seeds listed, and report mean and spread.",
)
@click.option(
    "--grid", multiple=True, metavar="FIELD=A,B;…", help="Train every combination, and choose the best on dev."
)
@click.option("--ray", metavar="auto|HOST:PORT", help="Train the seeds or the grid on a Ray cluster, side by side.")
@click.option("--workers", type=click.IntRange(min=1), help="Number of trainings side by side on the cluster.")
@click.option("--gpus_per_worker", type=Finite(min=0), help="GPUs of each training; 1 if the cluster has GPUs.")
@click.option(
    "--slurm",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a batch script for SLURM instead of training.",
)
def train(config: Path | None, seeds: str | None, grid: tuple[str, ...], slurm: Path | None, **given: Any) -> int:
    """Fine-tune a model on a task; the same command resumes an interrupted training.

    \b
    figeval train --task epic_retrieval_seen --model roberta-base --preset paper --output models/proverbs
    figeval train --task nli_train --model roberta-large --output models/nli --evaluate nli,impli
    figeval train --config models/proverbs/training/config.yaml --output models/five --seeds 5
    figeval train --task epic_retrieval_seen --model minilm --output models/rates --grid lr=2e-5,5e-5,1e-4

    Use the trained model like any other: figeval run --model models/proverbs
    """
    from rich.console import Console

    from figeval.reporting.grid import say
    from figeval.wings.training.api import configured, shown_progress

    given = {name: value for name, value in given.items() if value is not None}
    staff: dict[str, Any] = {name: given.pop(name) for name in ("ray", "workers", "gpus_per_worker") if name in given}
    check_staff(staff, shared=seeds is not None or bool(grid))
    beside = Console(stderr=True)
    if slurm is not None:
        asked = configured(config, {"master": MASTER} | given)
        flags = (staff.get("workers", 1), staff.get("gpus_per_worker", 1.0 if asked.device != "cpu" else 0.0))
        spread = partial(spread_script, sys.argv[1:], Path.cwd(), asked.output.name, *flags)
        say(beside, write_script(slurm, spread() if staff else script(asked, sys.argv[1:], Path.cwd())))
        return 0
    asked = configured(config, given)
    if seeds is not None or grid:
        return several(asked, seeds, grid, staff, beside)
    return one(asked, shown_progress(asked))


def check_staff(staff: Mapping[str, Any], *, shared: bool) -> None:
    """Raise `TrainError` if a flag for a cluster would have no effect."""
    if staff and "ray" not in staff:
        raise TrainError(f"--{min(staff)} is for a cluster; give --ray too, or leave it out")
    if staff and not shared:
        raise TrainError("--ray spreads whole trainings; give --seeds or --grid too, or leave it out")


def one(asked: TrainConfig, progress: TrainingProgress) -> int:
    """Run one training, print the table of its run, and return the exit code."""
    from rich.console import Console

    from figeval.models.model import Backends
    from figeval.plugins import plugin_manager
    from figeval.reporting.grid import say
    from figeval.reporting.table import show
    from figeval.reporting.training import gain
    from figeval.wings.training.api import train_as

    trained, console = train_as(asked, progress), Console()
    run = trained.run
    if run is not None:
        show(run.record, console)
    if asked.node_rank == 0 and (gained := gain(trained.record)):  # written by the first machine
        say(console, gained)
    model = Backends(plugin_manager()).folder_name(trained.path)
    say(console, f"saved to {trained.path}; next: figeval run --tasks {asked.task} --model {model}")
    return 0 if run is None or run.complete else 1


def several(
    asked: TrainConfig, seeds: str | None, grid: tuple[str, ...], staff: Mapping[str, Any], beside: Console
) -> int:
    """Run the trainings of a sweep, on a cluster if `staff` has the flags for one; return the exit code."""
    from figeval.records.sweep import parse_seeds
    from figeval.reporting.grid import say
    from figeval.wings.training.api import shown_progress
    from figeval.wings.training.sweep import Sweep, grid_of

    wanted, values = None if seeds is None else parse_seeds(seeds, asked.seed), grid_of(grid)
    progress = shown_progress(asked)
    sweep = Sweep(asked, progress, lambda text: say(beside, text))
    if not staff:
        return swept(sweep, progress, wanted, values)
    from figeval.wings.training.ray import on_cluster

    flags = (staff.get("workers"), staff.get("gpus_per_worker"))
    with on_cluster(asked, staff["ray"], *flags, progress) as trainings:
        return swept(replace(sweep, start=trainings.start), progress, wanted, values)


def swept(sweep: Sweep, progress: TrainingProgress, seeds: Sequence[int] | None, grid: Grid) -> int:
    """Run the trainings of a grid, then those of the seeds or the evaluation of the best one; return the exit code."""
    from rich.console import Console

    from figeval.reporting.seeds import show_seeds
    from figeval.reporting.training import show_grid

    asked, console, best = sweep.config, Console(), None
    if grid:
        with progress.live():
            compared, best = sweep.over_grid(grid)
        show_grid(compared, console)
    if seeds is None:
        assert best is not None  # there are seeds or a grid
        return one(best.model_copy(update={"evaluate": asked.evaluate, "floor": asked.floor}), progress)
    with progress.live():
        trained = sweep.over_seeds(seeds, best)
    if trained.seeds:
        show_seeds(trained, console)
    if left := [f"seed {seed} ({asked.output / f'seed-{seed}'})" for seed in seeds if seed not in trained.seeds]:
        raise FolderInUse(
            f"{' and '.join(left)}: being trained or evaluated by another process; "
            f"{'all others are done, so ' if trained.seeds else ''}run the same command when that has finished"
        )
    return 0 if len(trained.runs) in (0, len(seeds)) else 1
