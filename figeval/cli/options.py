"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from figeval.cli.flags import run_flags
from figeval.cli.parsers import Finite as Finite
from figeval.cli.parsers import listed as listed
from figeval.cli.parsers import settings as settings
from figeval.cli.parsers import some as some
from figeval.io.files import EXTERNAL

C = TypeVar("C", bound=Callable[..., object] | click.Command)
# What is asked and how, which examples, and what is scored and stored; each in the order of --help.
prompting = run_flags(
    *("num_fewshot", "shots", "fewshot_sampler", "augment", "system_instruction", "apply_chat_template"),
    *("max_new_tokens", "reasoning", "constrain", "orders", "calibrate", "prompts", "routes", "probes"),
)
portion = run_flags("limit", "sample", "stratify")
results = run_flags("output_path", "log_samples", "by", "protocol", "split", "metrics")
budget = run_flags("max_cost", "max_tokens")
model_args = run_flags("model_args")
seed = run_flags("seed")


def also(alias: str, name: str) -> dict[str, Any]:
    """Return context settings with which a command also accepts `--alias` for its option `--name`.

    As everywhere, hyphens and underscores are alike.
    """
    return {"token_normalize_func": lambda text: name if text.replace("-", "_") == alias else text.replace("-", "_")}


def include_path(command: C) -> C:
    """Add `--include_path` to a command, and the flags for the files that its task files may read."""
    folders = click.option(
        "--include_path",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Folder with additional task files.",
    )
    return folders(allow_external_files(own_data(command)))


def use_copies(_context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> None:
    """Add `NAME=FOLDER` to `FIGEVAL_DATA_COPIES`, so that worker processes also know it."""
    for value in values:
        name, _, folder = value.partition("=")
        if not name or not Path(folder).expanduser().is_dir():
            raise click.BadParameter(
                f"{value!r} is not NAME=FOLDER with an existing folder; write, for example, storal=FOLDER",
                param=parameter,
            )
        copies = os.environ.get("FIGEVAL_DATA_COPIES", "")
        os.environ["FIGEVAL_DATA_COPIES"] = f"{name}={Path(folder).expanduser().resolve()}{copies and ','}{copies}"


own_data = click.option(
    "--data",
    multiple=True,
    metavar="NAME=FOLDER",
    expose_value=False,
    callback=use_copies,
    help="Folder with your copy of a benchmark that cannot be downloaded, e.g. storal=FOLDER.",
)


allow_external_files = click.option(
    "--allow_external_files",
    is_flag=True,
    expose_value=False,
    callback=lambda _context, _parameter, value: os.environ.update({EXTERNAL: "1"} if value else {}),
    help="Allow task files to use data and includes outside their own folder.",
)
