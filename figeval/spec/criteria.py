"""Criteria by which people judge texts, each a name with a scale: `1-5`, `yes/no`, or other labels with a slash.

A task file lists them (`criteria: {fluency: 1-5, coherent: yes/no}`), and `figeval annotate` reads the same form. In a
task file, a mapping with `scale` and `description` may stand in place of the scale.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from figeval.io.text import clean

RANGE = re.compile(r"(\d{1,3})-(\d{1,3})")
NUMBER = re.compile(r"\d{1,9}")
MOST_STEPS = 101  # 0-100
YES = {"yes": True, "y": True, "1": True, "x": True, "true": True}
YES |= {"no": False, "n": False, "0": False, "false": False}
YES_NO = ("no", "yes")


class DescribedScale(BaseModel):
    """A scale in a task file, with what the criterion means."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scale: str = Field(description="Scale, such as `1-5`, `yes/no` or other labels with a slash.")
    description: str = Field(
        default="", description="What the criterion means, and what the ends of the scale mean, as annotators read it."
    )


Scale = str | DescribedScale


class Criterion(BaseModel):
    """Criterion that people judge by, with the labels to choose from, in order from low to high if they are numbers.

    `description` says what it means, and is empty if nobody has described it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    labels: tuple[str, ...]
    description: str = ""

    @property
    def is_ordinal(self) -> bool:
        """True if the labels are more than two numbers."""
        return len(self.labels) > 2 and all(map(NUMBER.fullmatch, self.labels))

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and highest value of a label."""
        values = [value for value in map(self.value, self.labels) if value is not None]
        return (min(values), max(values)) if values else (0.0, 1.0)

    def read(self, text: str) -> str | None:
        """Return the label that a text stands for, in upper or lower case, or None if there is no such label."""
        word = text.strip().lower()
        if self.labels == YES_NO and word in YES:
            return YES_NO[YES[word]]
        if re.fullmatch(r"\d+\.0+", word):
            word = word.partition(".")[0]  # a spreadsheet's or Label Studio's 4.0
        return next((label for label in self.labels if label.lower() == word), None)

    def value(self, label: str) -> float | None:
        """Return a label as a number: itself, or 0 and 1 for no and yes; None for other labels."""
        if self.labels == YES_NO:
            return float(YES_NO.index(label))
        return float(label) if all(map(NUMBER.fullmatch, self.labels)) else None


def criterion(name: str, scale: Scale) -> Criterion:
    """Return the criterion with a scale as it is written in task files.

    Raises:
        ValueError: the name is blank, or the text is not a scale.
    """
    description = "" if isinstance(scale, str) else clean(scale.description).strip()
    scale = (scale if isinstance(scale, str) else scale.scale).strip()
    numbers = RANGE.fullmatch(scale)
    labels = tuple(part.strip() for part in scale.split("/"))
    if numbers:
        first, last = map(int, numbers.groups())
        labels = tuple(map(str, range(first, last + 1)))
    elif set(labels) == set(YES_NO):
        labels = YES_NO
    if not name.strip() or not 2 <= len(labels) <= MOST_STEPS or not all(labels) or len(set(labels)) < len(labels):
        raise ValueError(
            f"criterion {name!r}: {scale!r} is not a scale; write 1-5, yes/no, or labels such as good/fair/bad"
        )
    return Criterion(name=name.strip(), labels=labels, description=description)


def criteria_of(scales: Mapping[str, Scale]) -> tuple[Criterion, ...]:
    """Return the criteria of a mapping name → scale. Raises `ValueError` as `criterion` does."""
    return tuple(criterion(name, scale) for name, scale in scales.items())
