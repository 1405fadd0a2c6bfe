"""The languages of the greetings, as `figeval ls` lists them and `figeval show` describes each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from figeval import Column, FigevalError, Harness, Result, Table

GREETINGS = {"english": "Good morning", "german": "Guten Morgen", "latin": "Salve"}
COLUMNS: tuple[Column[dict[str, str]], ...] = (Column("name", head="language"), Column("greeting", head="greeting"))


class UnknownLanguage(FigevalError):
    """There is no greeting in this language. As a `FigevalError`, it is one line and exit code 2."""


def greeting_in(language: str) -> str:
    """Return the greeting in a language. Raises `UnknownLanguage`."""
    if language not in GREETINGS:
        raise UnknownLanguage(f"there is no greeting in {language!r}; the languages are {', '.join(GREETINGS)}")
    return GREETINGS[language]


def rows(harness: Harness) -> Iterator[Mapping[str, str]]:
    """Yield a row per language for `figeval ls languages`."""
    for name, greeting in GREETINGS.items():
        yield {"name": name, "greeting": greeting, "owner": "figeval_hello"}


def names(harness: Harness) -> Iterable[str]:
    """Return the names that `figeval show` knows."""
    return GREETINGS


class LanguageView(Result):
    """What `figeval show latin` prints."""

    def __init__(self, harness: Harness, name: str) -> None:
        self.name = name

    @property
    def tables(self) -> Sequence[Table[dict[str, str]]]:
        """One table with one row."""
        return [Table(COLUMNS, [self.to_dict()])]

    def to_dict(self) -> dict[str, str]:
        """Return the language for `--json`."""
        return {"name": self.name, "greeting": GREETINGS[self.name]}
