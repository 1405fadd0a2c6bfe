"""The tables of seeds and of a grid."""

from __future__ import annotations

from io import StringIO
from typing import Any

from rich.console import Console

from figeval import Interval
from figeval.records.schema import CHOSEN_ON_TEST
from figeval.records.sweep import GridPoint, GridRecord, SeedScore, SeedsRecord
from figeval.reporting.training import show_grid, show_seeds

TWO_SEEDS: dict[str, Any] = {"task": "t", "n": 60, "values": {"0": 0.25, "1": 0.5}, "mean": 0.375, "sd": 0.1768}


def console() -> Console:
    return Console(width=200, file=StringIO(), record=True)


def test_seeds() -> None:
    three_seeds = SeedScore(
        metric="acc", low=0.1, high=0.65, interval=Interval("t over seeds and examples"), **TWO_SEEDS
    )
    chosen = SeedScore(metric="mrr", low=None, high=None, interval=Interval(reason=CHOSEN_ON_TEST), **TWO_SEEDS)
    record = SeedsRecord(
        task="t",
        model="m",
        seeds=[0, 1],
        wanted=[0, 1],
        runs={},
        scores=[three_seeds, chosen],
        warnings=["t: beware"],
    )
    screen = console()
    show_seeds(record, screen)
    lines = [line.split() for line in screen.export_text().splitlines()]
    assert lines[0] == ["m", "on", "t,", "2", "seeds"]
    assert lines[2] == ["t", "acc", "0.3750", "0.1768", "0.100", "to", "0.650", "2", "60", "0.2500", "0.5000"]
    assert lines[3] == ["t", "mrr", "0.3750†", "0.1768", "–", "2", "60", "0.2500", "0.5000"]
    assert lines[4][:5] == ["†", "the", "model", "was", "chosen"]
    assert lines[5] == ["t:", "beware"]


def test_why_there_is_no_interval_over_seeds_is_told() -> None:
    two = SeedScore(metric="acc", low=None, high=None, interval=Interval(reason="fewer than three seeds"), **TWO_SEEDS)
    screen = console()
    show_seeds(SeedsRecord(task="t", model="m", seeds=[0, 1], wanted=[0, 1], runs={}, scores=[two]), screen)
    assert screen.export_text().splitlines()[-1] == "  t: no interval of acc: fewer than three seeds"


def test_a_grid() -> None:
    best = GridPoint(folder="grid-lr-1", values={"lr": "1"}, scores={"acc": 0.5, "mrr": None}, step=8)
    broken = GridPoint(folder="grid-lr-9", values={"lr": "9"}, error="the loss of step 3 is nan")
    shared = {"task": "t", "model": "m", "dev": "6 of 60", "metrics": ["acc", "mrr"], "best": "grid-lr-1"}
    screen = console()
    show_grid(GridRecord(points=[best, broken], **shared), screen)
    lines = [line.split() for line in screen.export_text().splitlines()]
    assert lines[1:4] == [["lr", "acc", "mrr", "step"], ["1", "0.5000", "–", "8", "best"], ["9", "–", "–", "–"]]
    assert lines[4] == ["compared", "on", "dev:", "6", "of", "60"]
    assert lines[5] == ["grid-lr-9:", "the", "loss", "of", "step", "3", "is", "nan"]
