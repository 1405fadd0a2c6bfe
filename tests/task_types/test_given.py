"""What a file of predictions means: labels and places, written in the ways of spreadsheets, pandas and JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as over
from hypothesis import strategies as st

from figeval import ChoiceExample, Given, PairExample, RankingExample
from tests.typed import task_types

GOLDEN = json.loads((Path(__file__).parent.parent / "golden/task_types/given.json").read_text(encoding="utf-8"))


def label_of(value: Any, labels: list[str]) -> Any:
    example = PairExample(id="1", left="l", right="r", label=None)
    return task_types().get("pairs").given(example, Given(value=value), labels).value


def index_of(value: Any, texts: list[str], *, lettered: bool = True) -> Any:
    """The option that a value means, or the candidate, which has no letter."""
    if lettered:
        example: Any = ChoiceExample(id="1", query="q", options=tuple(texts), gold=0)
    else:
        example = RankingExample(id="1", query="q", candidates=tuple(texts), relevant=frozenset({0}))
    return task_types().get("choice" if lettered else "ranking").given(example, Given(value=value), ()).value


@pytest.mark.parametrize("case", GOLDEN["labels"], ids=lambda case: case["why"])
def test_label(case: dict[str, Any]) -> None:
    if "error" in case:
        with pytest.raises(ValueError, match=re.escape(case["error"])):
            label_of(case["value"], case["labels"])
    else:
        assert label_of(case["value"], case["labels"]) == case["means"]


@pytest.mark.parametrize("case", GOLDEN["places"], ids=lambda case: case["why"])
def test_place(case: dict[str, Any]) -> None:
    lettered = case.get("letters", False)
    if "error" in case:
        words = re.sub(r"\btexts\b", "options" if lettered else "candidates", case["error"])
        with pytest.raises(ValueError, match=re.escape(words)):
            index_of(case["value"], case["texts"], lettered=lettered)
    else:
        assert index_of(case["value"], case["texts"], lettered=lettered) == case["means"]


LABELS = st.lists(st.text("aBc1.0 -", min_size=1).map(str.strip).filter(bool), min_size=1, unique=True)


@over(LABELS, st.data())
def test_every_label_means_itself_and_nothing_means_two(labels: list[str], data: st.DataObject) -> None:
    label = data.draw(st.sampled_from(labels))
    assert label_of(f" {label}\t", labels) == label
    for other in (label.swapcase(), f"{label}.0", label.replace(" ", "  ")):
        try:
            meant = label_of(other, labels)
        except ValueError as error:
            assert "may mean" in str(error) or "is not among" in str(error)
        else:
            alike = [candidate for candidate in labels if candidate.casefold() == meant.casefold()]
            assert meant == other.strip() or alike == [meant]


@over(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
def test_any_value_is_read_or_refused(value: Any) -> None:
    for read in (lambda: label_of(value, ["a", "b"]), lambda: index_of(value, ["a", "b"])):
        try:
            assert read() in ("a", "b", 0, 1)
        except ValueError as error:
            assert "\n" not in str(error).replace(repr(value), "")


def test_scores_by_label_in_another_case() -> None:
    assert Given(scores={"Satire": 0.1, " irony ": 0.9}).numbers("labels", 2, ["irony", "satire"]) == (0.9, 0.1)
    assert Given(scores={"1.0": 0.1, "2.0": 0.9}).numbers("labels", 2, ["1", "2"]) == (0.1, 0.9)
    for scores in ({"irony": 1, "Irony": 0}, {"irony": 1, "sarcasm": 0}, {"irony": 1, "satire": 0, "Satire": 1}):
        with pytest.raises(ValueError, match="the scores are for"):
            Given(scores=scores).numbers("labels", 2, ["irony", "satire"])
