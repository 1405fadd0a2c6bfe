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


def numbers(found: Iterable[AnsweredTraining]) -> list[CurveNumber]:
    """Return the numbers of a curve, in the order of the trainings.

    An idiom is in one held-out fold only, so accuracies are computed on the pairs of all folds together. Areas are
    means over the folds, since each fold is answered by another model. All seeds answer the same pairs; a pair that one
    seed left unanswered is left out for all.
    """
    points: dict[tuple[str, int], list[AnsweredTraining]] = defaultdict(list)
    for one in found:
        points[one.training.regime, one.training.train].append(one)
    return [number for own in points.values() for number in of_point(own)]


def of_point(found: Sequence[AnsweredTraining]) -> list[CurveNumber]:
    """Return the numbers of one point."""
    first = found[0].training
    by_seed: dict[int, dict[str, PredictionRow]] = defaultdict(dict)
    for one in found:
        by_seed[one.training.seed].update({f"{one.training.fold} {row['id']}": row for row in one.rows})
    answered = [{name for name, row in own.items() if _right(row) is not None} for own in by_seed.values()]
    names = [name for name in next(iter(by_seed.values())) if all(name in own for own in answered)]
    made = []
    for part, wanted in PARTS.items():
        own = [name for name in names if wanted is None or _entails(next(iter(by_seed.values()))[name]) == wanted]
        made.append(_accuracy(found, part, [[seed[name] for name in own] for seed in by_seed.values()]))
    judged = [[_judged(name, seed[name]) for name in names] for seed in by_seed.values()]
    areas = [auc(own) for own in judged]
    known = [area.value for area in areas if area.value is not None]
    interval = discrimination_over_seeds(auc, judged) if len(areas) > 1 else areas[0].interval
    made.append(
        CurveNumber(
            regime=first.regime,
            folds=first.train,
            learned=fmean(one.learned for one in found),
            part="auc",
            n=areas[0].n,
            seeds=len(by_seed),
            trainings=len(found),
            value=fmean(known) if len(known) == len(areas) else None,
            sd=stdev(known) if len(known) == len(areas) > 1 else None,
            low=interval.low,
            high=interval.high,
            interval=str(interval),
        )
    )
    return made


def _accuracy(found: Sequence[AnsweredTraining], part: str, tables: Sequence[Sequence[PredictionRow]]) -> CurveNumber:
    """Return the accuracy on some pairs, given a table of rows for each seed."""
    values = [[_right(row) or 0.0 for row in table] for table in tables]
    clusters = [row["cluster"] for row in tables[0]]
    about = {"regime": found[0].training.regime, "folds": found[0].training.train, "part": part}
    shared = {
        **about,
        "learned": fmean(one.learned for one in found),
        "n": len(clusters),
        "seeds": len(tables),
        "trainings": len(found),
    }
    if not clusters:
        return CurveNumber(**shared, value=None, interval=str(Interval(reason="no pairs")))  # type: ignore[arg-type]
    scores = [fmean(own) for own in values]
    if len(tables) > 1:
        interval = interval_over_seeds(values, clusters, (0.0, 1.0))
    else:
        aggregator = MetricAggregator("acc", mean_of(lambda *_: None))
        for value, cluster in zip(values[0], clusters, strict=True):
            aggregator.add(cluster, (value, 1.0))
        interval = aggregator.score().interval
    sd, words = stdev(scores) if len(scores) > 1 else None, str(interval)
    limits = {"low": interval.low, "high": interval.high}
    return CurveNumber(**shared, **limits, value=fmean(scores), sd=sd, interval=words)  # type: ignore[arg-type]


def _right(row: PredictionRow) -> float | None:
    value = row["metrics"].get("acc")
    return value if isinstance(value, float | int) else None


def _entails(row: PredictionRow) -> bool:
    return row["gold"] == "entailment"


def _judged(name: str, row: PredictionRow) -> Judged:
    score = next(iter(row.get("scores", ())), None)
    return Judged(
        positive=_entails(row),
        score=None if score is None else float(score),
        cluster=row["cluster"],
        fold=name.partition(" ")[0],
    )


def as_json(found: Iterable[CurveNumber]) -> list[JSON]:
    """Return the numbers as mappings for JSON."""
    return [asdict(one) for one in found]


def regimes_of(found: Iterable[CurveNumber]) -> Mapping[str, list[CurveNumber]]:
    """Return the numbers by regime; the curve of every regime begins with the point without figurative pairs."""
    own: dict[str, list[CurveNumber]] = defaultdict(list)
    for one in found:
        own[one.regime].append(one)
    shared = own.pop("none", [])
    return {regime: [*shared, *numbers] for regime, numbers in own.items()} or {"none": shared}
