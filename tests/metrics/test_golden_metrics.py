"""Golden cases: worked by hand or printed in the literature; each says why it is there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from figeval import ChoiceExample, Example, MetricAggregator, PairExample, Prediction, RankingExample, Score
from figeval.metrics import classification, intervals, neighbours, paired, ranking
from figeval.metrics.aggregation import GroupAggregator
from figeval.metrics.statistic import as_statistic, mean_of
from tests.aggregated import count_in

GOLDEN = Path(__file__).parent.parent / "golden" / "metrics"
RANKING = (
    *("accuracy", "acc_all", "acc_norm", "acc_pmi", "mrr", "mrr_all", "mrr_norm", "mrr_pmi"),
    *("recall_at_1", "recall_at_5", "recall_at_10", "precision_at_1", "precision_at_5", "precision_at_10"),
    *("r_precision", "average_precision", "ndcg", "ndcg_at_5", "ndcg_at_10"),
)
PREDICTION = Prediction(example_id="e", value=0)


def fields_of(score: Score) -> dict[str, Any]:
    numbers = ("value", "low", "high", "stderr", "n", "clusters", "effective_clusters", "metric")
    return {name: getattr(score, name) for name in numbers} | {"interval": str(score.interval)}


def tally(rows: list[tuple[str | None, float]]) -> dict[str, Any]:
    total = MetricAggregator("accuracy", mean_of(lambda _example, _prediction: None))
    for cluster, value in rows:
        total.add(cluster, (value, 1.0))
    return fields_of(total.score())


def strict(rows: list[tuple[str, float | None]]) -> dict[str, Any]:
    total = GroupAggregator("accuracy", mean_of(lambda example, _prediction: example.meta["value"]))
    for group, value in rows:
        count_in(total, Example(id="e", group=group, meta={"value": value}), PREDICTION)
    return fields_of(total.score())


def rank(
    scores: list[float],
    relevant: list[int],
    background: int = 0,
    grades: tuple[float, ...] = (),
    lengths: tuple[int, ...] = (),
    priors: tuple[float, ...] = (),
) -> dict[str, float | None]:
    """Every metric of one ranking; `grades` are those of `relevant`, `lengths` of the candidates in characters."""
    names = tuple("x" * length for length in lengths) or tuple(map(str, range(len(scores))))
    closed = len(scores) - background
    example = RankingExample(
        id="e",
        query="q",
        candidates=names[:closed],
        relevant=frozenset(relevant),
        background=names[closed:],
        grades=dict(zip(relevant, grades, strict=False)),
    )
    prediction = Prediction(
        example_id="e", value=int(np.argmax(scores[:closed])), scores=tuple(scores), priors=tuple(priors)
    )
    metrics = [getattr(ranking, name) for name in RANKING]
    return {metric.__name__: metric(example, prediction) for metric in metrics}


def rank_tied(candidates: int) -> dict[str, float | None]:
    return rank([0.0] * candidates, [candidates // 3])


def choice(options: list[str], gold: int | None, scores: list[float]) -> dict[str, float | None]:
    example = ChoiceExample(id="e", query="q", options=tuple(options), gold=gold)
    value, tied = int(np.argmax(scores)), scores.count(max(scores))
    prediction = Prediction(example_id="e", value=value, scores=tuple(scores), tied=tied)
    return {
        "accuracy": classification.choice_accuracy(example, prediction),
        "acc_norm": classification.acc_norm(example, prediction),
    }


def pairs(labels: list[str], rows: list[tuple[str, str]]) -> dict[str, float | None]:
    targets = {
        "accuracy": classification.pair_accuracy,
        "macro_f1": classification.macro_f1,
        "balanced_accuracy": classification.balanced_accuracy,
    }
    tallies = [MetricAggregator(name, as_statistic(target, tuple(labels))) for name, target in targets.items()]
    for gold, answer in rows:
        example = PairExample(id="e", left="l", right="r", label=gold)
        names = answer.split("|")
        scores = tuple(float(label in names) for label in labels)
        prediction = Prediction(example_id="e", value=names[0], scores=scores, labels=tuple(labels), tied=len(names))
        for total in tallies:
            count_in(total, example, prediction)
    return {total.name: total.score().value for total in tallies}


def all_distances(points: list[list[float]]) -> dict[str, Any]:
    return {name: distance(points).ravel().tolist() for name, distance in neighbours.DISTANCES.items()}


def look_around(distances: list[list[float]], groups: list[str]) -> dict[str, Any]:
    measures = neighbours.neighbours(np.array(distances, dtype=float), groups)
    return {
        name: [None if each is None else measure(each) for each in measures]
        for name, measure in neighbours.MEASURES.items()
    }


CALLS: dict[str, Callable[..., Any]] = {
    "distances": all_distances,
    "neighbours": look_around,
    "profiles": lambda **arguments: neighbours.profiles(**arguments).ravel().tolist(),
    "wilson": lambda **arguments: list(intervals.wilson(**arguments)),
    "tally": tally,
    "strict": strict,
    "ranking": rank,
    "ranking_tied": rank_tied,
    "choice": choice,
    "pairs": pairs,
    "mcnemar": paired.mcnemar,
    "sign_flip": lambda sums: paired.sign_flip(np.array(sums, dtype=float)),
    "holm": paired.holm,
    "paired": lambda **arguments: paired.compare_paired(**arguments).to_dict(),
}
CASES = [(path.stem, case) for path in sorted(GOLDEN.glob("*.json")) for case in json.loads(path.read_text("utf-8"))]


def near(value: Any, tolerance: float) -> Any:
    """What compares equal to numbers within the tolerance, and to all else exactly."""
    if isinstance(value, list):
        return [near(item, tolerance) for item in value]
    return pytest.approx(value, abs=tolerance, rel=0) if isinstance(value, float) else value


@pytest.mark.parametrize(("file", "case"), CASES, ids=[f"{file}-{case['call']}" for file, case in CASES])
def test_golden(file: str, case: dict[str, Any]) -> None:
    result = CALLS[case["call"]](**case["input"])
    tolerance = case.get("tolerance", 0.0)
    expected = case["expected"]
    if isinstance(expected, dict):
        result = {key: result[key] for key in expected}
        for key, value in expected.items():
            assert result[key] == near(value, tolerance), (key, case["why"])
    else:
        assert result == pytest.approx(expected, abs=tolerance, rel=0), case["why"]


def test_every_case_says_why() -> None:
    assert all(len(case["why"]) > 20 for _, case in CASES)
    assert {"intervals", "ranking", "classes", "compare", "distances"} <= {file for file, _ in CASES}
