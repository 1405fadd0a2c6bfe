"""Flags that several commands share, and parsers of their values."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from figeval.errors import PluginError, near
from figeval.io.files import EXTERNAL
from figeval.io.json_files import parse_json
from figeval.io.text import whole_number

C = TypeVar("C", bound=Callable[..., object] | click.Command)


def listed(_context: click.Context, _parameter: click.Parameter, value: str | Sequence[str] | None) -> tuple[str, ...]:
    """Split e.g. `a,b c` and repeated flags into ("a", "b", "c"), as lm-eval reads --tasks."""
    texts = (value,) if isinstance(value, str) else value or ()
    return tuple(part for text in texts for part in text.replace(",", " ").split())


def some(context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> tuple[str, ...]:
    """Return names as `listed` reads them; there must be at least one."""
    found = listed(context, parameter, value)
    if not found:
        raise click.BadParameter("no name is given; see `figeval ls tasks`", param=parameter)
    return found


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


def settings(_context: click.Context, parameter: click.Parameter, value: str | None) -> dict[str, Any]:
    """Read e.g. `a=1,b=x` (lm-eval's form) or a JSON object into {"a": 1, "b": "x"}.

    The value of an option that is called `…_prompt` is a text, whose blanks count: E5's prompt is "query: ".
    """
    if not value:
        return {}
    if value.lstrip().startswith("{"):
        try:
            return dict(parse_json(value))
        except ValueError as error:
            raise click.BadParameter(f"not a JSON object ({error})", param=parameter) from error
    found: dict[str, Any] = {}
    for part in value.split(","):
        key, equals, text = part.partition("=")
        if not equals or not key.strip():
            cure = "; if a value has a comma, give a JSON object" if found else ""
            raise click.BadParameter(f"{part!r} is not key=value{cure}", param=parameter)
        found[key.strip()] = text if key.strip().endswith("_prompt") else scalar(text.strip())
    return found


def scalar(text: str) -> str | int | float | bool | None:
    """Read `3` as 3, `0.5` as 0.5, `true` as True and `null` as None; any other text, e.g. `nan`, stays a string."""
    named = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in named:
        return named[text.lower()]
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        return number if math.isfinite(number) else text
    return text


def augmented(context: click.Context, parameter: click.Parameter, value: str | None) -> dict[str, Any]:
    """Read e.g. `add=concepts,k=5` into all keys of an augmentation, with defaults for those that are not given."""
    from pydantic import TypeAdapter, ValidationError

    from figeval.config import Augment
    from figeval.io.validation import first_problem

    try:
        return dict(TypeAdapter(Augment).validate_python(settings(context, parameter, value)))
    except ValidationError as error:
        raise click.BadParameter(first_problem(error), param=parameter) from error


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
    from pydantic import TypeAdapter, ValidationError

    from figeval.config import Size
    from figeval.io.validation import first_problem

    try:
        return None if value is None else TypeAdapter[int | float](Size).validate_python(value)
    except ValidationError as error:
        raise click.BadParameter(f"{first_problem(error)}, not {value!r:.80}", param=parameter) from error


def also(alias: str, name: str) -> dict[str, Any]:
    """Return context settings with which a command also accepts `--alias` for its option `--name`.

    As everywhere, hyphens and underscores are alike.
    """
    return {"token_normalize_func": lambda text: name if text.replace("-", "_") == alias else text.replace("-", "_")}


def routes(_context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> dict[str, str]:
    """Read e.g. `choice=by_cosine,pairs=by_head` into {"choice": "by_cosine", "pairs": "by_head"}."""
    found = {}
    for part in listed(_context, parameter, value):
        task_type, equals, name = part.partition("=")
        if not equals:
            raise click.BadParameter(f"{part!r} is not TYPE=ROUTE", param=parameter)
        found[task_type] = name
    return found


PROMPTING = (  # in the order of --help; flags that lm-eval also has keep its names
    click.option(
        "--num_fewshot", "-f", type=click.IntRange(min=0), default=0, help="Number of solved examples in each prompt."
    ),
    click.option(
        "--shots",
        type=click.Choice(["per_example", "shared"]),
        default="per_example",
        help="Different solved examples for each question, or the same for all (faster).",
    ),
    click.option(
        "--fewshot_sampler",
        type=click.Choice(["random", "nearest"]),
        default="random",
        help="Choose solved examples at random, or those nearest to the question.",
    ),
    click.option(
        "--augment",
        callback=augmented,
        metavar="add=concepts|neighbours|outline|none,…",
        help="Add content of the nearest training examples to every example; also takes retriever=, from= and k=.",
    ),
    click.option("--system_instruction", metavar="TEXT", default="", help="System message."),
    click.option(
        "--apply_chat_template/--no_chat_template",
        default=None,
        help="Format prompts with the model's chat template, or as plain text.",
    ),
    click.option("--max_new_tokens", type=click.IntRange(min=1), help="Maximum length of a written answer, in tokens."),
    click.option(
        "--reasoning",
        callback=thinking,
        metavar="on|off|budget=N",
        help="Let a reasoning model think before it answers, or not; budget=N: with N more tokens for it.",
    ),
    click.option(
        "--constrain",
        is_flag=True,
        help="Constrained decoding (structured outputs): a letter or label of the question, or JSON for quotations.",
    ),
    click.option(
        "--orders", callback=several, metavar="cyclic|all|N", help="Ask with the options in several orders (by_letter)."
    ),
    click.option(
        "--calibrate",
        is_flag=True,
        help="Contextual calibration: divide the probabilities of label words and letters by those for content-free "
        "inputs.",
    ),
    click.option(
        "--prompts",
        multiple=True,
        callback=listed,
        help="Also use other prompts of the task: all, or names separated by commas.",
    ),
    click.option(
        "--route", "routes", multiple=True, callback=routes, help="Route for a task type, e.g. choice=by_letter."
    ),
    click.option("--probes", is_flag=True, help="Also ask without the query, and with the query of another example."),
)


def prompting(command: C) -> C:
    """Add the flags for the form of questions to a command."""
    for option in reversed(PROMPTING):
        command = option(command)
    return command


PORTION = (
    click.option(
        "--limit",
        "-L",
        callback=size,
        metavar="N|SHARE",
        help="Use only the first N examples of each task, or a share of them, e.g. 0.1.",
    ),
    click.option(
        "--sample", callback=size, metavar="N|SHARE", help="Use N random examples of each task, or a share of them."
    ),
    click.option(
        "--stratify",
        default="",
        metavar="cluster|COLUMN",
        help="Sample the same share of every cluster (proverb, idiom …), or of every value of a column.",
    ),
)


def portion(command: C) -> C:
    """Add the flags for the examples to use to a command."""
    for option in reversed(PORTION):
        command = option(command)
    return command


RESULTS = (
    click.option(
        "--output_path",
        "-o",
        type=click.Path(path_type=Path),
        help="Folder for the run; by default a new one in results/runs.",
    ),
    click.option("--log_samples", "-s", is_flag=True, help="Store texts and all scores with the predictions."),
    click.option(
        "--by",
        multiple=True,
        callback=listed,
        help="Also print scores for each value of a key: idiom, proverb, corpus …",
    ),
    click.option("--protocol", default="", help="Use another protocol of tasks that have it, e.g. published."),
    click.option("--split", default="", help="Use another split of tasks that have it, e.g. authors."),
    click.option(
        "--metrics",
        multiple=True,
        callback=listed,
        help="Additional metrics for the tasks that they apply to: a,b=MODEL.",
    ),
)


def results(command: C) -> C:
    """Add the flags for the results to a command: their folder, and what is scored and stored."""
    for option in reversed(RESULTS):
        command = option(command)
    return command


model_args = click.option(
    "--model_args", "-a", callback=settings, help="Options of the model, as key=value,… or a JSON object."
)
seed = click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")


def budget(command: C) -> C:
    """Add the limits for what API models may cost to a command."""
    cost = click.option(
        "--max_cost",
        type=Finite(min=0, min_open=True),
        help="Stop before an API model costs more than this, in US dollars or the currency of your own prices.",
    )
    tokens = click.option(
        "--max_tokens",
        type=click.IntRange(min=1),
        help="Stop before an API model uses more than this number of tokens.",
    )
    return cost(tokens(command))


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
        known = os.environ.get("FIGEVAL_DATA_COPIES", "")
        os.environ["FIGEVAL_DATA_COPIES"] = f"{name}={Path(folder).expanduser().resolve()}{known and ','}{known}"


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
