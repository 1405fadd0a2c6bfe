"""Scores of a network in training: routes, metrics and all else are those of `figeval run`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from figeval.config import RunConfig
from figeval.evaluation.evaluate import CachedModel, TaskEvaluator
from figeval.evaluation.harness import Harness
from figeval.evaluation.plan import Planner, route_of
from figeval.evaluation.score import Aggregator, MetricSet
from figeval.models.model import Model
from figeval.spec import TaskSpec
from figeval.training.distributed import Distributed
from figeval.types import Example

NAME = "(in training)"


@dataclass(frozen=True, slots=True)
class DevScores:
    """Metric → score of a backend on some examples of a task; the processes share the examples."""

    task: TaskSpec
    examples: Sequence[Example]
    harness: Harness

    def __call__(self, backend: object, distributed: Distributed) -> dict[str, float | None]:
        """Computed in every process from all rows."""
        task = self.task.model_copy(update={"examples": lambda: iter(self.examples), "baselines": ()})
        config = RunConfig(tasks=(task.name,), model=NAME, baselines=False)
        model = Model(NAME, NAME, backend)
        route = route_of(task, model, self.harness, config)
        plan = next(iter(Planner(config, self.harness, model).plans(task, route)))
        metrics = MetricSet(plan.metrics, task.labels)
        evaluator = TaskEvaluator(plan, CachedModel(model), route, plan.context, metrics)
        places = {example.id: place for place, example in enumerate(self.examples)}
        rows = distributed.gather(list(evaluator.rows(self.examples[distributed.process :: distributed.processes])))
        rows.sort(key=lambda row: places[row["id"]])  # as one process has them
        if metrics.collective:
            rows = metrics.related(rows, plan.settings)
        total = Aggregator(metrics, strict=task.group is not None)
        for row in rows:
            total.add(row)
        return {score.metric: score.value for score in total.scores(seed=0)}
