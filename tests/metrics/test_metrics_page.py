"""The code on docs/metrics.md runs and computes what the page says."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from figeval import (
    ChoiceExample,
    GenerationExample,
    Measured,
    MetricAggregator,
    MetricContext,
    ModelError,
    Prediction,
    RankingExample,
    mean_of,
)
from tests.aggregated import count_in

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def defined_on_the_page() -> dict[str, Any]:
    """What the page's code defines, all of it run in order."""
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL):
        exec(block, names)
    return names


def test_the_metrics_of_the_page_work() -> None:
    names = defined_on_the_page()
    generator = np.random.default_rng(0)
    scores, gold = generator.random((60, 3)), generator.integers(0, 3, 60)
    bold = MetricAggregator("bold", mean_of(names["bold"]))
    confidence = MetricAggregator("confidence", names["confidence"])
    for row, answer in zip(scores, gold, strict=True):
        example = ChoiceExample(id="e", query="q", options=("a", "b", "c"), gold=int(answer))
        prediction = Prediction(example_id="e", value=int(row.argmax()), scores=tuple(map(float, row)))
        count_in(bold, example, prediction)
        count_in(confidence, example, prediction)
    right = scores.argmax(axis=1) == gold
    ordered = np.sort(scores, axis=1)
    assert bold.score().value == pytest.approx(np.mean(ordered[:, 2] - ordered[:, 1] > 0.1))
    assert confidence.score().value == pytest.approx(np.corrcoef(scores.max(axis=1), right)[0, 1])
    assert confidence.score().interval.method == "bootstrap"
    assert (confidence.score().low or 0.0) < 0  # a correlation is not clipped to [0, 1]


def test_chance_has_the_right_value_under_the_metrics_of_the_page() -> None:
    names = defined_on_the_page()
    chosen = ChoiceExample(id="e", query="q", options=("a", "b", "c"), gold=1)
    chance = Prediction(example_id="e", value=0, scores=(0.0,) * 3, tied=3)
    assert names["near_miss"](chosen, chance) == pytest.approx(2 / 3)
    assert names["near_miss"](replace(chosen, gold=None), chance) is None
    candidates = tuple(map(str, range(50)))
    ranked = RankingExample(
        id="e", query="q", candidates=candidates, relevant=frozenset({40}), near=frozenset({0, 1, 2})
    )
    tied = Prediction(example_id="e", value=0, scores=(0.0,) * 50, tied=50)
    assert names["right_before_near"](ranked, tied) == pytest.approx(1 / 4, abs=5 * 0.005)
    assert names["right_before_near"](replace(ranked, near=frozenset()), tied) is None
    auroc = names["confidence_auroc"]
    rows = [{"status": "ok", "scores": [0.0] * 3, "metrics": {"acc": 1 / 3}} for _ in range(5)]
    assert float(auroc.combine(np.array(auroc.family(rows, ["x"], {})["x"]).sum(axis=0))) == pytest.approx(0.5)


def test_the_auroc_of_the_page_is_that_of_all_pairs_of_rows() -> None:
    names = defined_on_the_page()
    generator = np.random.default_rng(1)
    confident, right = generator.integers(0, 9, 40) / 9, generator.integers(0, 2, 40)
    rows = [
        {"status": "ok", "scores": [float(score), -1.0], "metrics": {"acc": float(hit)}}
        for score, hit in zip(confident, right, strict=True)
    ]
    rows.append({"status": "refusal", "scores": [], "metrics": {}})
    *answered_rows, refused = names["auroc"](rows, ["x"], {})["x"]
    pairs = confident[right == 1][:, None] - confident[right == 0]
    expected = np.mean((pairs > 0) + (pairs == 0) / 2)
    assert refused is None
    assert float(names["confidence_auroc"].combine(np.array(answered_rows).sum(axis=0))) == pytest.approx(expected)


def test_the_metric_that_asks_a_model_asks_it_once_for_all_and_counts_what_was_cut() -> None:
    class Classifier:
        capabilities = frozenset({"label_pairs"})
        fingerprint = "a-digest"

        def __init__(self) -> None:
            self.asked: list[int] = []
            self.about: dict[str, Any] = {"held_out": {"value": 0.8125, "n": 16}}

        def answer(self, pairs: Any) -> list[Any]:
            self.asked.append(len(pairs))
            return [
                ({"entailment": 0.75 if pair.left == pair.right else (0.125, 0.25)}, "long" in pair.left)
                for pair in pairs
            ]

    model = Classifier()
    context = MetricContext("follows", "models/f", "task", ("en",), lambda _name: model, dict)  # type: ignore[arg-type,return-value]
    metric = defined_on_the_page()["follows"](context)
    examples = [GenerationExample(id=text, inputs={"story": text}, references=("x",)) for text in ("a", "b", "long c")]
    texts = ["a", "", "other"]
    cases = [
        (example, Prediction(example_id=example.id, value=text)) for example, text in zip(examples, texts, strict=True)
    ]
    cut = Measured(0.25, ("texts cut to the length of the classifier",))
    assert metric.batch(cases) == [Measured(0.75), Measured(None), cut]
    assert model.asked == [2]
    assert metric.describe()["remark"] == "judged by models/f, which is right in 81.2% of 16 held-out pairs"
    model.about = {}
    with pytest.raises(ModelError, match="follows=models/f: it is no classifier of pairs with a held-out accuracy"):
        defined_on_the_page()["follows"](context)
