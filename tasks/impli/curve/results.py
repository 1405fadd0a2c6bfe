"""Computation of a learning curve's numbers from the answers to the held-out folds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev

from figeval.metrics.aggregation import MetricAggregator
from figeval.metrics.discrimination import Judged, auc
from figeval.metrics.seeds import discrimination_over_seeds, interval_over_seeds
from figeval.metrics.statistic import mean_of
from figeval.records.predictions import PredictionRow
from figeval.types import JSON, Interval

from .points import CurveTraining

PARTS = {"all": None, "entailment": True, "non-entailment": False}


@dataclass(frozen=True, slots=True)
class CurveNumber:
    """One number of a curve, for one regime and one number of training folds.

    Attributes:
        regime: labels of the pairs that were learned from.
        folds: number of training folds.
        learned: number of pairs learned from, literal ones included; mean over trainings.
        part: `all`, `entailment` or `non-entailment` for accuracies, `auc` for the area under the ROC curve.
        n: number of held-out pairs with an answer, in all held-out folds.
        seeds, trainings: numbers of seeds and trainings behind the value.
        value: the accuracy or area; None if nothing was answered or, for the area, if there are no scores.
        sd: standard deviation over seeds.
        low, high: 95 % interval over idioms and, from three seeds on, also over seeds; None if there is none.
        interval: method of the interval, or why there is none.
    """

    regime: str
    folds: int
    learned: float
    part: str
    n: int
    seeds: int
    trainings: int
    value: float | None
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    interval: str = ""


@dataclass(frozen=True, slots=True)
class AnsweredTraining:
    """A finished training: the number of pairs it learned from, and its answers to the held-out fold."""

    training: CurveTraining
    learned: int
    rows: Sequence[PredictionRow]


def numbers(trainings: Iterable[AnsweredTraining]) -> list[CurveNumber]:
    """Return the numbers of a curve, in the order of the trainings.

    An idiom is in one held-out fold only, so accuracies are computed on the pairs of all folds together. Areas are
    means over the folds, since each fold is answered by another model. All seeds answer the same pairs; a pair that one
    seed left unanswered is left out for all.
    """
    points: dict[tuple[str, int], list[AnsweredTraining]] = defaultdict(list)
    for answered in trainings:
        points[answered.training.regime, answered.training.train].append(answered)
    return [number for trainings_of_point in points.values() for number in point_numbers(trainings_of_point)]


def point_numbers(trainings: Sequence[AnsweredTraining]) -> list[CurveNumber]:
    first = trainings[0].training
    by_seed: dict[int, dict[str, PredictionRow]] = defaultdict(dict)
    for answered in trainings:
        by_seed[answered.training.seed].update({f"{answered.training.fold} {row['id']}": row for row in answered.rows})
    answered_names = [
        {name for name, row in rows_by_name.items() if _right(row) is not None} for rows_by_name in by_seed.values()
    ]
    names = [name for name in next(iter(by_seed.values())) if all(name in seed_names for seed_names in answered_names)]
    curve_numbers = []
    for part, entailing in PARTS.items():
        part_names = [
            name for name in names if entailing is None or _entails(next(iter(by_seed.values()))[name]) == entailing
        ]
        curve_numbers.append(
            _accuracy(trainings, part, [[seed[name] for name in part_names] for seed in by_seed.values()])
        )
    scored_pairs = [[_scored_pair(name, seed[name]) for name in names] for seed in by_seed.values()]
    areas = [auc(pairs) for pairs in scored_pairs]
    area_values = [area.value for area in areas if area.value is not None]
    interval = discrimination_over_seeds(auc, scored_pairs) if len(areas) > 1 else areas[0].interval
    curve_numbers.append(
        CurveNumber(
            regime=first.regime,
            folds=first.train,
            learned=fmean(answered.learned for answered in trainings),
            part="auc",
            n=areas[0].n,
            seeds=len(by_seed),
            trainings=len(trainings),
            value=fmean(area_values) if len(area_values) == len(areas) else None,
            sd=stdev(area_values) if len(area_values) == len(areas) > 1 else None,
            low=interval.low,
            high=interval.high,
            interval=str(interval),
        )
    )
    return curve_numbers


def _accuracy(
    trainings: Sequence[AnsweredTraining], part: str, tables: Sequence[Sequence[PredictionRow]]
) -> CurveNumber:
    """Return the accuracy on some pairs, given a table of rows for each seed."""
    values = [[_right(row) or 0.0 for row in table] for table in tables]
    clusters = [row["cluster"] for row in tables[0]]
    point = {"regime": trainings[0].training.regime, "folds": trainings[0].training.train, "part": part}
    fields = {
        **point,
        "learned": fmean(answered.learned for answered in trainings),
        "n": len(clusters),
        "seeds": len(tables),
        "trainings": len(trainings),
    }
    if not clusters:
        return CurveNumber(**fields, value=None, interval=str(Interval(reason="no pairs")))  # type: ignore[arg-type]
    scores = [fmean(seed_values) for seed_values in values]
    if len(tables) > 1:
        interval = interval_over_seeds(values, clusters, (0.0, 1.0))
    else:
        aggregator = MetricAggregator("acc", mean_of(lambda *_: None))
        for value, cluster in zip(values[0], clusters, strict=True):
            aggregator.add(cluster, (value, 1.0))
        interval = aggregator.score().interval
    sd, words = stdev(scores) if len(scores) > 1 else None, str(interval)
    limits = {"low": interval.low, "high": interval.high}
    return CurveNumber(**fields, **limits, value=fmean(scores), sd=sd, interval=words)  # type: ignore[arg-type]


def _right(row: PredictionRow) -> float | None:
    value = row["metrics"].get("acc")
    return value if isinstance(value, float | int) else None


def _entails(row: PredictionRow) -> bool:
    return row["gold"] == "entailment"


def _scored_pair(name: str, row: PredictionRow) -> Judged:
    score = next(iter(row.get("scores", ())), None)
    return Judged(
        positive=_entails(row),
        score=None if score is None else float(score),
        cluster=row["cluster"],
        fold=name.partition(" ")[0],
    )


def as_json(numbers: Iterable[CurveNumber]) -> list[JSON]:
    return [asdict(number) for number in numbers]


def regimes_of(numbers: Iterable[CurveNumber]) -> Mapping[str, list[CurveNumber]]:
    """Return the numbers by regime; the curve of every regime begins with the point without figurative pairs."""
    by_regime: dict[str, list[CurveNumber]] = defaultdict(list)
    for number in numbers:
        by_regime[number.regime].append(number)
    shared = by_regime.pop("none", [])
    return {regime: [*shared, *regime_numbers] for regime, regime_numbers in by_regime.items()} or {"none": shared}
