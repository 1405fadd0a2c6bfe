"""Scores of a network in training: routes, metrics and all else are those of `figeval run`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from figeval.config import RunConfig
from figeval.evaluation.harness import Harness
from figeval.evaluation.plan import Planner, route_of
from figeval.evaluation.scoring import Interview, Measures, Respondent
from figeval.models.model import Model
from figeval.spec import TaskSpec
from figeval.training.crew import Crew
from figeval.types import Example

NAME = "(in training)"


@dataclass(frozen=True, slots=True)
class DevScores:
    """Metric → score of a backend on some examples of a task; the processes share the examples."""

    task: TaskSpec
    examples: Sequence[Example]
    harness: Harness

    def __call__(self, backend: Any, crew: Crew) -> dict[str, float | None]:
        """Computed in every process from all rows."""
        task = self.task.model_copy(update={"examples": lambda: iter(self.examples), "baselines": ()})
        config = RunConfig(tasks=(task.name,), model=NAME, baselines=False)
        model = Model(NAME, NAME, backend)
        route = route_of(task, model, self.harness, config)
        plan = next(iter(Planner(config, self.harness, model).plans(task, route)))
        measures = Measures(plan.metrics, task.labels)
        interview = Interview(plan, Respondent(model), route, plan.context, measures)
        places = {example.id: place for place, example in enumerate(self.examples)}
        rows = crew.pooled(list(interview.rows(self.examples[crew.process :: crew.processes])))
        rows.sort(key=lambda row: places[row["id"]])  # as one process has them
        if measures.collective:
            rows = measures.related(rows, plan.settings)
        card = measures.scorecard(strict=task.group is not None)
        for row in rows:
            card.add(row)
        return {score.metric: score.value for score in card.scores(seed=0)}
