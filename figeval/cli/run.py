"""Command `figeval run`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import click

from figeval.cli.flags import former_flags, run_flags
from figeval.cli.help_pages import HeadedCommand, HeadedOption
from figeval.cli.shared import also, include_path
from figeval.config import FLAGS
from figeval.errors import FigevalError, OptionError
from figeval.io.files import path_exists
from figeval.io.frontend import print_error


@click.command(cls=HeadedCommand, context_settings=also("output", "output_path"))
@run_flags("tasks")
@click.option(
    *FLAGS["model"].spellings.split(),
    "models",
    cls=HeadedOption,
    heading=FLAGS["model"].heading,
    is_common=FLAGS["model"].is_common,
    required=True,
    multiple=True,
    help=f"{FLAGS['model'].help} Several: repeat the option, or separate them by commas. Each has a folder of its own.",
)
@run_flags(*(name for name in FLAGS if name not in {"tasks", "model", "include_path"}))
@click.option(
    "--slurm",
    cls=HeadedOption,
    heading="Speed and machines",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Instead of running, write a batch script for SLURM that starts Ray on the machines of its job.",
)
@former_flags
@include_path
def run(models: tuple[str, ...], slurm: Path | None, **flags: Any) -> int:
    """Run tasks with a model. The same command resumes an interrupted run.

    \b
    figeval run --tasks epic_mcq,impli --model minilm
    figeval run --tasks mini --model tfidf --limit 20
    figeval run --tasks impli --model roberta-large-mnli --output_path results/nli
    figeval run --tasks impli --model adapters/a --model adapters/b --output_path results/adapters
    """
    from rich.console import Console

    from figeval.io.validation import split_list
    from figeval.reporting.grid import say

    # a folder whose name has a comma is one model
    names = tuple(dict.fromkeys(name for text in models for name in split_list(text, unless=path_exists) or [text]))
    if slurm is not None:
        say(Console(stderr=True), write_job(slurm, names, flags))
        return 0
    if len(names) > 1:
        return run_models(names, flags)
    return run_model(names[0], flags)


def run_model(model: str, flags: dict[str, Any]) -> int:
    """Run the tasks with a model, print its table, and return the exit code."""
    from rich.console import Console

    from figeval.api.runs import run as run_tasks
    from figeval.reporting.grid import say
    from figeval.reporting.table import show_breakdowns

    console = Console()
    done = run_tasks(model=model, progress=True, **flags)
    done.print_summary(console)
    show_breakdowns(done.record, console)
    say(console, f"\n  {done.path}/run.json")
    return 0 if done.complete else 1


def run_models(models: Sequence[str], flags: dict[str, Any]) -> int:
    """Run the tasks with several models one after the other, and return the exit code of them all.

    An error that the user can fix ends the run of one model alone. The code is 1 if a task of any model failed, 2 if
    one of them has another error, and 75 if nothing is missing but batches that are not finished.

    Raises:
        FigevalError: something is wrong that concerns all models, before the first of them.
    """
    from rich.console import Console

    from figeval.reporting.grid import say

    check_common(models[0], flags)
    folders = run_folders(models, flags["output_path"])
    console = Console(stderr=True)
    codes: dict[str, int] = {}
    for number, (model, folder) in enumerate(zip(models, folders, strict=True), 1):
        say(console, f"\nmodel {number} of {len(models)}: {model}")
        try:
            codes[model] = run_model(model, {**flags, "output_path": folder})
        except FigevalError as error:
            print_error(f"{model}: {error}")
            codes[model] = error.exit_code
    if unfinished := [model for model, code in codes.items() if code]:
        say(console, f"\n{len(unfinished)} of {len(models)} models are not complete: {', '.join(unfinished)}")
    return min(filter(None, codes.values()), default=0)


def check_common(model: str, flags: dict[str, Any]) -> None:
    """Raise `FigevalError` for options and tasks that would be wrong with every model."""
    from figeval.api.runs import run_config
    from figeval.runs.harness import Harness
    from figeval.runs.variants import chosen_tasks

    rest: Any = dict(flags)
    config = run_config(rest.pop("tasks"), model, rest)
    chosen_tasks(config, Harness(include=config.include_path))


def run_folders(models: Sequence[str], output: Path | None) -> list[Path | None]:
    """Return a folder in `output` for the run of each model; None, for the usual place, if there is no `output`.

    Raises:
        OptionError: `output` is the folder of a run itself.
    """
    from figeval.runs.run import model_in_path

    if output is None:
        return [None for _ in models]
    if (output / "run.json").exists():
        raise OptionError(f"{output} is the folder of a run; for several models, choose another --output_path")
    names = [model_in_path(model).lstrip(".-") or "model" for model in models]
    counts = Counter(map(str.casefold, names))
    return [
        output / (name if counts[name.casefold()] == 1 else f"{name}-{sha256(model.encode()).hexdigest()[:6]}")
        for model, name in zip(models, names, strict=True)
    ]


def write_job(file: Path, models: Sequence[str], flags: dict[str, Any]) -> str:
    """Write the batch script of a run, and return what to do with it."""
    from figeval.api.runs import run_config
    from figeval.runs.harness import Harness
    from figeval.runs.workers.slurm import spread_script, write_script

    if flags["ray"] not in {None, "", "auto"}:
        raise OptionError(f"--slurm starts Ray on the machines of its job; leave out --ray {flags['ray']}")
    rest: Any = {**flags, "ray": "auto"}
    config = run_config(rest.pop("tasks"), models[0], rest)
    backends = Harness().backends
    for model in models:
        if backends.answers_in_parallel(model):
            raise OptionError(f"{model} already answers many requests in parallel; leave out --slurm")
    gpus = config.gpus_per_worker if config.gpus_per_worker is not None else float(config.device != "cpu")
    name = config.output_path.name if config.output_path is not None else "run"
    return write_script(file, spread_script(sys.argv[1:], Path.cwd(), name, config.workers or 1, gpus))
