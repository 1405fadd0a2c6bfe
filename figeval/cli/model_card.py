"""The description of a model, as `figeval show MODEL` prints it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from figeval.reporting.grid import Column, Result, Table
from figeval.types import JSON


@dataclass(frozen=True)
class ModelCard(Result):
    """The description of a model with its options, as `figeval show MODEL` prints it.

    Attributes:
        name: its name for `--model`.
        summary: what it is.
        owner: the plugin that offers it.
        options: the fields of each `ModelOption`; None if they are unknown, because the model cannot be loaded.
    """

    name: str
    summary: str
    owner: str
    options: Sequence[Mapping[str, Any]] | None

    @property
    def tables(self) -> Sequence[Table[Mapping[str, Any]]]:
        """A row per option."""
        columns: list[Column[Mapping[str, Any]]] = [
            Column("name", head="option"),
            Column("type", head="type"),
            Column("default", "object", format_default, head="default", align="left"),
            Column("help", head=""),
        ]
        return [Table(columns, self.options or (), f"{self.name}: {self.summary}")]

    def notes(self) -> Sequence[str]:
        """Return how options are given; without options also what it is, because an empty table is not printed."""
        owner = f"plugin: {self.owner.removeprefix('figeval.builtin.')}"
        if self.options:
            return [f"--model {self.name} --model_args OPTION=VALUE,…", owner]
        options = "its options are unknown" if self.options is None else "it has no options"
        return [f"{self.name}: {self.summary}", options, owner]

    def to_dict(self) -> JSON:
        """Return everything, as `figeval ls models --json` does."""
        return {"name": self.name, "summary": self.summary, "owner": self.owner, "options": self.options}


def format_default(option: Mapping[str, Any]) -> str:
    """Return the default of an option as text; a dash for None, which its help explains."""
    if option["is_required"]:
        return "required"
    return "–" if option["default"] in (None, "", {}) else str(option["default"])
