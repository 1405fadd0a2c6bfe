"""Layouts: tables of papers as data, which plugins provide, to be filled with published and measured numbers.

A `*.layouts.yaml` has a list of tables under `layouts:`. A table consists of panels with the same meaning of rows
(models) and each with its own columns. A column is a metric of a task; the published numbers in it are those rows of
`results/reference` that have the same task (or part) and metric and come from one of the layout's sources.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, model_validator

from figeval.errors import DuplicateName, RecordError
from figeval.io.yaml_files import read_yaml
from figeval.plugins import PluginManager
from figeval.records.measured import MEAN, MeasuredNumber, Rule
from figeval.registry import Registry, fill
from figeval.types import JSON

if TYPE_CHECKING:
    from figeval import Harness

COMPARISON = "comparison"  # the layout that is made from the runs themselves
EXAMPLES = "examples"  # in place of a metric: the number of examples that a task has


class Part(BaseModel):
    """Part of a layout. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Measure(Part):
    """One column of a group.

    Attributes:
        head: heading of the column.
        metric: a metric, or `examples` for the number of examples of the task.
        percent: whether shares are printed as percentages.
        digits: decimals.
        rule: how the table makes one value of several people's labels of a text: their mean, or the label of most.
    """

    head: str
    metric: str
    percent: bool = False
    digits: int = Field(3, ge=0, le=6)
    rule: Rule = MEAN

    def takes(self, number: MeasuredNumber) -> bool:
        """Return whether a number is made by the rule of this column."""
        return number.rule in (None, self.rule)

    def shown(self, value: float | None) -> str | None:
        """Return a number as printed in this column, or None if there is none."""
        if value is None or math.isnan(value):
            return None
        return f"{value * 100 if self.percent else value:.{self.digits}f}"


class Group(Part):
    """Neighbouring columns about one task, or about a part of the published numbers that no task measures."""

    head: str = ""
    task: str = ""
    part: str = ""
    measures: tuple[Measure, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _is_about_something(self) -> Group:
        if not self.task and not self.part:
            raise ValueError("a group needs a task or a part")
        return self

    @property
    def about(self) -> str:
        """The task, or the part."""
        return self.task or self.part


class Panel(Part):
    """Columns that stand side by side."""

    title: str = ""
    groups: tuple[Group, ...] = Field(min_length=1)

    @property
    def columns(self) -> list[tuple[Group, Measure]]:
        """The columns from left to right."""
        return [(group, measure) for group in self.groups for measure in group.measures]


class Layout(Part):
    """One table.

    Attributes:
        name: name that --layout takes.
        caption: what the table shows; a sentence without a full stop.
        sources: tables whose numbers are shown, in the spelling of `results/reference`: paper, version, table.
        rows: heading of the first column.
        notes: sentences below the table.
        hint: sentence below the table while it has published numbers only, on how to measure them.
        panels: parts of the table, one above the other.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    caption: str
    sources: tuple[str, ...] = ()
    rows: str = "Model"
    notes: tuple[str, ...] = ()
    hint: str = ""
    panels: tuple[Panel, ...] = Field(min_length=1)

    @property
    def tasks(self) -> list[str]:
        """The tasks that fill the table."""
        return list(dict.fromkeys(group.task for panel in self.panels for group in panel.groups if group.task))


class LayoutsFile(Part):
    """Content of a `*.layouts.yaml`. Under `shared`, a file may keep what its aliases repeat."""

    shared: object = None
    layouts: tuple[Layout, ...]


def load_layouts(manager: PluginManager) -> Registry[Layout]:
    """Return the layouts of all plugins by name. A broken file is a problem of its plugin and hides no other."""
    registry: Registry[Layout] = Registry("layout", "figeval ls layouts")

    def add(file: Traversable, *, owner: str) -> None:
        for layout in read_layouts(file):
            try:
                registry.add(layout.name, layout, owner, layout.caption)
            except DuplicateName as error:
                manager.problem(owner, str(error))

    fill(manager, "register_layouts", add)
    return registry


def read_layouts(file: Traversable) -> Iterator[Layout]:
    """Yield the layouts of a file. Raises `RecordError` with file and key for what is none."""
    for layout in read_yaml(file, LayoutsFile, RecordError).layouts:
        if layout.name == COMPARISON:
            raise RecordError(f"{file}: {COMPARISON} is the general layout; choose another name")
        yield layout


def layout_rows(harness: Harness) -> Iterator[JSON]:
    """Yield one row per table of a paper for `figeval export --layout`, and the general one first."""
    yield {"name": COMPARISON, "tasks": [], "sources": [], "owner": "figeval", "caption": "Chosen tasks and metrics"}
    for entry in load_layouts(harness.manager):
        layout = entry.load()
        row = {"name": layout.name, "tasks": layout.tasks, "sources": list(layout.sources)}
        yield {**row, "owner": entry.owner, "caption": layout.caption}
