"""Examples that ask about one text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from figeval.types import Example


@dataclass(frozen=True, slots=True, kw_only=True)
class TextExample(Example, ABC):
    """An example that asks about its `text`.

    A subclass has that as a property, or as a field: `text: Annotated[str, TextField("…")] = field()`. Without
    `= field()` a dataclass would take the abstract property for the field's default.

    Attributes:
        gold_field: the name of the field with the right answer, None where that is hidden.
    """

    gold_field: ClassVar[str]

    @property
    @abstractmethod
    def text(self) -> str:
        """The text that is asked about."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The text alone."""
        return (self.text,)

    @property
    def subject(self) -> str:
        """The text."""
        return self.text

    @property
    def hidden(self) -> bool:
        """Whether the right answer is not known here."""
        return getattr(self, self.gold_field) is None
