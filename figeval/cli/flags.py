"""Options of the command line that are fields of `RunConfig`: names, types, defaults and help come from there.

Commands without such options import `shared` alone, and so neither the configuration nor what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING
from pathlib import Path
from shlex import quote
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import click

from figeval.cli import shared
from figeval.cli.help_pages import HeadedOption
from figeval.config import DEFAULTS, FLAGS, FORMER_FLAGS, TYPES
from figeval.errors import PluginError
from figeval.io.flag_types import (
    Augment,
    BatchSize,
    Finite,
    NonNegativeInt,
    Orders,
    Positive,
    PositiveInt,
    Share,
    Size,
    TaskSettings,
    TemplateName,
    Thinking,
)
from figeval.io.text import near

C = TypeVar("C", bound=Callable[..., object] | click.Command)
# Type of a field → arguments of `click.option` for it.
CLICK_ARGUMENTS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (bool, {"is_flag": True}),
    (int, {"type": int, "metavar": "N"}),
    (str, {}),
    (Path, {"type": click.Path(path_type=Path)}),
    (NonNegativeInt, {"type": click.IntRange(min=0), "metavar": "N"}),
    (PositiveInt, {"type": click.IntRange(min=1), "metavar": "N"}),
    (Finite, {"type": shared.Finite(), "metavar": "X"}),
    (Share, {"type": shared.Finite(min=0), "metavar": "X"}),
    (Positive, {"type": shared.Finite(min=0, min_open=True), "metavar": "X"}),
    (Size, {"callback": shared.size}),
    (BatchSize, {"callback": shared.batch_size, "metavar": "N|auto"}),
    (Orders, {"callback": shared.several}),
    (Thinking, {"callback": shared.thinking}),
    (Augment, {"callback": shared.read_augmentation}),
    (TemplateName, {"callback": shared.template_name}),
    (TaskSettings, {"multiple": True, "callback": shared.task_settings}),
    (tuple[str, ...], {"multiple": True, "callback": shared.split_names, "metavar": "A,B"}),
    (Mapping[str, str], {"multiple": True, "callback": shared.routes}),
    (Mapping[str, Any], {"callback": shared.settings, "metavar": "KEY=VALUE,…"}),
)


def run_flags(*names: str) -> Callable[[C], C]:
    """Return a decorator that adds fields of `RunConfig` to a command as options, in this order."""

    def add(command: C) -> C:
        for name in reversed(names):
            command = run_flag(name)(command)
        return command

    return add


def run_flag(name: str) -> Callable[[C], C]:
    """Return a decorator that adds one field of `RunConfig` to a command as an option."""
    flag, kind = FLAGS[name], _type_without_none(name)
    default = DEFAULTS[name] if flag.default is None else flag.default
    arguments: dict[str, Any] = {"help": flag.help, **_click_arguments(kind)}
    arguments |= {"cls": HeadedOption, "heading": flag.heading, "is_common": flag.is_common}
    if flag.metavar:
        arguments["metavar"] = flag.metavar
    if flag.spellings.startswith("!"):
        arguments["callback"] = shared.negate_flag
    elif default is MISSING:
        arguments["required"] = True
        if arguments.get("multiple"):
            arguments["callback"] = shared.some
    elif not isinstance(default, tuple | Mapping):
        arguments["default"] = default
        arguments["show_default"] = isinstance(default, int | float) and not isinstance(default, bool)
    spellings = (flag.spellings.removeprefix("!") or f"--{name}").split()
    return click.option(*spellings, name, **arguments)


def _click_arguments(kind: Any) -> dict[str, Any]:
    """Raises `TypeError` for a type of fields that no option has yet."""
    if get_origin(kind) is Literal:
        return {"type": click.Choice(get_args(kind))}
    for field_kind, arguments in CLICK_ARGUMENTS:
        if kind == field_kind:
            return arguments
    raise TypeError(f"there is no option for {kind}; add the type to CLICK_ARGUMENTS")


def _type_without_none(name: str) -> Any:
    kind, *metadata = get_args(TYPES[name])
    if len(metadata) > 1:
        kind = Annotated[(kind, *metadata[:-1])]
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (part for part in get_args(kind) if part is not NoneType)
    return kind


def former_flags(command: C) -> C:
    """Add hidden options for flags that have become settings of tasks; they name their new place."""

    def refuse(_context: click.Context, parameter: click.Parameter, value: str | None) -> None:
        if value is not None:
            raise click.UsageError(
                f"--{parameter.name} is a setting of tasks now; write --set {quote(f'{parameter.name}={value}')}"
            )

    for name in FORMER_FLAGS:
        command = click.option(f"--{name}", hidden=True, expose_value=False, callback=refuse)(command)
    return command


# What is asked and how, which examples, and what is scored and stored; each in the order of --help.
prompting = run_flags(
    *("num_fewshot", "fewshot_from", "shots", "fewshot_sampler", "augment", "system_instruction"),
    *("system_as_user", "apply_chat_template", "max_new_tokens", "reasoning", "constrain", "orders", "calibrate"),
    *("prompts", "template", "routes", "settings", "probes"),
)
portion = run_flags("limit", "sample", "stratify")
results = run_flags("output_path", "log_samples", "by", "protocol", "split", "metrics")
budget = run_flags("max_cost", "max_tokens")
batch = run_flags("batch", "resubmit_lost")
model_args = run_flags("model_args")
seed = run_flags("seed")

SHARED: dict[str, Callable[[Any], Any]] = {
    "batch": batch,
    "budget": budget,
    "data": shared.own_data,
    "include_path": shared.include_path,
    "json": shared.as_json,
    "model_args": model_args,
    "portion": portion,
    "prompting": prompting,
    "seed": seed,
}


def shared_options(*names: str) -> Callable[[C], C]:
    """Return a decorator that adds options which figeval's own commands have, with the same names, checks and help.

    Args:
        names: the options, in the order of `--help`: `json` (`--json`, the argument `as_json`), `include_path`
            (folders with task files, and the flags for the files that these may read), `data` (`--data`: copies of
            benchmarks, for `DataContext.copies`), `seed`, `model_args`, `budget`
            (`--max_cost`, `--max_tokens`), `batch` (`--batch`, `--resubmit_lost`), `portion` (`--limit`, `--sample`,
            `--stratify`), and `prompting` (the form of questions).

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
