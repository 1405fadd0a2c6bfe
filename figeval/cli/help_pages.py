"""Help of commands with many options: by heading, the common ones with `--help`, all of them with `--help-all`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

C = TypeVar("C", bound=Callable[..., object] | click.Command)
DEFAULT_HEADING = "Options"  # heading of options that name none
MAX_NAME_WIDTH = 30  # of the first column, as in click's own pages
SHOW_ALL = f"{__name__}.show_all"  # key in a context: whether all options are shown


class HeadedOption(click.Option):
    """An option that stands under a heading in `--help`.

    Attributes:
        heading: the heading; those of a command come in the order in which its options name them first.
        is_common: whether a page that leaves some options out shows it.
    """

    def __init__(self, *args: Any, heading: str = "", is_common: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.heading = heading
        self.is_common = is_common


def option_under(heading: str) -> Callable[..., Callable[[C], C]]:
    """Return `click.option` for common options under a heading."""
    return partial(click.option, cls=HeadedOption, heading=heading, is_common=True)


class HeadedCommand(click.Command):
    """A command whose `--help` shows its common options by heading, and `--help-all` all of them."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, with `--help-all` before `--help` if not all options are common."""
        *params, help_option = super().get_params(ctx)
        return [*params, help_option] if all(map(is_common, params)) else [*params, HELP_ALL, help_option]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by heading."""
        show_all = ctx.meta.get(SHOW_ALL, False)
        sections = {
            heading: [record for param, record in rows if show_all or is_common(param)]
            for heading, rows in by_heading(self, ctx).items()
        }
        names = [name for rows in sections.values() for name, _ in rows]
        width = max(len(name) for name in names if len(name) <= MAX_NAME_WIDTH)
        for heading, rows in sections.items():
            if not rows:
                continue
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])


def by_heading(command: click.Command, ctx: click.Context) -> dict[str, list[tuple[click.Parameter, tuple[str, str]]]]:
    """Return the options of a command with their names and texts in --help, by heading; those without one come last."""
    sections: dict[str, list[tuple[click.Parameter, tuple[str, str]]]] = {}
    for param in command.get_params(ctx):
        # Since click 8.5, arguments have records, too; the line of usage names them.
        if isinstance(param, click.Option) and (record := param.get_help_record(ctx)) is not None:
            sections.setdefault(getattr(param, "heading", "") or DEFAULT_HEADING, []).append((param, record))
    return sections | ({DEFAULT_HEADING: sections.pop(DEFAULT_HEADING)} if DEFAULT_HEADING in sections else {})


def is_common(param: click.Parameter) -> bool:
    """Return whether every page shows a parameter: one without a heading, or a common one."""
    return not isinstance(param, HeadedOption) or param.is_common


def _print_all(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        context.meta[SHOW_ALL] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_all,
    help="Show all options and exit.",
)
