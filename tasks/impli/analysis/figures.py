"""Figures of flexibility against accuracy, and of the distances of right and wrong answers (the paper's 4 to 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from figeval.io.plots import BLUE, INK, ORANGE, style_chart

from .answers import PairAnswer, each_once
from .flexibility import IdiomCount, RankCorrelation
from .matching import histogram

WIDTH, HEIGHT = 300, 240
BIN = 5  # characters
MAX_DISTANCE = 120  # characters of distance that are drawn; longer distances are in the last bin


def flexibility(
    counts: Mapping[str, IdiomCount],
    accuracies: Mapping[str, Mapping[str, float]],
    correlations: Sequence[RankCorrelation],
    model: str,
) -> Any:
    """Plot a panel for each column and a point for each idiom, sized by its number of occurrences."""
    import altair as alt

    panels = []
    for correlation in correlations:
        values = [
            {"idiom": name, "x": counts[name].flexibility, "y": value, "n": counts[name].occurrences}
            for name, value in accuracies[correlation.column].items()
            if name in counts
        ]
        summary = (
            correlation.why
            if correlation.p is None
            else f"r = {correlation.r:.2f}, p = {correlation.p:.2g}, {correlation.n} idioms"
        )
        points = (
            alt.Chart(alt.Data(values=values))
            .mark_circle(color=BLUE, opacity=0.45)
            .encode(
                x=alt.X("x:Q", title="Occurrences not in the dictionary form", axis=alt.Axis(format="%")),
                y=alt.Y("y:Q", title="Accuracy", scale=alt.Scale(domain=[0, 1])),
                size=alt.Size("n:Q", title="Occurrences", scale=alt.Scale(range=[12, 240])),
                tooltip=[
                    alt.Tooltip("idiom:N"),
                    alt.Tooltip("n:Q", title="occurrences"),
                    alt.Tooltip("x:Q", title="flexibility", format=".2f"),
                    alt.Tooltip("y:Q", title="accuracy", format=".2f"),
                ],
            )
        )
        heading = alt.TitleParams(correlation.column.removeprefix("impli_"), subtitle=summary, color=INK)
        panels.append(points.properties(width=WIDTH, height=HEIGHT, title=heading))
    subtitle = [f"{model}; Spearman's rank correlation over idioms"]
    return style_chart(
        alt.concat(*panels, columns=3), "Is the model right less often about idioms that vary in form?", subtitle
    )


def distances(answers: Sequence[PairAnswer], model: str) -> Any:
    """Plot stacked histograms of right and wrong answers by distance, one panel per label and kind of pair."""
    import altair as alt

    panels = []
    for title, group in parts(answers).items():
        values = [
            {
                "low": min(edge, MAX_DISTANCE),
                "high": min(edge, MAX_DISTANCE) + BIN,
                "n": n,
                "answer": "right" if is_right else "wrong",
            }
            for (_, is_right), bins in histogram(group, BIN).items()
            for edge, n in bins.items()
        ]
        bars = (
            alt.Chart(alt.Data(values=values))
            .mark_bar(binSpacing=0)
            .encode(
                x=alt.X(
                    "low:Q",
                    bin="binned",
                    title=f"Levenshtein distance (characters, {MAX_DISTANCE} and more in the last bar)",
                ),
                x2="high:Q",
                y=alt.Y("sum(n):Q", title="Pairs", stack=True),
                color=alt.Color(
                    "answer:N",
                    scale=alt.Scale(domain=["right", "wrong"], range=[BLUE, ORANGE]),
                    legend=alt.Legend(title=None, orient="top", symbolType="square"),
                ),
                tooltip=[
                    alt.Tooltip("low:Q", title="from"),
                    alt.Tooltip("answer:N"),
                    alt.Tooltip("sum(n):Q", format=".1f"),
                ],
            )
        )
        panels.append(bars.properties(width=WIDTH, height=HEIGHT, title=alt.TitleParams(title, color=INK)))
    subtitle = [f"{model}; bars of {BIN} characters"]
    return style_chart(
        alt.concat(*panels, columns=2), "Right and wrong answers by how far the sentences differ", subtitle
    )


def parts(answers: Sequence[PairAnswer]) -> dict[str, list[PairAnswer]]:
    """Return the answers by figure of speech and label, each pair once."""
    groups: dict[str, list[PairAnswer]] = {}
    for answer in each_once(answers):
        kind = "idioms" if answer.task.startswith("impli_idioms") else "metaphors"
        groups.setdefault(f"{kind if answer.task.startswith('impli_') else answer.task}: {answer.label}", []).append(
            answer
        )
    return groups
