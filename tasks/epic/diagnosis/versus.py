"""Comparison of two models, proverb by proverb: the heat map of the paper's Figure 5, and their agreement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ..correlation import correlation
from .accuracy import number_right
from .answers import AnsweredRun, ProverbAnswer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

READING = (
    "Our interpretation of Figure 5: cell (i, j) counts the proverbs with i correct answers by A and j by B. "
    "Where candidates tie, a proverb is spread over cells by probability."
)


@dataclass(frozen=True, slots=True)
class Versus:
    """Comparison of two runs on the `n` narratives that both answered.

    Attributes:
        a, b: names of the models.
        n: number of narratives.
        proverbs: number of proverbs.
        cells: the heat map, shape (k + 1, k + 1), A first.
        both, only_a, only_b, neither: expected numbers of narratives that these models have right.
        same: share of narratives with the same answer, or None if the stored rows do not say.
        r: Pearson's correlation of the accuracies over proverbs.
        interval: 95 % interval of `r`, or None if a model has seen some of the narratives.
    """

    a: str
    b: str
    n: int
    proverbs: int
    cells: Floats
    both: float
    only_a: float
    only_b: float
    neither: float
    same: float | None
    r: float | None
    interval: tuple[float, float] | None


def compare_runs(a: AnsweredRun, b: AnsweredRun) -> Versus:
    """Compare two runs."""
    common = [(a.answers[key], b.answers[key]) for key in a.answers if key in b.answers]
    groups: dict[str, list[tuple[ProverbAnswer, ProverbAnswer]]] = {}
    for pair in common:
        groups.setdefault(pair[0].gold, []).append(pair)
    accuracies = [
        [sum(pair[side].right for pair in pairs) / len(pairs) for pairs in groups.values()] for side in (0, 1)
    ]
    r, interval = correlation(*accuracies)
    if a.seen or b.seen:  # seen narratives say nothing about new ones
        interval = None
    both = sum(answer_a.right * answer_b.right for answer_a, answer_b in common)
    right_a, right_b = (sum(pair[side].right for pair in common) for side in (0, 1))
    return Versus(
        a=a.model,
        b=b.model,
        n=len(common),
        proverbs=len(groups),
        cells=heat_map(list(groups.values())),
        both=both,
        only_a=right_a - both,
        only_b=right_b - both,
        neither=len(common) - right_a - right_b + both,
        same=same_answer(common),
        r=r,
        interval=interval,
    )


def heat_map(groups: Sequence[Sequence[tuple[ProverbAnswer, ProverbAnswer]]]) -> Floats:
    """Return the expected number of proverbs with i narratives right by A and j by B, shape (k + 1, k + 1)."""
    import numpy as np

    max_right = max(map(len, groups), default=0)
    cells = np.zeros((max_right + 1, max_right + 1))
    for pairs in groups:
        rows, columns = (number_right([pair[side].right for pair in pairs]) for side in (0, 1))
        cells[: len(rows), : len(columns)] += np.outer(rows, columns)
    return cells


def same_answer(common: Sequence[tuple[ProverbAnswer, ProverbAnswer]]) -> float | None:
    """Return the share of narratives for which both take the same proverb; ties are drawn independently."""
    shares = [
        sum(share * answer_b.picks.get(proverb, 0.0) for proverb, share in answer_a.picks.items())
        for answer_a, answer_b in common
        if answer_a.picks is not None and answer_b.picks is not None
    ]
    return sum(shares) / len(shares) if shares else None


def chart(comparison: Versus) -> Any:
    """Plot the heat map; its title says how many proverbs neither model gets right."""
    import altair as alt

    from figeval.io.plots import INK, style_chart

    k = len(comparison.cells) - 1
    data = alt.Data(
        values=[
            {"a": i, "b": j, "n": float(n), "label": f"{n:.0f}" if n >= 0.5 else ""}
            for i, row in enumerate(comparison.cells)
            for j, n in enumerate(row)
        ]
    )
    axis = alt.Axis(labelAngle=0, grid=False, ticks=False, domain=False, labelPadding=6)
    base = alt.Chart(data).encode(
        x=alt.X("b:O", title=f"Narratives right by B = {comparison.b} (of {k} per proverb)", axis=axis),
        y=alt.Y(
            "a:O", title=f"Narratives right by A = {comparison.a} (of {k} per proverb)", sort="descending", axis=axis
        ),
    )
    scale = alt.Scale(type="sqrt", range=["#F4F7FB", "#08519C"], domainMin=0)
    blocks = base.mark_rect(stroke="white").encode(
        color=alt.Color("n:Q", title="Proverbs", scale=scale),
        tooltip=[
            alt.Tooltip("a:O", title="right by A"),
            alt.Tooltip("b:O", title="right by B"),
            alt.Tooltip("n:Q", title="proverbs", format=".1f"),
        ],
    )
    dark = float(comparison.cells.max()) * 0.3
    colour = alt.condition(f"datum.n > {dark}", alt.value("white"), alt.value(INK))
    numbers = base.mark_text(fontSize=12).encode(text="label:N", color=colour)
    none = float(comparison.cells[0, 0])
    title = f"Neither model gets a narrative right for {none:.0f} of {comparison.proverbs} proverbs"
    subtitle = ["Number of proverbs by how many of their narratives each model gets right"]
    if comparison.r is not None and comparison.interval is not None:
        low, high = comparison.interval
        subtitle.append(
            f"Correlation of accuracies over proverbs: r = {comparison.r:.2f} (95 % {low:.2f} to {high:.2f})"
        )
    side = 44 * (k + 1) if k > 5 else 62 * (k + 1)
    return style_chart((blocks + numbers).properties(width=side, height=side), title, subtitle)
