"""Base class of examples that ask about one text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from figeval.types import Example


@dataclass(frozen=True, slots=True, kw_only=True)
class TextExample(Example, ABC):
    """Example that asks about its `text`.

    A subclass defines it as a property, or as a field: `text: Annotated[str, TextField("…")] = field()`. Without
    `= field()`, a dataclass would take the abstract property as the field's default.

    Attributes:
        gold_field: name of the field with the right answer, whose value is None if the answer is hidden.
    """

    gold_field: ClassVar[str]

    @property
    @abstractmethod
    def text(self) -> str:
        """Text that is asked about."""

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts of the example, i.e. the text alone."""
        return (self.text,)

    @property
    def subject(self) -> str:
        """Subject of the example, i.e. its text."""
        return self.text

    @property
    def hidden(self) -> bool:
        """True if the right answer is hidden."""
        return getattr(self, self.gold_field) is None
