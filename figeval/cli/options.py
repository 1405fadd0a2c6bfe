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
from figeval.errors import PluginError, near
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


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

SHARED: dict[str, Callable[[Any], Any]] = {
    "budget": budget,
    "include_path": include_path,
    "json": as_json,
    "model_args": model_args,
    "portion": portion,
    "prompting": prompting,
    "seed": seed,
}


def shared_options(*names: str) -> Callable[[C], C]:
    """Return a decorator that adds options which figeval's own commands have, with the same names, checks and help.

    Args:
        names: the options, in the order of `--help`: `json` (`--json`, the argument `as_json`), `include_path`
            (folders with task files, and the flags for the files that these may read), `seed`, `model_args`, `budget`
            (`--max_cost`, `--max_tokens`), `portion` (`--limit`, `--sample`, `--stratify`), and `prompting` (the form
            of questions).

    Raises:
        PluginError: there are no such options.

    Example:
        ```python
        @click.command()
        @click.argument("run", type=click.Path(path_type=Path))
        @figeval.shared_options("include_path", "json")
        def hello(run, include_path, as_json): ...
        ```
    """
    for name in names:
        if name not in SHARED:
            raise PluginError(f"shared_options has no {name!r}{near(name, SHARED)}; it has {', '.join(SHARED)}")

    def decorate(command: C) -> C:
        for name in reversed(names):
            command = SHARED[name](command)
        return command

    return decorate
