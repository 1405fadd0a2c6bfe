"""What the classes of a pair classifier mean, and how several of them make one label."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from figeval.errors import ModelError
from figeval.types import JSON

# The spellings in use, letters only: what a class name is taken for. "not_entailment" before "entail…".
MEANINGS = (
    (re.compile(r"(not?|non)entail\w*"), "non-entailment"),
    (re.compile(r"entail\w*"), "entailment"),
    (re.compile(r"contradict\w*"), "contradiction"),
    (re.compile(r"neutral\w*"), "neutral"),
)
PARTS = {"non-entailment": ("neutral", "contradiction")}  # a label that three-way models split
NAMELESS = re.compile(r"label_?\d+", re.IGNORECASE)  # what transformers writes where nobody gave a name

Classes = Mapping[str, tuple[int, ...]]  # meaning → class numbers


def meaning(name: str) -> str:
    """A class or label in its common spelling: lower case, and one word for each NLI relation."""
    letters = re.sub(r"[\W_]+", "", name.lower())
    return next((common for spelt, common in MEANINGS if spelt.fullmatch(letters)), letters)


def classes_of(config: JSON) -> dict[int, str]:
    """The names of a classifier's classes by number; transformers' own default is two of them."""
    named = config.get("id2label") or {}
    count = len(named) or int(config.get("num_labels", 2))
    return {number: str(named.get(str(number), f"LABEL_{number}")) for number in range(count)}


def parse_labels(given: str | None, names: Mapping[int, str], model: str) -> dict[str, tuple[int, ...]]:
    """What each class means: from `labels=entailment:2;non-entailment:0+1` if given, else from the config's names.

    Raises:
        ModelError: the config gives no names, two classes mean the same, or `labels` cannot be read.
    """
    if given:
        return dict(_parse_one(part.strip(), names) for part in re.split("[;,]", str(given)) if part.strip())
    if any(NAMELESS.fullmatch(name) for name in names.values()):
        example = "entailment:2;neutral:1;contradiction:0" if len(names) == 3 else "entailment:1;non-entailment:0"
        raise ModelError(
            f"{model!r} calls its classes {', '.join(names.values())}, which says nothing; "
            f"say what they mean: --model_args 'labels={example}'"
        )
    classes: dict[str, tuple[int, ...]] = {meaning(name): (number,) for number, name in names.items()}
    if len(classes) < len(names):
        raise ModelError(f"{model!r} has several classes of one meaning ({', '.join(names.values())}); give labels=")
    return classes


def _parse_one(part: str, names: Mapping[int, str]) -> tuple[str, tuple[int, ...]]:
    name, _, numbers = part.rpartition(":")
    if not name or not re.fullmatch(r"\d+(\+\d+)*", numbers):
        raise ModelError(f"labels: {part!r} is not of the form name:number or name:number+number")
    classes = tuple(int(number) for number in numbers.split("+"))
    if not set(classes) <= set(names):
        raise ModelError(f"labels: {part!r} names a class that the model does not have; it has {sorted(names)}")
    return meaning(name), classes


def prescribed(classes: Classes, labels: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The class numbers behind each requested label.

    Raises:
        ModelError: no class means the label, or a class stands behind two labels.
    """
    behind: dict[str, tuple[int, ...]] = {}
    for label in labels:
        common = meaning(label)
        parts = (common,) if common in classes else PARTS.get(common, (common,))
        if not all(part in classes for part in parts):
            raise ModelError(f"no class of the model means {label!r} (it has {', '.join(classes)}); give labels=")
        behind[label] = tuple(number for part in parts for number in classes[part])
    numbers = [number for each in behind.values() for number in each]
    if len(set(numbers)) < len(numbers):
        raise ModelError(f"the model's classes ({', '.join(classes)}) do not tell {' and '.join(labels)} apart")
    return behind


Probability = float | tuple[float, ...]  # of a label, or of each of its classes

DECISIONS: dict[str, Callable[[list[float]], Probability]] = {
    "argmax": lambda classes: tuple(classes) if len(classes) > 1 else classes[0],
    "sum": math.fsum,
}
"""What a label gets of the probabilities of its classes; the label of the best of what is left is the answer."""


def label_scores(logits: Any, behind: Classes, decide: Callable[[list[float]], Probability]) -> dict[str, Probability]:
    """Label → probability or probabilities, all of them summing to 1, from the logits (classes,) of one pair.

    Classes that stand for none of the labels do not count. NaN stays NaN.
    """
    import numpy as np

    asked = logits[[number for numbers in behind.values() for number in numbers]]
    weights = np.exp(asked - asked.max())
    shares = iter((weights / weights.sum()).tolist())
    return {label: decide([next(shares) for _ in numbers]) for label, numbers in behind.items()}
