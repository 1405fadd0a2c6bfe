"""Layouts: tables of papers as data, which plugins provide, filled with published numbers, those of runs, and others.

A `*.layouts.yaml` has a list of tables under `layouts:`. A table consists of panels with the same meaning of rows
(models) and each with its own columns. A column is a metric of a task; the published numbers in it are those rows of
`results/reference` that have the same task (or part) and metric and come from one of the layout's sources.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from importlib.resources.abc import Traversable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from figeval import DuplicateName, Harness, PluginManager, RecordError, Registry
from figeval.io.yaml_files import read_yaml
from figeval.records.reference import MEAN, MeasuredNumber, Rule

COMPARISON = "comparison"  # the layout that is made from the runs themselves
EXAMPLES = "examples"  # in place of a metric: the number of examples that a task has


class LayoutPart(BaseModel):
    """Part of a layout. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Measure(LayoutPart):
    """One column of a group.

    Attributes:
        head: heading of the column.
        metric: a metric, or `examples` for the number of examples of the task.
        percent: whether shares are printed as percentages.
        digits: decimals; a published number has all that are printed.
        exponent_below: numbers below this one are printed with three digits and an exponent, as p-values are.
        rule: how the table makes one value of several people's labels of a text: their mean, or the label of most.
    """

    head: str
    metric: str
    percent: bool = False
    digits: int = Field(3, ge=0, le=6)
    exponent_below: float = Field(0, ge=0)
    rule: Rule = MEAN

    def takes(self, number: MeasuredNumber) -> bool:
        """Return whether a number is made by the rule of this column."""
        return number.rule in (None, self.rule)

    def format_published(self, value: float) -> str | None:
        """Return a published number without rounding it, as another version of a paper may have more digits."""
        exponent = Decimal(str(value)).normalize().as_tuple().exponent
        decimals = -int(exponent) - (2 if self.percent else 0)
        return self.model_copy(update={"digits": max(self.digits, decimals)}).format(value)

    def format(self, value: float | None) -> str | None:
        """Return a number as printed in this column, or None if there is none."""
        if value is None or math.isnan(value):
            return None
        if 0 < value < self.exponent_below:
            mantissa, _, exponent = f"{value:.2e}".partition("e")
            return f"{mantissa}e{int(exponent)}"
        return f"{value * 100 if self.percent else value:.{self.digits}f}"


class Group(LayoutPart):
    """Neighbouring columns about one task, or about a part of the published numbers that no task measures.

    `published` is false for columns whose published numbers stand in other columns of the table.
    """

    head: str = ""
    task: str = ""
    part: str = ""
    published: bool = True
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


class Panel(LayoutPart):
    """Columns that stand side by side."""

    title: str = ""
    groups: tuple[Group, ...] = Field(min_length=1)

    @property
    def columns(self) -> list[tuple[Group, Measure]]:
        """The columns from left to right."""
        return [(group, measure) for group in self.groups for measure in group.measures]


class TableLayout(LayoutPart):
    """One table.

    Attributes:
        name: name that --layout takes.
        caption: what the table shows; a sentence without a full stop.
        sources: tables whose numbers are shown, in the spelling of `results/reference`: paper, version, table.
        rows: heading of the first column.
        notes: sentences below the table.
        row_notes: sentences about rows of published numbers, by model; tables have them as footnotes.
        hint: sentence below the table while it has published numbers only, on how to measure them.
        panels: parts of the table, one above the other.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    caption: str
    sources: tuple[str, ...] = ()
    rows: str = "Model"
    notes: tuple[str, ...] = ()
    row_notes: dict[str, str] = Field(default_factory=dict)
    hint: str = ""
    panels: tuple[Panel, ...] = Field(min_length=1)

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(group.task for panel in self.panels for group in panel.groups if group.task))


class LayoutsFile(LayoutPart):
    """Content of a `*.layouts.yaml`. Under `shared`, a file may keep what its aliases repeat."""

    shared: object = None
    layouts: tuple[TableLayout, ...]


def load_layouts(manager: PluginManager) -> Registry[TableLayout]:
    """Return the layouts of all plugins by name. A broken file is a problem of its plugin and hides no other."""
    registry: Registry[TableLayout] = Registry("layout", "figeval ls layouts")

    def add(file: Traversable, *, owner: str) -> None:
        for layout in read_layouts(file):
            try:
                registry.add(layout.name, layout, owner, layout.caption)
            except DuplicateName as error:
                manager.problem(owner, str(error))

    registry.fill(manager, "register_layouts", add)
    return registry


def read_layouts(file: Traversable) -> Iterator[TableLayout]:
    """Yield the layouts of a file. Raises `RecordError` with file and key for what is none."""
    for layout in read_yaml(file, LayoutsFile, RecordError).layouts:
        if layout.name == COMPARISON:
            raise RecordError(f"{file}: {COMPARISON} is the general layout; choose another name")
        yield layout


def layout_rows(harness: Harness) -> Iterator[dict[str, Any]]:
    """Yield one row per table of a paper for `figeval export --layout`, and the general one first."""
    yield {"name": COMPARISON, "tasks": [], "sources": [], "owner": "figeval", "caption": "Chosen tasks and metrics"}
    for entry in load_layouts(harness.manager):
        layout = entry.load()
        row = {"name": layout.name, "tasks": layout.tasks, "sources": list(layout.sources)}
        yield {**row, "owner": entry.owner, "caption": layout.caption}
