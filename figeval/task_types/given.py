"""Predictions of other systems as a file gives them, and the steps by which task types read them (`figeval score`).

A prediction that cannot be read is a `ValueError`. Its second argument says what to write; without one, it is what the
task type declares as `given_form`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from figeval.io.json_files import parse_json
from figeval.io.text import whole_number
from figeval.language.words import normalize
from figeval.task_types.routes import decide
from figeval.types import Prediction

GIVEN = "given"  # name of the route in records


@dataclass(frozen=True, slots=True)
class Given:
    """Content of a file for one example: a prediction, scores, or both; None for what it leaves out.

    `scores` is a list of numbers or, for labels, a mapping of names to numbers.
    """

    value: Any = None
    scores: Any = None

    @property
    def parsed(self) -> Any:
        """The value; a text that is a JSON list or object, as in the cell of a table, is parsed."""
        if isinstance(self.value, str) and self.value.lstrip().startswith(("[", "{")):
            with suppress(ValueError):
                return parse_json(self.value)
        return self.value

    def numbers(self, of_what: str, n: int | None = None, names: Sequence[str] = ()) -> tuple[float, ...]:
        """Return the scores as numbers, or an empty tuple if there are none.

        Args:
            of_what: what the scores are for, in the plural, for messages.
            n: number of scores that there must be.
            names: names of which a mapping must have each.

        Raises:
            ValueError: a score is not a number, or there are too few or too many.
        """
        scores = Given(self.scores).parsed
        if scores is None or scores == "":
            return ()
        if isinstance(scores, Mapping):
            with suppress(ValueError):
                scores_by_label = {label_of(name, names): score for name, score in scores.items()}
                scores = scores_by_label if len(scores_by_label) == len(scores) else scores
            if not names or set(scores) != set(names):
                form = f"one for each of {', '.join(names)}" if names else "a list of numbers"
                raise ValueError(f"the scores are for {', '.join(map(str, scores))[:80]!r}", f"write {form}")
            scores = [scores[name] for name in names]
        if isinstance(scores, str | int | float):
            scores = [scores]
        numbers = tuple(map(_to_float, scores))
        if n is not None and len(numbers) != n:
            raise ValueError(f"there are {len(numbers)} scores for {n} {of_what}", "write one for each, in their order")
        return numbers


def _to_float(value: Any) -> float:
    """Return a score; null is NaN. Raises `ValueError` if it is not a number."""
    if value is None:
        return float("nan")
    with suppress(ValueError, TypeError, OverflowError):
        if not isinstance(value, bool):
            return float(value)
    raise ValueError(f"the score {value!r:.80} is not a number", "write numbers")


def place_of(value: Any, texts: Sequence[str], noun: str, letters: str = "") -> int:
    """Return the index that a value means: an index, one of the texts, or the letter of one.

    Raises:
        ValueError: it is none of these, or means several texts.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if 0 <= value < len(texts):
            return value
        raise ValueError(f"{value!r:.80} is out of range for {len(texts)} {noun} (0 to {len(texts) - 1})")
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.80} is neither an index nor a text of the {noun}")
    answer = value.strip()
    indices = {index for index, text in enumerate(texts) if text.strip() == answer}
    if (number := whole_number(without_decimals(answer))) is not None and number < len(texts):
        indices.add(number)
    if len(answer.strip("().")) == 1 and answer.strip("().").upper() in letters:
        indices.add(letters.index(answer.strip("().").upper()))
    indices = indices or {index for index, text in enumerate(texts) if _fold(text) == _fold(answer)}
    if len(indices) > 1:
        raise ValueError(f"{answer!r:.80} may mean {noun} {' and '.join(map(str, sorted(indices)))}", "write the index")
    if not indices:
        raise ValueError(f"{answer!r:.80} is none of the {len(texts)} {noun}")
    return indices.pop()


def label_of(value: Any, labels: Sequence[str]) -> str:
    """Return the label that a value means.

    Its case and blanks do not count, unless several labels differ only in these. A label that is a number may be a
    text, an integer or a float such as 3.0.

    Raises:
        ValueError: it means none of the labels, or several.
    """
    answer = str(value).strip() if isinstance(value, str | int | float) else ""
    if answer in labels:
        return answer
    matches = [label for label in labels if _fold(without_decimals(label)) == _fold(without_decimals(answer))]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise ValueError(
            f"{value!r:.80} may mean {' and '.join(map(repr, matches))}", "write the label in its own case"
        )
    raise ValueError(f"{value!r:.80} is not among the labels {', '.join(labels)}")


def without_decimals(text: str) -> str:
    """Return e.g. 3 for 3.0, as pandas writes whole numbers if a cell of their column is empty."""
    return re.sub(r"(?<=[0-9])\.0+\s*$", "", text)


def _fold(text: str) -> str:
    """Return the text without differences in case and blanks."""
    return normalize(" ".join(text.split()))


def decide_index(
    example_id: str, given: Given, scores: tuple[float, ...], read: Callable[[Any], int], n: int | None = None
) -> Prediction:
    """Return the prediction of an index with scores, of which the first `n` decide; ties are kept.

    Raises:
        ValueError: another index has a better score than the predicted one.
    """
    prediction = decide(example_id, scores, n)
    if (
        given.value is not None
        and prediction.value is not None
        and scores[read(given.value)] < scores[prediction.value]
    ):
        raise ValueError(f"{given.value!r:.80} does not have the best score", "leave out the prediction or the scores")
    return prediction
