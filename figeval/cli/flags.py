"""Options of the command line that are fields of `RunConfig`: names, types, defaults and help come from there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import click

from figeval.cli import parsers
from figeval.config import (
    DEFAULTS,
    FLAGS,
    TYPES,
    Augment,
    BatchSize,
    Finite,
    NonNegativeInt,
    Orders,
    Positive,
    PositiveInt,
    Share,
    Size,
    Thinking,
)

C = TypeVar("C", bound=Callable[..., object] | click.Command)
# Type of a field → arguments of `click.option` for it.
CLICK_ARGUMENTS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (bool, {"is_flag": True}),
    (int, {"type": int}),
    (str, {}),
    (Path, {"type": click.Path(path_type=Path)}),
    (NonNegativeInt, {"type": click.IntRange(min=0)}),
    (PositiveInt, {"type": click.IntRange(min=1)}),
    (Finite, {"type": parsers.Finite()}),
    (Share, {"type": parsers.Finite(min=0)}),
    (Positive, {"type": parsers.Finite(min=0, min_open=True)}),
    (Size, {"callback": parsers.size}),
    (BatchSize, {"callback": parsers.batch_size}),
    (Orders, {"callback": parsers.several}),
    (Thinking, {"callback": parsers.thinking}),
    (Augment, {"callback": parsers.augmented}),
    (tuple[str, ...], {"multiple": True, "callback": parsers.listed}),
    (Mapping[str, str], {"multiple": True, "callback": parsers.routes}),
    (Mapping[str, Any], {"callback": parsers.settings}),
)


def run_flags(*names: str) -> Callable[[C], C]:
    """Return a decorator that adds fields of `RunConfig` to a command as options, in this order."""

    def add(command: C) -> C:
        for name in reversed(names):
            command = run_flag(name)(command)
        return command

    return add


def run_flag(name: str, **changes: Any) -> Callable[[C], C]:
    """Return a decorator that adds one field of `RunConfig` to a command, with changed arguments of `click.option`."""
    flag, kind = FLAGS[name], _type_without_none(name)
    default = DEFAULTS[name] if flag.default is None else flag.default
    arguments: dict[str, Any] = {"help": flag.help, "metavar": flag.metavar or None, **_click_arguments(kind)}
    if flag.spellings.startswith("!"):
        arguments["callback"] = parsers.negated
    elif default is MISSING:
        arguments["required"] = True
        if arguments.get("multiple"):
            arguments["callback"] = parsers.some
    elif not isinstance(default, tuple | Mapping):
        arguments["default"] = default
        arguments["show_default"] = isinstance(default, int | float) and not isinstance(default, bool)
    spellings = (flag.spellings.removeprefix("!") or f"--{name}").split()
    return click.option(*spellings, name, **{**arguments, **changes})


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
