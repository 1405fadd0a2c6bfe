"""Options that several commands share, parsers of their values, and output that is safe on a terminal.

Texts may come from models, servers and foreign records.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from figeval.cli.help_pages import HeadedCommand as HeadedCommand
from figeval.cli.help_pages import HeadedOption as HeadedOption
from figeval.cli.help_pages import option_under as option_under
from figeval.io.files import EXTERNAL
from figeval.io.settings import parse_settings
from figeval.io.text import clean, shown_json, whole_number
from figeval.types import JSON

if TYPE_CHECKING:
    from figeval.reporting.grid import Result

TASK_FILES = "Task files"  # heading of the options for the files that task files are and read
C = TypeVar("C", bound=Callable[..., object] | click.Command)


# ---- parsers of values -----------------------------------------------------------------------------------------------


def split_names(
    _context: click.Context, _parameter: click.Parameter, value: str | Sequence[str] | None
) -> tuple[str, ...]:
    """Split e.g. `a,b c` and repeated flags into ("a", "b", "c"), as lm-eval reads --tasks."""
    from figeval.io.validation import names_in

    return names_in(value or ())


def some(context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> tuple[str, ...]:
    """Return names as `split_names` reads them; there must be at least one."""
    names = split_names(context, parameter, value)
    if not names:
        raise click.BadParameter("no name is given; see `figeval ls tasks`", param=parameter)
    return names


class Finite(click.FloatRange):
    """Type of a number that is neither NaN nor infinite; click's own range accepts both."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Fails as click's types do."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number

    def _describe_range(self) -> str:
        """Return the range for --help; without bounds, click would write `x<=None`."""
        return "" if self.min is None and self.max is None else super()._describe_range()


def settings(_context: click.Context, parameter: click.Parameter, value: str | None) -> JSON:
    """Read e.g. `a=1,b=x` (lm-eval's form) or a JSON object into {"a": 1, "b": "x"}."""
    try:
        return parse_settings(value or "")
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from error


def _validate(kind: Any, value: object, parameter: click.Parameter, ending: str = "") -> Any:
    """Return a value as a type of `figeval.io.flag_types`. Raises `BadParameter` with what is wrong, and `ending`."""
    from pydantic import TypeAdapter, ValidationError

    from figeval.io.validation import first_problem

    try:
        return TypeAdapter[Any](kind).validate_python(value)
    except ValidationError as error:
        raise click.BadParameter(first_problem(error) + ending, param=parameter) from error


def task_settings(context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> JSON:
    """Read e.g. `motif.temperature=2,threshold=.7` and repeated flags into a mapping."""
    from figeval.io.flag_types import TaskSettings

    values = {key: part for text in value for key, part in settings(context, parameter, text).items()}
    return dict(_validate(TaskSettings, values, parameter))


def read_augmentation(context: click.Context, parameter: click.Parameter, value: str | None) -> dict[str, Any]:
    """Read e.g. `add=concepts,k=5` into all keys of an augmentation, with defaults for those that are not given."""
    from figeval.io.flag_types import Augment

    return dict(_validate(Augment, settings(context, parameter, value), parameter))


def template_name(_context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    """Return the name of a template, or the path of a file with a digest of its text."""
    from figeval.io.flag_types import TemplateName

    return str(_validate(TemplateName, value or "", parameter))


def thinking(_context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    """Return `on`, `off` or `budget=N` as it is, and refuse anything else."""
    from figeval.reasoning import Reasoning

    try:
        return str(Reasoning.parse(value)) if value else ""
    except ValueError as error:
        raise click.BadParameter(f"must be {error}, not {value!r:.80}", param=parameter) from error


def several(_context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    """Return `cyclic`, `all` or a number of at least 2 as it is, and refuse anything else."""
    if not value or value in {"cyclic", "all"} or (whole_number(value) or 0) > 1:
        return value or ""
    raise click.BadParameter(f"must be cyclic, all, or a number of at least 2, not {value!r}", param=parameter)


def size(_context: click.Context, parameter: click.Parameter, value: str | None) -> int | float | None:
    """Return a number of examples, or a share of them between 0 and 1."""
    if value is None:
        return None
    from figeval.io.flag_types import Size

    number: int | float = _validate(Size, value, parameter, f", not {value!r:.80}")
    return number


def routes(_context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> dict[str, str]:
    """Read e.g. `choice=by_cosine,pairs=by_head` into {"choice": "by_cosine", "pairs": "by_head"}."""
    routes_by_type = {}
    for part in split_names(_context, parameter, value):
        task_type, equals, name = part.partition("=")
        if not equals:
            raise click.BadParameter(f"{part!r} is not TYPE=ROUTE", param=parameter)
        routes_by_type[task_type] = name
    return routes_by_type


def batch_size(_context: click.Context, parameter: click.Parameter, value: str | None) -> int | str | None:
    """Return a positive integer, or `auto` as it is."""
    if value is None or value == "auto":
        return value
    size = whole_number(value)
    if not size:
        raise click.BadParameter(f"--batch_size must be a positive integer or auto, not {value!r}", param=parameter)
    return size


def negate_flag(_context: click.Context, _parameter: click.Parameter, value: bool) -> bool:
    """Return the opposite, for a flag such as --no_baselines."""
    return not value


# ---- options that are no fields of `RunConfig` -----------------------------------------------------------------------


def also(alias: str, name: str) -> dict[str, Any]:
    """Return context settings with which a command also accepts `--alias` for its option `--name`.

    As everywhere, hyphens and underscores are alike.
    """
    return {"token_normalize_func": lambda text: name if text.replace("-", "_") == alias else text.replace("-", "_")}


def include_path(command: C) -> C:
    """Add `--include_path` to a command, and the flags for the files that its task files may read."""
    folders = click.option(
        "--include_path",
        cls=HeadedOption,
        heading=TASK_FILES,
        multiple=True,
        metavar="PATH,…",
        callback=task_paths,
        help="Folders with additional task files, or single ones.",
    )
    return folders(allow_external_files(own_data(command)))


def task_paths(_context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> tuple[Path, ...]:
    """Return folders and task files; `a,b` is the same as the flag given twice."""
    if not values:
        return ()
    from figeval.io.validation import split_paths
    from figeval.spec.loader import KINDS

    paths = split_paths(values)
    for path in paths:
        if not path.is_dir() and not (path.name.endswith(tuple(KINDS)) and path.is_file()):
            problem = f"{str(path)!r} is not a folder with task files, nor a .task.yaml or .suite.yaml file"
            raise click.BadParameter(problem, param=parameter)
    return paths


def use_copies(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> None:
    """Add `NAME=FOLDER` to `FIGEVAL_DATA_COPIES`, so that worker processes also know it.

    Any reader may know a name, so that only the end of the command shows that none does.
    """
    for value in values:
        name, _, folder = value.partition("=")
        if not (name and folder) or not Path(folder).expanduser().is_dir():
            raise click.BadParameter(
                f"{value!r} is not NAME=FOLDER with an existing folder; write, for example, storal=FOLDER",
                param=parameter,
            )
        copies = os.environ.get("FIGEVAL_DATA_COPIES", "")
        os.environ["FIGEVAL_DATA_COPIES"] = f"{name}={Path(folder).expanduser().resolve()}{copies and ','}{copies}"
        context.call_on_close(partial(warn_of_unread, name))


def warn_of_unread(name: str) -> None:
    """Warn of a copy of the user's that nothing has read, unless the command ends with an error."""
    from figeval.data.cache import requested_copies
    from figeval.io.frontend import warn
    from figeval.io.text import near

    if sys.exc_info()[0] is None and requested_copies and name not in requested_copies:
        warn(f"--data {name}=… was not used: no data that were read have this name{near(name, requested_copies)}")


own_data = click.option(
    "--data",
    cls=HeadedOption,
    heading=TASK_FILES,
    multiple=True,
    metavar="NAME=FOLDER",
    expose_value=False,
    callback=use_copies,
    help="Folder with your copy of a benchmark that cannot be downloaded, e.g. storal=FOLDER.",
)


allow_external_files = click.option(
    "--allow_external_files",
    cls=HeadedOption,
    heading=TASK_FILES,
    is_flag=True,
    expose_value=False,
    callback=lambda _context, _parameter, value: os.environ.update({EXTERNAL: "1"} if value else {}),
    help="Allow task files to use data and includes outside their own folder.",
)


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


# ---- output ----------------------------------------------------------------------------------------------------------


def echo(text: object = "") -> None:
    """Print a text on stdout without escape sequences, control characters and direction overrides."""
    click.echo(clean(str(text)))


def echo_json(content: object) -> None:
    """Print a value as JSON on stdout."""
    import json

    echo_json_text(json.dumps(content, indent=1, ensure_ascii=False))


def echo_json_text(text: str) -> None:
    """Print JSON on stdout; terminal control characters are escaped in it, so nothing is lost."""
    click.echo(shown_json(text))


as_latex = click.option("--latex", "as_latex", is_flag=True, help="Print the tables as LaTeX, for a paper.")


def print_result(result: Result, *, as_json: bool = False, as_latex: bool = False) -> None:
    """Print a result on stdout as figeval's own commands do: its tables and notes, or its JSON, or LaTeX.

    On a terminal, tables have its width; elsewhere they are plain lines. Control characters are escaped.
    """
    if as_json:
        echo_json(result.to_dict())
        return
    if as_latex:
        click.echo(clean(result.to_latex()), nl=False)
        return
    from rich.console import Console

    result.print(Console())
