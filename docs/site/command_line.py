"""Pages of the reference that are made from the commands: every command with every option, as `--help` prints them.

mkdocs-click would lose the metavars and ranges of options, and the commands that are imported on demand.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc

import click
from markdown_text import prose

from figeval.cli.help_pages import by_heading
from figeval.cli.main import cli

FOLDER = "docs/reference/command_line"
INDEX = """\
# Command line

Options can be written with `_` or with `-` between their words: `--batch_size` and `--batch-size` are the same.
`figeval COMMAND --help` prints what these pages say. If a command has many options, it shows those that matter most;
`--help-all` shows all.

{commands}

## Exit codes

| code | meaning |
|---:|---|
| 0 | Success. |
| 1 | A task failed, and the others are finished; or `doctor` found a problem. |
| 2 | An error that you can fix. One line on stderr says how. |
| 130, 143 | Interrupted by Ctrl-C, or by SIGTERM. The same command resumes. |
| 141 | The reader of the output has closed it, as `head` does. |
"""


def pages() -> Iterator[tuple[str, str]]:
    """Yield (path, Markdown) of the index and of a page per command; subcommands are on the page of their group."""
    root = click.Context(cli, info_name="figeval", **cli.context_settings)
    commands = {command.info_name: command for command in subcommands(root)}
    tables = []
    for heading, rows in cli.sections(root).items():
        lines = [f"| [`figeval {name}`]({name}.md) | {prose(summary(commands[name]))} |" for name, _ in rows]
        tables.append("\n".join([f"## {heading}", "", "| command | |", "|---|---|", *lines]))
    yield f"{FOLDER}/index.md", INDEX.format(commands="\n\n".join(tables))
    for name, command in commands.items():
        yield f"{FOLDER}/{name}.md", "\n\n".join(described(command, depth=1)) + "\n"


def subcommands(context: click.Context) -> Iterator[click.Context]:
    """Yield a context for each command of a group, in the order of `--help`."""
    group = context.command
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            yield click.Context(command, parent=context, info_name=name, **command.context_settings)


def summary(context: click.Context) -> str:
    """Return the first paragraph of a command's help, in one line."""
    return " ".join(cleandoc(context.command.help or "").split("\n\n")[0].split())


def described(context: click.Context, depth: int) -> Iterator[str]:
    """Yield the blocks of Markdown about a command, and of its subcommands one level deeper."""
    path = context.command_path
    name = path.replace(" ", "-")
    yield f"{'#' * depth} `{path}`" + (f" {{ #{name} }}" if depth > 1 else "")
    yield from map(paragraph, cleandoc(context.command.help or "").split("\n\n"))
    usage = " ".join(context.command.collect_usage_pieces(context))
    yield f"```console\n$ {path} {usage}\n```"
    sections = by_heading(context.command, context)
    for heading, options in sections.items():
        if len(sections) > 1:
            yield f"**{heading}**"
        for parameter, (names, text) in options:
            anchor = f"{name}-{parameter.name}" if depth > 1 else parameter.name
            yield f"`{names}`{{ #{anchor} .option }}\n:   {prose(text)}"
    for one in subcommands(context):
        yield from described(one, depth + 1)


def paragraph(text: str) -> str:
    """Return a paragraph of a help text: commands as a block that can be copied, all else as prose."""
    lines = text.removeprefix("\b").strip().splitlines()
    if all(line.startswith("figeval ") for line in lines):
        return "\n".join(["```console", *(f"$ {line}" for line in lines), "```"])
    return prose(" ".join(lines))
