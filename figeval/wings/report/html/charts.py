"""The charts of a report, drawn as SVG when the page is written, so that the page needs no library.

The same charts can be written as SVG and PDF files for a paper.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from figeval import JSON
from figeval.io.plots import BLUE, GREEN, GREY, ORANGE, PADDING, style_chart
from figeval.records.training import TrainingRecord

COLOURS = (BLUE, ORANGE, GREEN, "#AA5591", "#8A6D00", "#4A6FD0")  # of the runs, as in page.css
GOLD, GOLD_LABEL = "#B8BEC4", "right answer"
LETTER, SPREAD = 6.4, 0.25  # pixels of a letter in labels, and how much wider the fonts of other machines may be
SIZE = re.compile(r'<svg[^>]*? width="([\d.]+)" height="([\d.]+)"')


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG as a data address, with its size in pixels and a description for those who do not see it.

    `spec` is its Vega-Lite specification.
    """

    name: str
    description: str
    address: str
    width: int
    height: int
    spec: JSON = field(repr=False)


def files(pictures: Iterable[Picture]) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the files of charts, `<name>.svg` and `<name>.pdf`, on white."""
    import vl_convert

    names: Counter[str] = Counter()
    for picture in pictures:
        names[picture.name] += 1
        name = f"{picture.name}-{names[picture.name]}" if names[picture.name] > 1 else picture.name
        spec = {**picture.spec, "config": {**picture.spec["config"], "background": "white"}}
        yield f"{name}.svg", vl_convert.vegalite_to_svg(spec).encode()
        yield f"{name}.pdf", vl_convert.vegalite_to_pdf(spec)


def scores(rows: Sequence[JSON], colours: Mapping[str, str]) -> Picture | None:
    """Return the forest plot of tasks and contrasts by one metric each: values, intervals and the best baseline.

    Args:
        rows: `task`, `run` (its label), `value`, `low`, `high` and `floor`.
        colours: colour of each run by its label, in the order of the runs.
    """
    import altair as alt

    if not rows:
        return None
    data = alt.Data(values=list(rows))
    # Lists of names keep the order of the runs and tasks.
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    shown = _select_colours(colours, (row["run"] for row in rows))
    base = alt.Chart(data).encode(
        y=alt.Y("task:N", sort=tasks, title=None, axis=alt.Axis(labelLimit=320)),
        yOffset=alt.YOffset("run:N", sort=list(shown)),
        color=_by_run(shown),
    )
    limits = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q")
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=alt.X("value:Q", title="score with 95 % interval; ticks: best baseline", scale=alt.Scale(zero=True))
    )
    floors = (
        alt.Chart(data).mark_tick(thickness=2, color=GREY, size=14).encode(x="floor:Q", y=alt.Y("task:N", sort=tasks))
    )
    height = max(60, len(tasks) * (14 + 12 * len(shown)))
    chart = alt.layer(limits, floors, points).properties(width=520, height=height)
    description = f"Scores of {', '.join(shown)} on {len(tasks)} tasks"
    return _picture(chart, "Scores by task", description, left=tasks, right=shown)


def calibration(task: str, entries: Sequence[JSON], colours: Mapping[str, str]) -> Iterable[Picture]:
    """Yield the reliability diagram of a task, and its accuracy by coverage; seeds are lines of one colour.

    Args:
        task: name of the task.
        entries: calibration with `label`, by which lines are coloured, and `single`, the label of the run.
        colours: see `scores`.
    """
    import altair as alt

    shown = _select_colours(colours, (series["label"] for series in entries))
    bins = [
        {"run": series["label"], "single": series["single"], **each, **_ends(each["limits"])}
        for series in entries
        for each in series["bins"]
    ]
    unit = alt.Scale(domain=[0, 1], nice=False)
    diagonal = alt.Chart(alt.Data(values=[{"x": 0, "y": 0}, {"x": 1, "y": 1}])).mark_line(color=GREY, strokeDash=[4, 3])
    points = alt.Chart(alt.Data(values=bins)).encode(
        x=alt.X("confidence:Q", scale=unit, title="confidence"),
        y=alt.Y("accuracy:Q", scale=unit, title="accuracy"),
        color=_by_run(shown),
        detail="single:N",
    )
    sized = points.mark_circle(opacity=0.85).encode(size=alt.Size("n:Q", title="answers", legend=None))
    limits = points.mark_rule(strokeWidth=1.5, opacity=0.6).encode(y=alt.Y("low:Q"), y2="high:Q")
    lines = points.mark_line(strokeWidth=1.5)
    chart = alt.layer(diagonal.encode(x="x:Q", y="y:Q"), limits, lines, sized)
    yield _picture(
        chart.properties(width=260, height=260),
        "Reliability",
        f"Reliability diagram of {task}",
        task,
        right=shown,
    )

    curve = [
        {"run": series["label"], "single": series["single"], "coverage": share, "accuracy": accuracy}
        for series in entries
        for share, accuracy in series["selective"]
    ]
    lines = (
        alt.Chart(alt.Data(values=curve))
        .mark_line(point=True)
        .encode(
            x=alt.X("coverage:Q", scale=unit, title="share of examples, most confident first"),
            y=alt.Y("accuracy:Q", scale=unit, title="accuracy"),
            color=_by_run(shown),
            detail="single:N",
        )
    )
    chart = lines.properties(width=260, height=260)
    description = f"Accuracy of {task} by share of answered examples"
    yield _picture(chart, "Selective accuracy", description, task, right=shown)


def positions(task: str, entries: Sequence[JSON], colours: Mapping[str, str]) -> Picture:
    """Return the chart of chosen and right positions of a task; the answers of all seeds are counted together.

    Args:
        task: name of the task.
        entries: positions with `label`, by which they are counted together.
        colours: see `scores`.
    """
    import altair as alt

    counts: dict[tuple[str, int], Counter[str]] = {}
    for series in entries:
        for row in series["positions"]:
            numbers = {key: row[key] for key in ("chosen", "right", "n")}
            counts.setdefault((series["label"], row["position"]), Counter()).update(numbers)
    rows = [
        {"position": position, "who": label, "share": numbers["chosen"] / numbers["n"]}
        for (label, position), numbers in counts.items()
    ]
    first = entries[0]["label"]
    rows += [
        {"position": position, "who": GOLD_LABEL, "share": numbers["right"] / numbers["n"]}
        for (label, position), numbers in counts.items()
        if label == first
    ]
    shown = {**_select_colours(colours, (series["label"] for series in entries)), GOLD_LABEL: GOLD}
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("position:O", title="position of the option", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("who:N", sort=list(shown)),
            y=alt.Y("share:Q", title="share of answers", axis=alt.Axis(format="%")),
            color=_by_run(shown, "who:N"),
        )
        .properties(width=alt.Step(max(8, 40 // len(shown))), height=200)
    )
    description = f"Positions of the options chosen in {task}"
    return _picture(chart, "Chosen positions", description, task, right=shown)


def learning(record: TrainingRecord) -> Picture | None:
    """Return the chart of the dev scores of a training by step."""
    import altair as alt

    rows = [
        {"step": point.step, "metric": name, "score": value}
        for point in record.scored_steps()
        for name, value in point.scores.items()
        if value is not None and isfinite(value)
    ]
    if not rows:
        return None
    name = f"{record.config.model}, seed {record.config.seed}"
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("step:Q", title="step"),
            y=alt.Y("score:Q", title="score on dev", scale=alt.Scale(zero=False)),
            color=alt.Color("metric:N", scale=alt.Scale(range=list(COLOURS)), legend=_legend()),
        )
        .properties(width=360, height=220)
    )
    return _picture(chart, "Scores on dev", f"Scores on dev of {name} by step", name)


def _ends(limits: Sequence[float] | None) -> JSON:
    return dict(zip(("low", "high"), limits or (None, None), strict=True))


def _select_colours(colours: Mapping[str, str], labels: Iterable[str]) -> dict[str, str]:
    """Return the colours of the runs that a chart shows, so that its legend names no others."""
    shown = set(labels)
    return {label: colour for label, colour in colours.items() if label in shown}


def _by_run(colours: Mapping[str, str], field: str = "run:N") -> Any:
    """Return the colours of the runs, the same in all charts."""
    import altair as alt

    names = list(colours)
    scale = alt.Scale(domain=names, range=list(colours.values()))
    return alt.Color(field, sort=names, scale=scale, legend=_legend())


def _legend() -> Any:
    """Return a legend above the chart, where long names neither make it wide nor are cut."""
    import altair as alt

    return alt.Legend(orient="top", direction="vertical", labelLimit=0, title=None)


def _picture(
    chart: Any,
    title: str,
    description: str,
    subtitle: str = "",
    *,
    left: Iterable[str] = (),
    right: Iterable[str] = (),
) -> Picture:
    """Return a chart as SVG on a transparent background, so that it fits light and dark pages.

    `left` and `right` are the labels that end at these sides. The chart is laid out with the fonts of this machine;
    where those of the reader's machine are wider, there is room for them.
    """
    import vl_convert

    spec = style_chart(chart, title, [subtitle] if subtitle else []).to_dict()
    sides = {"left": left, "right": (*right, subtitle, title)}
    room = {side: SPREAD * LETTER * max(map(len, labels), default=0) for side, labels in sides.items()}
    spec["padding"] = dict.fromkeys(("left", "right", "top", "bottom"), PADDING)
    for side, pixels in room.items():
        spec["padding"][side] += round(pixels)
    spec["config"]["background"] = "transparent"
    svg = vl_convert.vegalite_to_svg(spec)
    match = SIZE.search(svg)
    width, height = (round(float(size)) for size in match.groups()) if match else (600, 300)
    address = f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
    file = re.sub(r"[^\w.-]+", "-", f"{title.lower()} {subtitle}").strip("-")
    return Picture(file, description, address, width, height, spec)
