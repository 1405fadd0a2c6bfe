"""`figeval.power`: which difference between two models a task can show, before any model is run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np

from figeval import JSON, Column, Harness, OptionError, Result, Table
from figeval.api.runs import Task, paths_in, task_names
from figeval.config import Folders
from figeval.io import frontend
from figeval.io.validation import checked_arguments
from figeval.metrics.differences import ALPHA, larger_variance
from figeval.metrics.intervals import CELLS, spread_of
from figeval.reporting.table import effective
from figeval.wings.comparison.detectable import (
    POWER,
    SIMULATIONS,
    flip_factor,
    reachable_level,
    smallest_difference,
)

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
        harness = Harness(include=paths_in(include_path), tasks=specs)
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


# ---- the statistics --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonPlan:
    """Precision of a comparison of two models on a data set that has not been run yet.

    Attributes:
        n: number of examples.
        clusters: number of clusters.
        effective_clusters: N² / Σ n_c².
        disagreement: assumed share of examples that only one of the models gets right.
        correlation: assumed intraclass correlation of the differences.
        effect: design effect (Kish 1965), 1 + (Σ n_c² / N − 1) ρ.
        difference: smallest difference in accuracy that is found with probability `power`; None if not even one as
            large as the disagreement is found.
        power: that probability.
    """

    n: int
    clusters: int
    effective_clusters: float
    disagreement: float
    correlation: float
    effect: float
    difference: float | None
    power: float = POWER


def plan_comparison(
    sizes: list[int], disagreement: float, correlation: float, power: float = POWER, level: float = ALPHA
) -> ComparisonPlan:
    """Return the smallest difference in accuracy that a paired comparison on these clusters would find.

    It is that of the exact McNemar test on N / effect examples, where effect is the design effect, with d the share of
    examples that only one model gets right (Connor 1987, without approximation). In clusters, this approximates the
    sign flip; that of a sign flip of the clusters' sums with the variance d − δ² of a paired difference δ (Miettinen
    1968), times effect / N, is computed, too, and for clusters of unequal size that of the t test, which must find the
    difference as well. The larger one counts.

    Args:
        sizes: number of examples of each cluster.
        disagreement: d.
        correlation: intraclass correlation of the differences ρ; 0 for independent examples.
        power: probability of finding the difference.
        level: level of the two-sided test.
    """
    n, squared = sum(sizes), sum(size**2 for size in sizes)
    effect = 1 + (squared / n - 1) * correlation
    difference = smallest_difference(int(n / effect), disagreement, power, level)
    if difference is not None and len(sizes) < n:
        is_reachable = reachable_level(len(sizes), level) > 0
        # δ² = q² (d − δ²) effect / n, solved for δ
        factor = flip_factor(max(1.0, n**2 / squared - 1), len(sizes), power, level) if is_reachable else 0.0
        if is_reachable and len(set(sizes)) > 1:
            factor = max(factor, _t_factor(tuple(sizes), correlation, power, level))
        share = factor**2 * effect / n
        difference = max(difference, math.sqrt(share * disagreement / (1 + share)) + 1 / n) if is_reachable else None
    return ComparisonPlan(
        n=n,
        clusters=len(sizes),
        effective_clusters=n**2 / squared,
        disagreement=disagreement,
        correlation=correlation,
        effect=effect,
        difference=difference if difference is not None and difference < disagreement else None,
        power=power,
    )


@lru_cache(maxsize=32)
def _t_factor(sizes: tuple[int, ...], correlation: float, power: float, level: float) -> float:
    """Return the smallest true difference that the t test of `compare_paired` finds, in true standard errors.

    Normal differences with this intraclass correlation are drawn for clusters of these sizes. A difference is found in
    those draws in which it is larger than the margin of their interval minus their mean.
    """
    from scipy.special import stdtrit

    counts, generator = np.array(sizes, dtype=np.float64), np.random.default_rng(0)
    n, groups = counts.sum(), len(sizes)
    draws = max(200, min(SIMULATIONS, CELLS // groups))
    means = math.sqrt(correlation) * generator.normal(size=(draws, groups))
    means += np.sqrt((1 - correlation) / counts) * generator.normal(size=(draws, groups))
    within = (1 - correlation) * generator.chisquare(max(1.0, n - groups), size=draws)
    sums = means * counts
    margins = stdtrit(spread_of(sums[0], counts).freedom, 1 - level / 2) * np.sqrt(
        larger_variance(sums, counts, within)
    )
    stderr = math.sqrt(correlation * float(counts @ counts) + (1 - correlation) * n) / n
    return float(np.quantile(margins - sums.sum(axis=1) / n, power) / stderr)
