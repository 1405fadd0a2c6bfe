"""`figeval.power`, and the `Power` that it returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from figeval import frontend
from figeval.api.frames import data_frame
from figeval.api.runs import Folders, Task, paths_in, task_names
from figeval.errors import OptionError
from figeval.io.validation import checked_arguments
from figeval.metrics.caveats import ALPHA
from figeval.reporting.grid import Grid, page, plain
from figeval.reporting.table import effective
from figeval.runs.harness import Guests, Harness
from figeval.wings.comparison.power import ComparisonPlan, planned

if TYPE_CHECKING:
    import pandas

HEAD = ("task", "n", "clusters", "design effect", "detectable")
ACC = "acc"
MOST = 1_000_000  # planned comparisons
COLUMNS = {
    "task": "string",
    "n": "Int64",
    "clusters": "Int64",
    "effective_clusters": "float64",
    "disagreement": "float64",
    "correlation": "float64",
    "effect": "float64",
    "difference": "float64",
    "power": "float64",
}


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
    if not 1 <= comparisons <= MOST:
        raise OptionError(f"comparisons: give a whole number from 1 to {MOST:,}")
    names, made = task_names(tasks)
    plans, inaccurate = {}, []
    with frontend.python_program(watched=False):
        harness = Harness(include=paths_in(include_path), guests=Guests(made))
        for task in harness.catalogue.expand(names):
            clusters = Counter(
                (example.cluster, "") if example.cluster is not None else (example.id, "alone")
                for example in harness.examples(task)
                if not example.hidden
            )
            if clusters:
                plans[task.name] = planned([*clusters.values()], disagreement, correlation, power, ALPHA / comparisons)
                inaccurate += [task.name] * (ACC not in task.metrics)
    return Power(plans, disagreement, power, comparisons, tuple(inaccurate))


@dataclass(frozen=True, slots=True)
class Power:
    """Smallest differences in accuracy that comparisons on some tasks would find, as `figeval.power` returns them.

    A notebook shows it as the table that `figeval power` prints; `print` prints the same as text.

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

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per task; `difference` is missing if the comparison can find none.

        Columns: `task`, `n`, `clusters`, `effective_clusters`, `disagreement`, `correlation`, `effect` (the design
        effect), `difference`, `power`.

        Raises:
            FigevalError: pandas is not installed.
        """
        return data_frame(self.to_dict(), COLUMNS)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the numbers as `figeval power --json` prints them."""
        return [{"task": name, **asdict(plan)} for name, plan in self.plans.items()]

    @property
    def grids(self) -> list[Grid]:
        """The table that the command line prints."""
        rows = [
            (
                name,
                f"{plan.n:,}",
                f"{plan.clusters:,}{effective(plan.clusters, plan.effective_clusters)}",
                f"{plan.effect:.2f}",
                "none" if plan.difference is None else f"{plan.difference:.4f}",
            )
            for name, plan in self.plans.items()
        ]
        return [Grid(HEAD, rows, right=HEAD[1:])]

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

    def __str__(self) -> str:
        return plain(self.grids, self.notes())

    def __repr__(self) -> str:
        return f"<figeval.Power of comparisons on {', '.join(self.plans)}>"

    def _repr_html_(self) -> str:
        return page(self.grids, self.notes())
