"""The base of what public functions return: tables with notes, for terminals, notebooks and programs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from figeval.reporting.grid import Grid, page, plain, say
from figeval.types import JSON

if TYPE_CHECKING:
    from rich.console import Console


class Result(ABC):
    """Result of a function, as tables and notes.

    `print(result)` shows what the command prints without a terminal, and a notebook shows the same as HTML.
    """

    @property
    @abstractmethod
    def grids(self) -> Sequence[Grid]:
        """Tables of the result."""

    def notes(self) -> Iterable[str]:
        """Return the lines below the tables."""
        return ()

    def to_dict(self) -> JSON | list[JSON]:
        """Return everything as values that JSON can represent, as the command prints it with `--json`.

        Raises:
            NotImplementedError: the result has no form as JSON, since its class does not define this method.
        """
        raise NotImplementedError(f"{type(self).__name__} has no form as JSON")

    def print(self, console: Console) -> None:
        """Print tables and notes on a rich console."""
        for number, grid in enumerate(self.grids):
            if number:
                console.print()
            grid.print(console)
        for note in self.notes():
            say(console, f"  {note}")

    def __str__(self) -> str:
        return plain(self.grids, self.notes())

    def _repr_html_(self) -> str:
        return page(self.grids, self.notes())
