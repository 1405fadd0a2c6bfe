"""The content of a leaderboard site: what `figeval board` collects, shows, and offers as JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from figeval.records.schema import ScoreRecord, Stored


class BoardRow(Stored):
    """One run, the mean of several seeds, or a trivial baseline on one leaderboard."""

    model: str = Field(description="name of the model, with what distinguishes the run from others of the same model")
    kind: Literal["run", "baseline"]
    run: str = Field(default="", description="identity of the run; empty for a baseline")
    page: str = Field(default="", description="page of the run, relative to the site; empty for a baseline")
    route: str = Field(default="", description="how the model was asked")
    conditions: str = Field(default="", description="what the run changed about how the task is asked")
    floor_of: str = Field(default="", description="model whose score on a probe, such as no_query, this baseline is")
    same_as: str = Field(default="", description="model of an earlier row that is the same one by another name")
    seeds: int = Field(default=1, description="trainings of which the scores are means")
    date: str = Field(default="", description="day on which the run started")
    scores: list[ScoreRecord]
    rank: int | None = Field(default=None, description="1 for the best; null for a baseline and a run without a rank")
    best: int | None = Field(default=None, description="lower end of the 95 % confidence set of the rank")
    worst: int | None = Field(default=None, description="upper end of that set; null where not all pairs were tested")
    note: str = Field(default="", description="why there is no rank, or no confidence set")

    def score(self, metric: str) -> ScoreRecord | None:
        """Return the score of a metric, or None if there is none."""
        return next((score for score in self.scores if score.metric == metric), None)


class Leaderboard(Stored):
    """Runs whose scores may be compared: one task, prompt, contrast or suite, on the same data."""

    name: str
    kind: Literal["task", "contrast", "suite"]
    benchmark: str
    metric: str = Field(description="metric that the ranks are about, the first of the scores")
    apart: str = Field(default="", description="why these runs are not on the first leaderboard of this name")
    portion: str = Field(default="", description="flags by which the runs used part of the examples; empty for all")
    only_label: str = Field(default="", description="the right answer to every example of the task, if all share one")
    examples: int = Field(description="examples of the task that the runs used; tasks of a suite")
    examples_sha256: str = Field(description="over the examples; over those of all tasks of a suite or contrast")
    rows: list[BoardRow]
    notes: list[str] = Field(default=[], description="notes about the runs, as they stand below their tables")

    @property
    def metrics(self) -> list[str]:
        """Metrics of all rows, the one that the ranks are about first."""
        return list(dict.fromkeys((self.metric, *(score.metric for row in self.rows for score in row.scores))))


class Absence(Stored):
    """A result that is on no leaderboard."""

    model: str
    task: str
    why: str


class BoardRecord(Stored):
    """Everything that a leaderboard site shows."""

    board_version: Literal["1"] = "1"
    made: str
    figeval: str = Field(description="version that made the site")
    runs: int = Field(description="runs that were read; several seeds of one training count once")
    leaderboards: list[Leaderboard]
    absent: list[Absence] = Field(default=[], description="results without a score")
