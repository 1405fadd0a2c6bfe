"""Arguments of public functions: what the command line takes as text may be given as text here, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from figeval.config import Folders
from figeval.errors import OptionError
from figeval.io.settings import parse_settings
from figeval.io.text import near
from figeval.registry import a_type

SETTINGS = {"model_args", "head_args"}  # `a=1,b=x` is the same as {"a": 1, "b": "x"}
NAMES = ("by", "prompts", "metrics", "evaluate", "lora_targets", "trackers")  # `a,b` is the same as ("a", "b")


def given_options(function: str, options: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the options with single names and folders as tuples, and settings that are texts as mappings.

    Raises:
        TypeError: there is no such option.
        OptionError: settings have another form.
    """
    for name in options:
        if name not in names:
            raise TypeError(f"{function}() has no option {name!r}{near(name, names)}")
    arguments = dict(options)
    for name in NAMES:
        if isinstance(value := arguments.get(name), str):
            arguments[name] = names_in(value)
    for name in SETTINGS & arguments.keys():
        arguments[name] = settings_in(name, arguments[name])
    if isinstance(folder := arguments.get("include_path"), str | Path):
        arguments["include_path"] = (folder,)
    return arguments


def settings_in(name: str, settings: Any) -> Any:
    """Return the settings in `a=1,b=x` or in a JSON object; None is no setting, and all else is returned as it is.

    Raises:
        OptionError: the text has another form.
    """
    try:
        return parse_settings(settings or "") if isinstance(settings, str | None) else settings
    except ValueError as error:
        raise OptionError(f"{name}: {error}") from error


def paths_in(folders: Folders, name: str = "include_path") -> tuple[Path, ...]:
    """Return one path or several of the argument `name`. Raises `OptionError` for anything else."""
    return tuple(map(Path, as_list(folders, str | Path, name, "a path, or a list of paths")))


def as_list(argument: Any, kind: Any, name: str, expected: str) -> list[Any]:
    """Return one value or several of a kind as a list.

    Args:
        argument: the argument.
        kind: class of a value, or a union of classes.
        name: name of the argument, for errors.
        expected: what to give, in words.

    Raises:
        OptionError: it is neither a value nor several.
    """
    if isinstance(argument, kind):
        return [argument]
    if not isinstance(argument, Iterable) or isinstance(argument, str | bytes):
        raise OptionError(f"{name} is {a_type(argument)}; give {expected}")
    values = list(argument)
    if unexpected := [value for value in values if not isinstance(value, kind)]:
        raise OptionError(f"{name} has {a_type(unexpected[0])}; give {expected}")
    return values


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in `a,b c`."""
    return tuple(text.replace(",", " ").split())
