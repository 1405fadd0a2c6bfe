"""The points of a learning curve: its trainings, and the task of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from figeval.errors import DataError
from figeval.types import JSON

from ..folds import FOLDS, REGIMES, Point

NO_REGIME = "none"  # the regime of the point without figurative pairs, which all regimes share
DEFAULT_SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Definition of a learning curve.

    Attributes:
        points: numbers of training folds, 0 to 9.
        regimes: labels of the pairs that are learned from (`REGIMES`).
        held_out: folds that are held out, one at a time.
        seeds: seeds of the trainings; the folds are the same for all seeds.
        nli: number of literal pairs that every training learns from, or None for all.
        pairs: number of figurative pairs of all nine training folds together, or None for all.
    """

    points: Sequence[int]
    regimes: Sequence[str]
    held_out: Sequence[int]
    seeds: Sequence[int]
    nli: int | None
    pairs: int | None

    def trainings(self) -> Iterator[CurveTraining]:
        """Yield every training once, those with the fewest folds first."""
        for folds in sorted(set(self.points)):
            for regime in self.regimes if folds else (NO_REGIME,):
                for fold in self.held_out:
                    for seed in self.seeds:
                        yield CurveTraining(
                            fold=fold, train=folds, regime=regime, seed=seed, nli=self.nli, pairs=self.pairs
                        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveTraining:
    """One training: its held-out fold, its training pairs and its seed."""

    fold: int
    train: int
    regime: str
    seed: int
    nli: int | None
    pairs: int | None

    @property
    def name(self) -> str:
        """Name of its task, its folder and its run."""
        regime = self.regime.replace("-", "_")
        return f"impli_curve_fold{self.fold}_train{self.train}_{regime}_seed{self.seed}"

    @property
    def point(self) -> Point:
        """Pairs of the folds of idioms that it learns from, and the held-out fold."""
        regime = "both" if self.regime == NO_REGIME else self.regime
        return Point(fold=self.fold, train=self.train, regime=regime, pairs=self.pairs, seed=DEFAULT_SEED)

    def task(self, shared: JSON) -> JSON:
        """Return the task file; `shared` holds the keys that all IMPLI tasks share."""
        query = {"fold": self.fold, "train": self.train, "regime": self.regime, "nli": self.nli, "pairs": self.pairs}
        learned = urlencode({name: value for name, value in query.items() if value is not None})
        return {
            **{key: value for key, value in shared.items() if key != "floor"},
            "name": self.name,
            "description": f"Fold {self.fold} of IMPLI's idioms after {self.train} others ({self.regime})",
            "data": {"test": f"impli_curve:held_out?fold={self.fold}", "train": f"impli_curve:train?{learned}"},
            "cluster": "idiom",
            "metrics": ["acc", "balanced_acc"],
        }


def parse_query(query: str) -> tuple[Point, int | None]:
    """Return the point that a data reference describes, and the number of literal pairs to learn from.

    Raises:
        DataError: the reference has an unknown name or an invalid value.
    """
    values = dict(parse_qsl(query, keep_blank_values=True))
    regime = values.pop("regime", NO_REGIME)
    names = {"fold", "train", "nli", "pairs"}
    if unknown := sorted(set(values) - names):
        raise DataError(f"impli_curve has no {unknown[0]!r}; it has {', '.join(sorted(names))} and regime")
    if regime not in (*REGIMES, NO_REGIME):
        raise DataError(f"impli_curve has no regime {regime!r}; it has {', '.join(REGIMES)}")
    if invalid := next((name for name, value in values.items() if not value.isdecimal()), None):
        raise DataError(f"impli_curve: {invalid}={values[invalid]} is not a number")
    numbers = {name: int(value) for name, value in values.items()}
    fold, train = numbers.get("fold", 0), numbers.get("train", 0)
    if not (fold < FOLDS and train < FOLDS):
        raise DataError(
            f"impli_curve: there are folds 0 to {FOLDS - 1}, of which at most {FOLDS - 1} are used for training"
        )
    pair_regime = "both" if regime == NO_REGIME else regime
    point = Point(fold=fold, train=train, regime=pair_regime, pairs=numbers.get("pairs"), seed=DEFAULT_SEED)
    return point, numbers.get("nli")
