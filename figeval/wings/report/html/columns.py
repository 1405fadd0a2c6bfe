"""The columns of a report: its runs by their places, where several seeds have the colour of their mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from figeval.io.text import one_line
from figeval.records import conditions
from figeval.records.schema import RunRecord
from figeval.reporting.grid import Grid
from figeval.types import JSON
from figeval.wings.report.html.charts import COLOURS


@dataclass(frozen=True, slots=True)
class Columns:
    """The runs of a page by their places: their labels, and which are seeds of which.

    Attributes:
        labels: label of each run; no two are equal.
        parents: place of a seed's run → place of the mean over the seeds.
    """

    labels: Sequence[str]
    parents: Mapping[int, int]

    @classmethod
    def of(cls, runs: Sequence[RunRecord], seeds: Mapping[int, Sequence[int]]) -> Columns:
        """Return the columns of some runs."""
        labels = [one_line(label) for label in conditions.labels(runs)]
        numbered = [
            f"{label} [{place + 1}]" if labels.count(label) > 1 else label for place, label in enumerate(labels)
        ]
        return cls(numbered, {one: place for place, own in seeds.items() for one in own})

    @property
    def whole(self) -> list[int]:
        """Places of the runs, where several seeds are one."""
        return [place for place in range(len(self.labels)) if place not in self.parents]

    @property
    def order(self) -> list[int]:
        """All places, those of seeds behind that of their mean."""
        return [one for place in self.whole for one in (place, *self.seeds_of(place))]

    @property
    def colours(self) -> list[int]:
        """Number of the colour of each run; seeds have that of their mean."""
        return [self.parents.get(place, place) % len(COLOURS) for place in range(len(self.labels))]

    def json(self) -> list[JSON]:
        """Return what the script needs to know of each run."""
        known = zip(self.labels, self.colours, strict=True)
        return [
            {
                "label": label,
                "colour": colour,
                "whole": self.parents.get(place, place),
                "mean": bool(self.seeds_of(place)),
            }
            for place, (label, colour) in enumerate(known)
        ]

    def seeds_of(self, place: int) -> list[int]:
        """Return the places of the runs whose mean a run is."""
        return [one for one, parent in self.parents.items() if parent == place]

    def whole_label(self, place: int) -> str:
        """Return the label of a run, or that of the mean over seeds that it is a part of."""
        return self.labels[self.parents.get(place, place)]

    def named(self, grid: Grid, place: int) -> Grid:
        """Return a table of one run, with the run in its title if there are others."""
        title = f"{self.labels[place]}: {grid.title}" if len(self.labels) > 1 else grid.title
        return Grid(grid.head, grid.rows, title, grid.right)
