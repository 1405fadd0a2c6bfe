"""The charts of a report."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import Any

import pytest

from figeval.wings.report.html import charts

COLOURS = {"first": "#111111", "second": "#222222", "third": "#333333"}

drawn = pytest.mark.skipif(not charts.available(), reason="needs the extra analysis")


def drawing(picture: charts.Picture | None) -> str:
    assert picture is not None
    return base64.b64decode(picture.address.partition("base64,")[2]).decode("utf-8")


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def row(task: str, run: str) -> dict[str, Any]:
    return {"task": task, "run": run, "value": 0.5, "low": 0.4, "high": 0.6, "floor": 0.2}


def calibration_of(label: str, single: str) -> dict[str, Any]:
    bins = [{"confidence": 0.5, "accuracy": 0.25, "n": 8}, {"confidence": 0.75, "accuracy": 0.5, "n": 8}]
    return {"label": label, "single": single, "bins": bins, "selective": [(0.5, 0.5), (1.0, 0.25)]}


def positions(label: str, chosen: Iterable[int]) -> dict[str, Any]:
    return {
        "label": label,
        "positions": [
            {"position": position + 1, "chosen": n, "right": 5, "n": 10} for position, n in enumerate(chosen)
        ],
    }


@drawn
@pytest.mark.slow
def test_a_legend_names_only_runs_with_points() -> None:
    pictures = [
        charts.scores([row("fables", "first"), row("pairs", "third")], COLOURS),
        *charts.calibration("fables", [calibration_of("first", "one"), calibration_of("third", "two")], COLOURS),
        charts.positions("fables", [positions("first", (4, 6)), positions("third", (5, 5))], COLOURS),
    ]
    for picture in pictures:
        shown = texts(drawing(picture))
        assert {"first", "third"} <= set(shown)
        assert "second" not in shown


@drawn
def test_seeds_are_lines_of_one_colour() -> None:
    reliability, _ = charts.calibration(
        "fables", [calibration_of("first", "one"), calibration_of("first", "two")], COLOURS
    )
    svg = drawing(reliability)
    lines = r'<path aria-label="[^"]*single: (\w+)"[^>]*"line mark"[^>]* stroke="#111111"'
    assert re.findall(lines, svg) == ["one", "two"]
    assert texts(svg).count("first") == 1


@drawn
def test_the_answers_of_all_seeds_are_counted_together() -> None:
    svg = drawing(charts.positions("fables", [positions("first", (2, 8)), positions("first", (4, 6))], COLOURS))
    shares = re.findall(r'aria-label="[^"]*share of answers: ([^;"]*); [^"]*who: first', svg)
    assert [float(share.rstrip("%")) for share in shares] == [30, 70]


@drawn
def test_there_is_room_for_wider_fonts() -> None:
    """Browsers without the font of the layout draw the labels about a fifth wider."""
    name = "impli_metaphors_silver_ent_of_a_long_name: acc"
    svg = drawing(charts.scores([row(name, "first")], COLOURS))
    assert name in texts(svg)
    (left,) = re.findall(r'<g[^>]*transform="translate\(([\d.]+),[\d.]+\)"', svg)[:1]
    assert float(left) > 1.2 * 6 * len(name)


@drawn
def test_long_names_are_not_cut() -> None:
    name = "a-model-whose-name-has-its-path on the task, augmented with concepts, 3 seeds"
    picture = charts.scores([row("fables", name)], {name: "#111111"})
    assert name in texts(drawing(picture))
    assert picture is not None
    assert picture.width > 6 * len(name)
