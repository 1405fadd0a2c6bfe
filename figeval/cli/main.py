"""Root command, which imports the others on demand and turns errors into one line and an exit code.

Exit codes: 0 success · 1 a task failed, the others are done · 2 an error that the user can fix · 75 a batch is not
finished, the same command collects it later · 129 the terminal was closed (SIGHUP) · 130 interrupted · 141 the reader
of the output has closed it (as for any command before `| head`) · 143 terminated (SIGTERM).
"""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property
from io import TextIOWrapper
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import click

from figeval.errors import FigevalError, PluginError
from figeval.extras import needed_for
from figeval.io.frontend import command_line, end_despite_threads, end_quickly, print_error
from figeval.io.text import clean, near

if TYPE_CHECKING:
    from figeval.plugins import PluginManager

OURS = "figeval"  # owner of figeval's own commands
WINGS = "figeval.wings."  # begins the names of the plugins that belong to figeval
# Errors of the operating system that the user can fix, whatever the operation.
NO_PATH = {errno.ENAMETOOLONG, errno.ELOOP}
NO_ROOM = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT}

# Headings of `figeval --help` in their order; those that plugins declare come behind.
EVALUATE, LOOK, PUBLISH = "Evaluate", "Look", "Compare and publish"
PEOPLE, TASKS, BENCHMARKS = "People", "Tasks and plugins", "Benchmarks"
HEADINGS = (EVALUATE, LOOK, PUBLISH, PEOPLE, TASKS, BENCHMARKS)
PLUGINS = "Plugins"  # heading of the commands of plugins that declare none

# name → (target of the command, which is imported when it is used; its line in --help; its heading there)
COMMANDS = {
    "run": ("figeval.cli.run:run", "Run tasks with a model.", EVALUATE),
    "score": ("figeval.cli.score:score", "Score the predictions of another system.", EVALUATE),
    "rescore": ("figeval.cli.rescore:rescore", "Extract answers from stored replies again.", EVALUATE),
    "ls": ("figeval.cli.ls:ls", "List tasks, models, metrics, layouts and more.", LOOK),
    "show": ("figeval.cli.show:show", "Show a run, a task, a model or another named thing.", LOOK),
    "preview": ("figeval.cli.preview:preview", "Show exactly what a model would see.", LOOK),
    "doctor": ("figeval.cli.doctor:doctor", "Report versions, devices, caches and plugins.", LOOK),
    "new": ("figeval.cli.new:new", "Create a task or a plugin.", TASKS),
    "validate": ("figeval.cli.validate:validate", "Check task files: load, render, compare gold with options.", TASKS),
    "schema": ("figeval.cli.schema:schema", "Print the JSON Schema of task files, suites or records.", TASKS),
    "data": ("figeval.cli.data:data", "List, fetch and verify benchmark data.", BENCHMARKS),
}
# name that a command had → where it is now
MOVED = {
    "build": "benchmark build",
    "analyze": "benchmark analyze",
    "curve": "benchmark curve",
    "diagnose": "benchmark diagnose",
    "labels": "show RUN --labels",
    "annotators": "show RUN --annotators",
}


_registering: ContextVar[tuple[PluginManager, str] | None] = ContextVar("registering", default=None)


class CommandGroup(click.Group):
    """Group to which plugins can add commands with unique names."""

    group_class: type[click.Group | type] | None = type  # class of the groups that plugins add
    parent: CommandGroup | None = None
    default_heading = "Commands"  # of commands for which no heading is declared

    @cached_property
    def owners(self) -> dict[str, str]:
        """Plugin that added each command, by the command's name."""
        return {}

    @cached_property
    def headings(self) -> dict[str, str]:
        """Heading in --help of each command that has one, by the command's name."""
        return {}

    @property
    def path(self) -> str:
        """Words between `figeval` and the name of one of the group's commands."""
        return f"{self.parent.path if self.parent else ''}{self.name} "

    def add_command(self, cmd: click.Command, name: str | None = None, heading: str = "") -> None:
        """Add a command; a plugin's command whose name is taken is refused and reported as a problem of the plugin.

        Args:
            cmd: the command.
            name: its name, by default its own; of several words, all but the last are groups: `benchmark build poems`.
            heading: the heading above it in --help.

        Raises:
            PluginError: there is no such group.
        """
        group, name = self._resolve_group(name or cmd.name or "")
        if group._claim(name, heading):
            click.Group.add_command(group, cmd, name)
            if isinstance(cmd, CommandGroup):
                cmd.parent = group

    @cached_property
    def lazy(self) -> dict[str, tuple[str, str]]:
        """Target (`"module:attribute"`) and line in --help of each command that is imported on use, by its name."""
        return {}

    def add_lazy_command(self, name: str, target: str, summary: str, heading: str = "") -> None:
        """Add a command that is imported when it is used.

        Args:
            name: name of the command; of several words, all but the last are groups: `benchmark build poems`.
            target: place of the command, `"module:attribute"`.
            summary: its line in --help.
            heading: the heading above it in --help.

        Raises:
            PluginError: there is no such group.
        """
        group, name = self._resolve_group(name)
        if group._claim(name, heading):
            group.lazy[name] = (target, summary)

    def _resolve_group(self, path: str) -> tuple[CommandGroup, str]:
        """Return the group of a command, and the command's name in it, for the words of its path."""
        *words, name = path.split() or [path]
        group = self
        for word in words:
            inner = group.commands.get(word)
            if not isinstance(inner, CommandGroup):
                raise PluginError(f"command {path!r}: {(group.path + word)!r} is no group of commands")
            group = inner
        return group, name

    def _claim(self, name: str, heading: str) -> bool:
        """Record owner and heading of a new command, or report that its name is taken and return False."""
        registering = _registering.get()
        if registering is None:
            self.owners[name] = OURS
        else:
            manager, owner = registering
            if owner.startswith(WINGS):
                return False  # `extend_by_wings` has added it, as one of figeval's own
            if name in self.owners:
                whose = f"command {self.path + name!r} of {owner} is already registered by {self.owners[name]}"
                manager.problem(owner, f"{whose}; rename it")
                return False
            self.owners[name] = owner
        if heading:
            self.headings[name] = heading
        return True

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands in the order in which they were added, those imported on use first."""
        return [*self.lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported if necessary."""
        if cmd_name in self.lazy:
            module, _, attribute = self.lazy[cmd_name][0].partition(":")
            command: click.Command = getattr(importlib.import_module(module), attribute)
            return command
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command as click does, with similar names in the error for an unknown one."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            names = self.list_commands(ctx)
            raise click.UsageError(
                f"there is no command {self.path + name!r}{near(name, names)}; the commands are {', '.join(names)}", ctx
            )
        return super().resolve_command(ctx, args)

    def sections(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """Return name and line in --help of all commands, in their order, by heading; imports none of them."""
        names = self.list_commands(ctx)
        summaries = {name: summary for name, (_, summary) in self.lazy.items()}
        summaries |= {name: command.get_short_help_str(120) for name, command in self.commands.items()}
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in names:
            sections.setdefault(self.headings.get(name, self.default_heading), []).append((name, summaries[name]))
        return sections

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands in --help, by heading."""
        sections = self.sections(ctx)
        width = max((len(name) for rows in sections.values() for name, _ in rows), default=0)
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in rows])

    def invoke(self, ctx: click.Context) -> Any:
        """Invoke a command as click does, but keep the exit status of a plugin's command that ends with `sys.exit()`.

        In figeval's own commands, a `SystemExit` comes from a library that tries to exit: see `main`.
        """
        try:
            return super().invoke(ctx)
        except SystemExit as error:
            owner = self.owners.get(ctx.invoked_subcommand or "", OURS)
            if owner == OURS or isinstance(error.__context__, BrokenPipeError):
                raise
            if error.code is not None and not isinstance(error.code, int):
                print(error.code, file=sys.stderr)  # as Python does
            ctx.exit(error.code if isinstance(error.code, int) else int(error.code is not None))


class Figeval(CommandGroup):
    """The command `figeval`: the commands of `COMMANDS`, the groups below, and the commands of wings and plugins."""

    _extended = False
    group_class = CommandGroup
    default_heading = PLUGINS

    @cached_property
    def owners(self) -> dict[str, str]:
        """Plugin that added each command, by the command's name; those of `COMMANDS` belong to figeval."""
        return dict.fromkeys(COMMANDS, OURS)

    @cached_property
    def lazy(self) -> dict[str, tuple[str, str]]:
        """Target and line in --help of each command that is imported on use."""
        return {name: (target, summary) for name, (target, summary, _) in COMMANDS.items()}

    @cached_property
    def headings(self) -> dict[str, str]:
        """Heading in --help of each command that has one."""
        return {name: heading for name, (_, _, heading) in COMMANDS.items()}

    @property
    def path(self) -> str:
        """Empty, because these are the commands of `figeval` itself."""
        return ""

    def extend_by_wings(self) -> None:
        """Add the commands of figeval's wings without loading plugins, whose code may be slow or broken."""
        for module in iter_modules(importlib.import_module("figeval.wings").__path__, WINGS):
            if hasattr(wing := importlib.import_module(module.name), "register_commands"):
                wing.register_commands(self)

    def extend(self) -> None:
        """Let plugins add their commands, once."""
        if self._extended:
            return
        self._extended = True
        self.extend_by_wings()
        from figeval import plugins

        manager = plugins.plugin_manager()

        def arguments(owner: str) -> dict[str, click.Group]:
            _registering.set((manager, owner))
            return {"cli": self}

        token = _registering.set(None)
        try:
            manager.each("register_commands", arguments)
        finally:
            _registering.reset(token)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, with those of plugins."""
        self.extend()
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported if necessary; plugins are loaded only for commands of theirs."""
        if cmd_name not in self.lazy:
            self.extend_by_wings()
        if cmd_name not in self.lazy:  # one of a plugin, or a group to which plugins add commands
            self.extend()
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command as a group does; the error for one that has moved names its new place."""
        if args[0] in MOVED and self.get_command(ctx, args[0]) is None:
            raise click.UsageError(f"`figeval {args[0]}` is now `figeval {MOVED[args[0]]}`", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Invoke a command as click does, but exit with 141 if the output was closed (`figeval ls tasks | head`).

        Otherwise this would look like a failed task.
        """
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except (BrokenPipeError, SystemExit) as error:
            if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
                raise  # rich turns a broken pipe under a table into a SystemExit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it flushes
            ctx.exit(141)
        return result

    def sections(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """Return the commands in the order of `HEADINGS`, then those of plugins."""
        sections = super().sections(ctx)
        return {heading: sections[heading] for heading in dict.fromkeys((*HEADINGS, *sections)) if heading in sections}


@click.group(
    cls=Figeval,
    context_settings={
        "token_normalize_func": lambda name: name.replace("-", "_"),  # lm-eval's --num_fewshot, others' --num-fewshot
        "help_option_names": ["-h", "--help"],
        "max_content_width": 120,
    },
)
@click.version_option(package_name="figeval", message="figeval %(version)s")
def cli() -> None:
    """Evaluate models on figurative language: proverbs, morals, idioms, metaphors, sarcasm.

    figeval run --tasks epic_mcq,impli --model roberta-large
    """


@click.group(cls=CommandGroup)
def benchmark() -> None:
    """Build, analyze and diagnose benchmarks."""


@benchmark.group()
def build() -> None:
    """Build the derived data of a benchmark, or tasks of its kind from your own texts."""


@benchmark.group()
def analyze() -> None:
    """Analyze a benchmark's data, or runs of it."""


@benchmark.group()
def curve() -> None:
    """Draw learning curves."""


cli.add_command(benchmark, heading=BENCHMARKS)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the console script. An error that the user can fix is one line on stderr; a bug shows its traceback."""
    open_closed_streams()
    try:
        run_command(sys.argv[1:] if arguments is None else arguments)
    except SystemExit as ending:
        if arguments is None:  # not called by a program, which goes on after it has caught the exception
            end_despite_threads(ending.code if isinstance(ending.code, int) else int(ending.code is not None))
        raise


def run_command(words: Sequence[str]) -> NoReturn:
    """Run a command and exit with its code."""
    end_quickly()
    warnings.showwarning = print_warning
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.encoding != "utf-8":
        sys.stdout.reconfigure(errors="backslashreplace")  # a character that the encoding lacks must not end a run
    terminated: list[int] = []
    try:
        with needed_for(), command_line(words), interrupted_by_signals(terminated):
            code = cli.main(args=list(words), prog_name="figeval", standalone_mode=False)
    except FigevalError as error:
        fail(str(error), error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        sys.exit(2)
    except click.UsageError as error:
        command_names = [word for word in words[:1] if word in cli.owners]  # click's parser does not say of which it is
        path = error.ctx.command_path if error.ctx else " ".join(["figeval", *command_names])
        fail(f"{error.format_message().removesuffix('.')} (see `{path} --help`)")
    except click.ClickException as error:
        fail(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        with suppress(OSError):  # the terminal may be gone
            print("figeval: interrupted; results so far are kept, and the same command resumes", file=sys.stderr)
        sys.exit(128 + (terminated[0] if terminated else signal.SIGINT))
    except OSError as error:
        if error.errno not in NO_PATH | NO_ROOM:
            raise
        fail(f"{error.strerror}: {error.filename or 'the output'!r:.200}; give another path")
    except SystemExit:  # commands return their exit code, so a library or plugin tries to exit
        traceback.print_exc()
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def open_closed_streams() -> None:
    """Open the null device for each standard stream that the caller has closed (`>&-`), as daemons and cron jobs do.

    Python has None in its place then. Besides, the next file to be opened, such as one of predictions, would get the
    number of the closed stream, and with it all that libraries and subprocesses print.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
            os.set_inheritable(opened, True)
        if getattr(sys, name) is None:
            stream = open(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


@contextmanager
def interrupted_by_signals(received: list[int]) -> Iterator[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C: schedulers end jobs with the one, and terminals that close with the other.

    A SIGHUP that is ignored, as under `nohup`, stays ignored. Processes of torchrun keep the default actions: within a
    collective operation, nothing else would end them at once.

    Args:
        received: receives the number of the signal.
    """

    def interrupt(number: int, _frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before: dict[int, Any] = {}
    if "TORCHELASTIC_RUN_ID" not in os.environ and threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and (name == "SIGTERM" or signal.getsignal(number) is not signal.SIG_IGN):
                before[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def print_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning of a library or plugin without terminal control sequences, since it may quote foreign text."""
    text = clean(warnings.formatwarning(message, category, filename, lineno, line))
    print(text, end="", file=sys.stderr if file is None else file)


def fail(message: str, code: int = 2) -> NoReturn:
    """Print one line on stderr and exit."""
    print_error(message)
    sys.exit(code)


if __name__ == "__main__":
    main()
