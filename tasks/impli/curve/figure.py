"""Figure of learning curves with their intervals: one panel per part, one line per regime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from figeval.io.plots import BLUE, GREEN, INK, ORANGE, style_chart

from .results import CurveNumber, regimes_of

WIDTH, HEIGHT = 300, 220
COLOURS = {"both": BLUE, "entailment": ORANGE, "non-entailment": GREEN, "none": INK}
TITLES = {
    "all": "Accuracy, all pairs",
    "entailment": "Accuracy, entailing pairs",
    "non-entailment": "Accuracy, other pairs",
    "auc": "Discrimination (area under the ROC curve)",
}


def curves(numbers: Sequence[CurveNumber], model: str) -> Any:
    """Plot the curves; bands are 95 % intervals, if there are any, and the dashed line is chance."""
    import altair as alt

    panels = []
    regimes = regimes_of(numbers)
    for part, title in TITLES.items():
        values = [
            {
                "folds": number.folds,
                "value": number.value,
                "low": number.low,
                "high": number.high,
                "regime": regime,
                "n": number.learned,
            }
            for regime, regime_numbers in regimes.items()
            for number in regime_numbers
            if number.part == part and number.value is not None
        ]
        base = alt.Chart(alt.Data(values=values)).encode(
            x=alt.X("folds:Q", title="Folds of other idioms trained on", axis=alt.Axis(tickMinStep=1, format="d")),
            color=alt.Color(
                "regime:N",
                scale=alt.Scale(domain=list(regimes), range=[COLOURS[regime] for regime in regimes]),
                legend=alt.Legend(title="learned from", orient="top", symbolOpacity=1),
            ),
        )
        y = alt.Y("value:Q", title=None, scale=alt.Scale(domain=[0, 1]))
        tooltip = [
            alt.Tooltip("regime:N"),
            alt.Tooltip("folds:Q"),
            alt.Tooltip("n:Q", title="pairs trained on", format=".0f"),
            alt.Tooltip("value:Q", format=".3f"),
            alt.Tooltip("low:Q", format=".3f"),
            alt.Tooltip("high:Q", format=".3f"),
        ]
        band = (
            base.transform_filter("datum.low != null")
            .mark_area(opacity=0.12)
            .encode(y=alt.Y("low:Q", title=None, scale=alt.Scale(domain=[0, 1])), y2="high:Q")
        )
        line = base.mark_line(strokeWidth=2).encode(y=y)
        points = base.mark_circle(size=50).encode(y=y, tooltip=tooltip)
        layers = [band, line, points]
        if part == "auc":
            layers.insert(0, alt.Chart(alt.Data(values=[{"y": 0.5}])).mark_rule(strokeDash=[4, 4]).encode(y="y:Q"))
        panels.append(
            alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, title=alt.TitleParams(title, color=INK))
        )
    return style_chart(
        alt.concat(*panels, columns=2),
        "What is learned about an idiom from other idioms",
        subtitle_lines(numbers, model),
    )


def subtitle_lines(numbers: Sequence[CurveNumber], model: str) -> list[str]:
    """Return the lines below the title, which describe the trainings behind a point and the bands."""
    seeds, trainings = max(number.seeds for number in numbers), max(number.trainings for number in numbers)
    held_out = trainings // seeds
    first_line = f"{model}; {held_out} held-out fold{'s' * (held_out > 1)}, {seeds} seed{'s' * (seeds > 1)}"
    if seeds == 1:
        return [first_line, "bands: 95 % intervals over idioms; they do not include the variation between trainings"]
    if seeds == 2:
        return [first_line, "no bands: intervals need three seeds"]
    return [first_line, "bands: 95 % intervals over idioms and seeds"]
