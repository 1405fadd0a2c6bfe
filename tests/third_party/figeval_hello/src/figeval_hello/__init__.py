"""A wing: the hooks name its commands and listings, and nothing of it is imported before it is used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from figeval import hookimpl

if TYPE_CHECKING:
    from figeval import CommandLine, ListingRegistrar, Run, ViewRegistrar
    from figeval_hello.greeting import Greeting


def hello(run: Run | str | Path, *, language: str = "english") -> Greeting:
    """Say hello to a run, or to the run in a folder, and what it answered most often.

    Raises:
        UnknownLanguage: there is no greeting in this language.
        figeval.RecordError: there is no run.
    """
    from figeval_hello.greeting import greet

    return greet(run, language)


@hookimpl
def register_commands(cli: CommandLine) -> None:
    """The command `figeval hello`."""
    cli.add_lazy_command("hello", "figeval_hello.command:hello", "Say what a run answered most often.")


@hookimpl
def register_listings(register: ListingRegistrar) -> None:
    """The languages, for `figeval ls languages`."""
    register("languages", "figeval_hello.languages:rows", ("name", "greeting", "owner"), "for hello --language")


@hookimpl
def register_views(register: ViewRegistrar) -> None:
    """And for `figeval show latin`."""
    register("language", "figeval_hello.languages:names", "figeval_hello.languages:LanguageView")
