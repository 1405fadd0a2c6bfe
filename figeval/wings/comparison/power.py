"""`figeval.power`: which difference between two models a task can show, before any model is run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from figeval import JSON, Column, Harness, OptionError, Result, Table
from figeval.api.runs import Task, read_task_files, task_names
from figeval.config import Folders
from figeval.io import frontend
from figeval.io.validation import checked_arguments, paths_in
from figeval.metrics.differences import ALPHA
from figeval.reporting.table import effective
from figeval.wings.comparison.detectable import ComparisonPlan, plan_comparison

ACC = "acc"
MAX_COMPARISONS = 1_000_000
COLUMNS: tuple[Column[JSON], ...] = (
    Column("task", head="task"),
    Column("n", "Int64", head="n", text="{:,}".format),
    Column("clusters", "Int64"),
    Column(
        value=lambda plan: f"{plan['clusters']:,}{effective(plan['clusters'], plan['effective_clusters'])}",
        head="clusters",
        align="right",
    ),
    Column("effective_clusters", "float64"),
    Column("disagreement", "float64"),
    Column("correlation", "float64"),
    Column("effect", "float64", head="design effect", text="{:.2f}".format),
    Column("difference", "float64", head="detectable", text=lambda value: "none" if value is None else f"{value:.4f}"),
    Column("power", "float64"),
)


@checked_arguments
def power(
    tasks: Task | Sequence[Task],
    *,
    disagreement: float = 0.2,
    correlation: float = 0.1,
    power: float = 0.8,
    comparisons: int = 1,
    include_path: Folders = (),
) -> Power:
    """Say which difference in accuracy between two models tasks can show, before any model is run.

    The numbers are for a paired comparison, as by `figeval.compare`. They need the data, but no model.

    Args:
        tasks: names of tasks and suites, and tasks made with `@figeval.task`, as for `figeval.run`.
        disagreement: share of examples that only one of the two models gets right.
        correlation: correlation of the differences within a cluster; it has no effect on tasks without clusters.
        power: probability of finding the difference.
        comparisons: number of planned comparisons; the level 0.05 is divided by it (Bonferroni).
        include_path: further folders with task files.

    Raises:
        OptionError: an argument has another type, or is out of range.
        FigevalError: an unknown name, or data that are not available.

    Example:
        ```python
        figeval.power("epic_mcq,impli", disagreement=0.3).to_frame()
        ```
    """
    if not 0 < disagreement <= 1:
        raise OptionError(f"disagreement={disagreement:g}: give a share above 0 and up to 1")
    if not 0 <= correlation <= 1:
        raise OptionError(f"correlation={correlation:g}: give a number from 0 to 1")
    if not 0 < power < 1:
        raise OptionError(f"power={power:g}: give a probability between 0 and 1")
    if not 1 <= comparisons <= MAX_COMPARISONS:
        raise OptionError(f"comparisons: give a whole number from 1 to {MAX_COMPARISONS:,}")
    names, specs = task_names(tasks)
    plans, inaccurate = {}, []
    with frontend.python_program(watched=False):
        names, files = read_task_files(names)
        harness = Harness(include=(*paths_in(include_path), *files), tasks=specs)
        for task in harness.catalogue.expand(names):
            clusters = Counter(
                (example.cluster, "") if example.cluster is not None else (example.id, "alone")
                for example in harness.examples(task)
                if not example.hidden
            )
            if clusters:
                plans[task.name] = plan_comparison(
                    [*clusters.values()], disagreement, correlation, power, ALPHA / comparisons
                )
                inaccurate += [task.name] * (ACC not in task.metrics)
    return Power(plans, disagreement, power, comparisons, tuple(inaccurate))


@dataclass(frozen=True, slots=True)
class Power(Result):
    """Smallest differences in accuracy that comparisons on some tasks would find, as `figeval.power` returns them.

    Attributes:
        plans: the precision of a comparison by task; tasks whose answers are hidden have none.
        disagreement: assumed share of examples that only one of the models gets right.
        power: probability of finding the difference.
        comparisons: number of planned comparisons.
        without_accuracy: tasks that do not report accuracy.
    """

    plans: Mapping[str, ComparisonPlan]
    disagreement: float
    power: float
    comparisons: int
    without_accuracy: tuple[str, ...] = ()

    @property
    def tables(self) -> list[Table[JSON]]:
        """One row per task; `difference` is missing if the comparison can find none.

        Columns: `task`, `n`, `clusters`, `effective_clusters`, `disagreement`, `correlation`, `effect` (the design
        effect), `difference`, `power`.
        """
        return [Table(COLUMNS, self.to_dict())]

    def to_dict(self) -> list[JSON]:
        """Return the numbers as `figeval power --json` prints them."""
        return [{"task": name, **asdict(plan)} for name, plan in self.plans.items()]

    def notes(self) -> Iterator[str]:
        """Yield what the numbers mean."""
        level = f"{ALPHA:g}" if self.comparisons == 1 else f"{ALPHA:g} / {self.comparisons}"
        yield (
            f"detectable: difference in accuracy that is found with probability {self.power:g} at level {level}, if "
            f"exactly one of the two models is right on {100 * self.disagreement:.3g}% of the examples"
        )
        if self.without_accuracy:
            yield (
                f"{', '.join(self.without_accuracy)}: without {ACC}; the plan holds for any other metric that is 0 or "
                "1 for each example"
            )
        if any(plan.difference is None for plan in self.plans.values()):
            yield "none: even the largest possible difference is found less often; add examples or clusters"

    def __repr__(self) -> str:
        return f"<figeval.Power of comparisons on {', '.join(self.plans)}>"
