"""Command `figeval train`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click

from figeval import FolderInUse, TrainError
from figeval.cli.shared import (
    C,
    Finite,
    HeadedCommand,
    HeadedOption,
    allow_external_files,
    also,
    own_data,
    settings,
    split_names,
)
from figeval.runs.workers.slurm import MASTER, script, spread_script, write_script
from figeval.wings.training.config import TrainConfig

if TYPE_CHECKING:
    from rich.console import Console

    from figeval import Observer
    from figeval.wings.training.sweep import GridValues, Sweep

METAVARS = {int: "N", float: "X", Path: "PATH"}
# First field of each block of the config → heading of its flags in --help.
HEADINGS = {
    "task": "What to train",
    "probe": "Examples",
    "epochs": "Optimization",
    "select_on": "Selection and evaluation",
    "device": "Memory and adapters",
    "processes": "Machines and checkpoints",
}
ON_MACHINES: dict[str, Any] = {"cls": HeadedOption, "heading": HEADINGS["processes"]}
COMMON_FIELDS = {"task", "model", "output", "head", "preset", "epochs", "batch_size", "lr", "evaluate", "lora"}
SHORT_FLAGS = {"task": "-t", "model": "-m", "output": "-o", "batch_size": "-b", "limit": "-L"}


def _add_flags(command: C) -> C:
    """Add one flag per field of the config to a command; a flag that is not given changes nothing."""
    for name, heading in reversed(_headings().items()):
        field = TrainConfig.model_fields[name]
        flag = f"--{name}/--no_{name}" if field.annotation is bool else f"--{name}"
        names = [flag, *([SHORT_FLAGS[name]] if name in SHORT_FLAGS else [])]
        has_default = not field.is_required() and field.default not in (None, (), {})
        text = f"{field.description}  [default: {_format_default(field.default)}]" if has_default else field.description
        attributes: dict[str, Any] = {"cls": HeadedOption, "heading": heading, "is_common": name in COMMON_FIELDS}
        command = click.option(*names, name, help=text, **attributes, **_option_arguments(field.annotation))(command)
    return command


def _headings() -> dict[str, str]:
    """Return the heading of each field in --help."""
    heading, headings = "", {}
    for name in TrainConfig.model_fields:
        heading = headings[name] = HEADINGS.get(name, heading)
    return headings


def _option_arguments(annotation: Any) -> dict[str, Any]:
    """Return click's arguments for a field: a switch, words, settings, or a text that the config checks."""
    if annotation is bool:
        return {"default": None}
    if get_origin(annotation) in (dict, Mapping):
        return {"callback": _skip_if_absent(settings), "metavar": "KEY=VALUE,…"}
    if any(get_origin(kind) is tuple for kind in (annotation, *get_args(annotation))):
        return {"multiple": True, "callback": _skip_if_absent(split_names), "metavar": "A,B"}
    return {"metavar": _metavar(annotation)}


def _metavar(annotation: Any) -> str:
    """Return the placeholder of a flag in --help: the words that it accepts, or the kind of value."""
    inner = [kind for kind in get_args(annotation) if kind is not type(None)]
    if get_origin(annotation) is Literal:
        return "|".join(inner)
    return _metavar(inner[0]) if inner else METAVARS.get(annotation, "TEXT")


def _skip_if_absent(read: Callable[..., Any]) -> Callable[..., Any]:
    return lambda context, parameter, value: None if value in (None, ()) else read(context, parameter, value)


def _format_default(default: object) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)


@click.command(cls=HeadedCommand, context_settings=also("output_path", "output"))
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML file that sets any of these options.",
)
@_add_flags
@own_data
@allow_external_files
@click.option(
    "--seeds",
    metavar="N|A,B",
    help="Train once for each of N seeds, or of the seeds listed, and report mean and spread.",
)
@click.option(
    "--grid", multiple=True, metavar="FIELD=A,B;…", help="Train every combination, and choose the best on dev."
)
@click.option(
    "--ray", **ON_MACHINES, metavar="auto|HOST:PORT", help="Train the seeds or the grid on a Ray cluster, side by side."
)
@click.option(
    "--workers",
    **ON_MACHINES,
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of trainings side by side on the cluster.",
)
@click.option(
    "--gpus_per_worker",
    **ON_MACHINES,
    type=Finite(min=0),
    metavar="X",
    help="GPUs of each training; 1 if the cluster has GPUs.",
)
@click.option(
    "--slurm",
    **ON_MACHINES,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a batch script for SLURM instead of training.",
)
def train(config: Path | None, seeds: str | None, grid: tuple[str, ...], slurm: Path | None, **flags: Any) -> int:
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
    from figeval.wings.training.api import resolve_config, show_progress

    flags = {name: value for name, value in flags.items() if value is not None}
    cluster: dict[str, Any] = {name: flags.pop(name) for name in ("ray", "workers", "gpus_per_worker") if name in flags}
    _check_cluster(cluster, is_sweep=seeds is not None or bool(grid))
    stderr = Console(stderr=True)
    if slurm is not None:
        text = _batch_script(resolve_config(config, {"master": MASTER} | flags), cluster)
        say(stderr, write_script(slurm, text))
        return 0
    train_config = resolve_config(config, flags)
    if seeds is not None or grid:
        return _train_sweep(train_config, seeds, grid, cluster, stderr)
    return _train_model(train_config, show_progress(train_config))


def _check_cluster(cluster: Mapping[str, Any], *, is_sweep: bool) -> None:
    """Raise `TrainError` if a flag for a cluster would have no effect."""
    if cluster and "ray" not in cluster:
        raise TrainError(f"--{min(cluster)} is for a cluster; give --ray too, or leave it out")
    if cluster and not is_sweep:
        raise TrainError("--ray spreads whole trainings; give --seeds or --grid too, or leave it out")


def _batch_script(config: TrainConfig, cluster: Mapping[str, Any]) -> str:
    """Return the script for SLURM: of one training on all machines, or of trainings that Ray spreads over them."""
    if not cluster:
        return script(config, sys.argv[1:], Path.cwd())
    gpus = cluster.get("gpus_per_worker", 1.0 if config.device != "cpu" else 0.0)
    return spread_script(sys.argv[1:], Path.cwd(), config.output.name, cluster.get("workers", 1), gpus)


def _train_model(config: TrainConfig, observer: Observer) -> int:
    from rich.console import Console

    from figeval import Harness
    from figeval.reporting.grid import say
    from figeval.reporting.table import show
    from figeval.reporting.training import gain, weights
    from figeval.wings.training.api import train_and_evaluate

    training, console = train_and_evaluate(config, observer), Console()
    run = training.run
    if run is not None:
        show(run.record, console)
    if config.node_rank == 0:  # the first machine has written the record
        for note in filter(None, (gain(training.record), weights(training.record))):
            say(console, note)
    model = Harness().backends.folder_name(training.path)
    say(console, f"saved to {training.path}; next: figeval run --tasks {quote(config.task)} --model {quote(model)}")
    return 0 if run is None or run.complete else 1


def _train_sweep(
    config: TrainConfig, seeds: str | None, grid: tuple[str, ...], cluster: Mapping[str, Any], stderr: Console
) -> int:
    """Run the trainings of a sweep, on a cluster if it has flags; return the exit code."""
    from figeval.records.sweep import parse_seeds
    from figeval.reporting.grid import say
    from figeval.wings.training.api import show_progress
    from figeval.wings.training.sweep import Sweep, parse_grid

    numbers, values = None if seeds is None else parse_seeds(seeds, config.seed), parse_grid(grid)
    observer = show_progress(config)
    sweep = Sweep(config, observer, lambda text: say(stderr, text))
    if not cluster:
        return _run_sweep(sweep, observer, numbers, values)
    from figeval.wings.training.ray import connect_cluster

    workers, gpus = cluster.get("workers"), cluster.get("gpus_per_worker")
    with connect_cluster(config, cluster["ray"], workers, gpus, observer) as trainings:
        return _run_sweep(replace(sweep, start=trainings.start), observer, numbers, values)


def _run_sweep(sweep: Sweep, observer: Observer, seeds: Sequence[int] | None, grid: GridValues) -> int:
    """Run the trainings of a grid, then those of the seeds or the evaluation of the best one; return the exit code."""
    from rich.console import Console

    from figeval.reporting.training import show_grid, show_seeds

    config, console, best = sweep.config, Console(), None
    if grid:
        with observer.live():
            points, best = sweep.train_grid(grid)
        show_grid(points, console)
    if seeds is None:
        assert best is not None  # there are seeds or a grid
        return _train_model(best.model_copy(update={"evaluate": config.evaluate, "floor": config.floor}), observer)
    with observer.live():
        record = sweep.train_seeds(seeds, best)
    if record.seeds:
        show_seeds(record, console)
    if busy := [f"seed {seed} ({config.output / f'seed-{seed}'})" for seed in seeds if seed not in record.seeds]:
        raise FolderInUse(
            f"{' and '.join(busy)}: being trained or evaluated by another process; "
            f"{'all others are done, so ' if record.seeds else ''}run the same command when that has finished"
        )
    return 0 if len(record.runs) in (0, len(seeds)) else 1
