"""Labels that annotators gave to items: their values, the mean and the majority of several people, and thresholds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

from figeval import OptionError
from figeval.io.text import near
from figeval.records.reference import MAJORITY
from figeval.spec.criteria import YES_NO, Criterion
from figeval.wings.annotation.items import Key

Labels: TypeAlias = dict[str, dict[str, str]]  # item → annotator → label


def majority_labels(labels: Labels) -> Labels:
    """Return the label that most annotators gave each item, as that of one rater; an item without one is left out."""
    majorities = {item: majority_label(by_annotator) for item, by_annotator in labels.items()}
    return {item: {MAJORITY: label} for item, label in majorities.items() if label is not None}


def majority_label(labels: Mapping[str, str]) -> str | None:
    """Return the label that more annotators chose than any other, or None if there is none."""
    (best, votes), *runners_up = Counter(labels.values()).most_common()
    return best if not runners_up or runners_up[0][1] < votes else None


def label_values(key: Key, criterion: Criterion, item: str, labels: Mapping[str, str]) -> dict[str, float]:
    """Return the value of each annotator's label of an item; empty if the labels have no values."""
    gold = key.gold.get(item)
    values = {
        annotator: criterion.value(label) if gold is None else float(label == gold)
        for annotator, label in labels.items()
    }
    return {annotator: value for annotator, value in values.items() if value is not None}


def item_means(key: Key, criterion: Criterion, labels: Labels) -> dict[str, float]:
    """Return the mean judgement of each item; empty if the labels have no values."""
    values = {
        item: list(label_values(key, criterion, item, by_annotator).values()) for item, by_annotator in labels.items()
    }
    return {item: fmean(numbers) for item, numbers in values.items() if numbers}


# ---- thresholds ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Threshold:
    """A label of a numerical criterion from which on texts are good: it makes yes and no of the labels."""

    criterion: Criterion
    lowest: float

    @property
    def split(self) -> Criterion:
        """The criterion with the scale yes/no, called e.g. `quality ≥ 3`."""
        return Criterion(name=f"{self.criterion.name} ≥ {self.lowest:g}", labels=YES_NO)

    def split_labels(self, labels: Labels) -> Labels:
        return {
            item: {annotator: self._split(label) for annotator, label in by_annotator.items()}
            for item, by_annotator in labels.items()
        }

    def _split(self, label: str) -> str:
        value = self.criterion.value(label)
        return YES_NO[value is not None and value >= self.lowest]


def find_thresholds(labels: Mapping[str, str], criteria: tuple[Criterion, ...]) -> tuple[Threshold, ...]:
    """Return the thresholds at these labels by criterion.

    Raises:
        OptionError: there is no such criterion, its labels are not numbers, or the label does not split its scale.
    """
    by_name = {criterion.name: criterion for criterion in criteria}
    thresholds = []
    for name, label in labels.items():
        if (criterion := by_name.get(name)) is None:
            names = ", ".join(by_name)
            raise OptionError(
                f"--threshold: no criterion is called {name!r:.60}{near(name, by_name)}; the criteria are {names}"
            )
        if not criterion.is_ordinal:
            raise OptionError(
                f"--threshold: the labels of {name} ({', '.join(criterion.labels):.80}) are no scale of numbers"
            )
        if label not in criterion.labels[1:]:
            above = ", ".join(criterion.labels[1:])
            raise OptionError(f"--threshold: {label!r:.40} does not split the scale of {name}; give one of {above:.80}")
        thresholds.append(Threshold(criterion, float(label)))
    return tuple(thresholds)
