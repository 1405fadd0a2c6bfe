"""`figeval train`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin

import click

from figeval.cli.options import listed, settings
from figeval.training.config import TrainConfig

SHORT = {"task": "-t", "model": "-m", "output": "-o", "batch_size": "-b", "limit": "-L"}


def flags(command: Any) -> Any:
    """One flag per field of the config, with its description; a flag that is not given changes nothing."""
    for name, field in reversed(TrainConfig.model_fields.items()):
        names = [f"--{name}", *([SHORT[name]] if name in SHORT else [])]
        default = "" if field.is_required() else f"  [default: {shown(field.default)}]"
        command = click.option(*names, name, help=f"{field.description}{default}", **kind(field.annotation))(command)
    return command


def kind(annotation: Any) -> dict[str, Any]:
    """How click reads a field: a switch, words, settings, or a text that the config checks."""
    if annotation is bool:
        return {"is_flag": True, "default": None}
    if get_origin(annotation) is dict:
        return {"callback": optional(settings), "metavar": "KEY=VALUE,…"}
    if any(get_origin(one) is tuple for one in (annotation, *get_args(annotation))):
        return {"callback": optional(listed), "metavar": "A,B"}
    return {"metavar": "TEXT"}


def optional(read: Callable[..., Any]) -> Callable[..., Any]:
    """A click callback that leaves a flag alone that was not given."""
    return lambda context, parameter, value: None if value is None else read(context, parameter, value)


def shown(default: Any) -> str:
    """A default as it would be typed."""
    if default is None or default in ((), {}):
        return "none"
    if isinstance(default, bool):
        return "yes" if default else "no"
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)


@click.command()
@click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A YAML file of these.")
@flags
def train(config: Path | None, **given: Any) -> int:
    """Fine-tune a model on a task; the same command again goes on where it stopped.

    \b
    figeval train --task epic_retrieval_seen --model roberta-base --output models/proverbs
    figeval train --task nli_train --model roberta-large --output models/nli --evaluate nli,impli
    figeval train --config models/proverbs/training/config.yaml --seed 1 --output models/proverbs-1

    The trained model is then like any other: figeval run --model models/proverbs
    """
    from rich.console import Console

    from figeval.pipeline.training.complete import complete
    from figeval.pipeline.training.configure import configured
    from figeval.report.table import show
    from figeval.report.training import progress_on

    asked = configured(config, {name: value for name, value in given.items() if value is not None})
    progress = progress_on(Console(stderr=True))
    with progress.live():
        record = complete(asked, progress)
    if record is not None:
        show(record, Console())
    return 0 if record is None or record.status == "complete" else 1
