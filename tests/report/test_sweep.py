"""The tables of seeds and of a grid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import Cli

ACC = {"task": "t", "metric": "acc", "n": 60, "values": {"0": 0.25, "1": 0.5}, "mean": 0.375, "sd": 0.1768}
WITHOUT_LIMITS = {"low": None, "high": None}


def shown_seeds(cli: Cli, *scores: dict[str, Any], **fields: Any) -> list[str]:
    """Return the lines that `figeval show` prints of two seeds with these scores."""
    seeds = {"task": "t", "model": "m", "seeds": [0, 1], "wanted": [0, 1], "runs": {}, "scores": scores, **fields}
    Path("seeds.json").write_text(json.dumps(seeds))
    return cli("show", "seeds.json").out.splitlines()


def test_seeds(cli: Cli) -> None:
    over_seeds = {**ACC, "low": 0.1, "high": 0.65, "interval": "t over seeds and examples"}
    chosen = {**ACC, **WITHOUT_LIMITS, "metric": "mrr", "interval": "none: chosen on test"}
    lines = [line.split() for line in shown_seeds(cli, over_seeds, chosen, warnings=["t: beware"])]
    assert lines[0] == ["m", "on", "t,", "2", "seeds"]
    assert lines[2] == ["t", "acc", "0.3750", "0.1768", "0.100", "to", "0.650", "2", "60", "0.2500", "0.5000"]
    assert lines[3] == ["t", "mrr", "0.3750†", "0.1768", "–", "2", "60", "0.2500", "0.5000"]
    assert lines[4][:5] == ["†", "the", "model", "was", "chosen"]
    assert lines[5] == ["t:", "beware"]


def test_why_there_is_no_interval_over_seeds_is_told(cli: Cli) -> None:
    lines = shown_seeds(cli, {**ACC, **WITHOUT_LIMITS, "interval": "none: fewer than three seeds"})
    assert lines[-1] == "  t: no interval of acc: fewer than three seeds"


def test_a_grid(cli: Cli) -> None:
    points = [
        {"folder": "grid-lr-1", "values": {"lr": "1"}, "scores": {"acc": 0.5, "mrr": None}, "step": 8},
        {"folder": "grid-lr-9", "values": {"lr": "9"}, "error": "the loss of step 3 is nan"},
    ]
    shared = {"task": "t", "model": "m", "dev": "6 of 60", "metrics": ["acc", "mrr"], "best": "grid-lr-1"}
    Path("grid.json").write_text(json.dumps({"points": points, **shared}))
    lines = [line.split() for line in cli("show", "grid.json").out.splitlines()]
    assert lines[1:4] == [["lr", "acc", "mrr", "step"], ["1", "0.5000", "–", "8", "best"], ["9", "–", "–", "–"]]
    assert lines[4] == ["compared", "on", "dev:", "6", "of", "60"]
    assert lines[5] == ["grid-lr-9:", "the", "loss", "of", "step", "3", "is", "nan"]
