"""The code on docs/statistics.md runs and computes what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from figeval.metrics.statistic import mean_of
from figeval.metrics.tally import Tally
from figeval.types import ChoiceExample, Prediction

PAGE = Path(__file__).parents[2] / "docs" / "statistics.md"


def test_the_metrics_of_the_page_work() -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL):
        exec(block, names)
    generator = np.random.default_rng(0)
    scores, gold = generator.random((60, 3)), generator.integers(0, 3, 60)
    bold, confidence = Tally("bold", mean_of(names["bold"])), Tally("confidence", names["confidence"])
    for row, answer in zip(scores, gold, strict=True):
        example = ChoiceExample(id="e", query="q", options=("a", "b", "c"), gold=int(answer))
        prediction = Prediction(example_id="e", value=int(row.argmax()), scores=tuple(map(float, row)))
        bold.update(example, prediction)
        confidence.update(example, prediction)
    right = scores.argmax(axis=1) == gold
    ordered = np.sort(scores, axis=1)
    assert bold.score().value == pytest.approx(np.mean(ordered[:, 2] - ordered[:, 1] > 0.1))
    assert confidence.score().value == pytest.approx(np.corrcoef(scores.max(axis=1), right)[0, 1])
    assert confidence.score().interval == "bootstrap"
    assert (confidence.score().low or 0.0) < 0  # a correlation is not clipped to [0, 1]
