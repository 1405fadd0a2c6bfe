"""The base class of models whose name says everything about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from figeval.models.model import refuse_model_name
from figeval.types import JSON


@dataclass(frozen=True, slots=True)
class PlainModel:
    """Base class of models without options, which learn nothing."""

    name: ClassVar[str]

    model: str = ""

    def __post_init__(self) -> None:
        refuse_model_name(self.name, self.model)

    def fingerprint(self) -> str:
        """Return the name, since nothing else can change an answer."""
        return self.name

    def describe(self) -> JSON:
        """Return {}: there is nothing to describe."""
        return {}
