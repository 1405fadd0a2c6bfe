"""Two rules for the two labels of a three-way model: its most probable class, and P(first label) > .5."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import figeval
from figeval import PairExample
from figeval.testing.fakes import FakeClassifier, FakePairScorer

LABELS = ("entailment", "non-entailment")


def distribution(random: Random) -> tuple[float, ...]:
    weights = [random.random() for _ in range(3)]
    return tuple(weight / sum(weights) for weight in weights)


def scores(
    folder: Path, model: object, examples: list[PairExample], labels: tuple[str, ...] = LABELS
) -> dict[str, float | None]:
    task = figeval.task(name="t", type="pairs", labels=labels, metrics=("acc", "acc_at_half"))(lambda: iter(examples))
    (record,) = figeval.run(task, model, output_path=folder / "run", baselines=False).record.tasks
    return {score.metric: score.value for score in record.scores}


def test_both_rules_are_scored_from_one_run(tmp_path: Path) -> None:
    random = Random(0)
    classes = [distribution(random) for _ in range(200)]
    examples = [PairExample(id=str(i), left=str(i), right="", label=random.choice(LABELS)) for i in range(200)]

    def label(left: str, _right: str) -> dict[str, Any]:
        return {LABELS[0]: classes[int(left)][:1], LABELS[1]: classes[int(left)][1:]}

    values = scores(tmp_path, FakeClassifier(function=label), examples)

    def share(entails: list[bool]) -> float:
        rights = [(example.label == LABELS[0]) == entailed for example, entailed in zip(examples, entails, strict=True)]
        return sum(rights) / len(rights)

    assert values["acc"] == pytest.approx(share([p[0] == max(p) for p in classes]))
    assert values["acc_at_half"] == pytest.approx(share([p[0] > 0.5 for p in classes]))
    assert values["acc"] != values["acc_at_half"]


def test_a_tie_is_half_right_and_two_classes_have_one_rule(tmp_path: Path) -> None:
    chances = {"a": 0.5, "b": 0.7, "c": 0.2}
    examples = [PairExample(id=name, left=name, right="", label=LABELS[0]) for name in chances]
    head = FakeClassifier(function=lambda left, _: dict(zip(LABELS, (chances[left], 1 - chances[left]), strict=True)))
    assert scores(tmp_path, head, examples) == {"acc": 0.5, "acc_at_half": 0.5}


def test_no_tie_with_one_of_several_classes_reaches_one_half(tmp_path: Path) -> None:
    example = PairExample(id="a", left="a", right="", label=LABELS[1])
    head = FakeClassifier(function=lambda _left, _right: {LABELS[0]: (0.4,), LABELS[1]: (0.4, 0.2)})
    assert scores(tmp_path, head, [example]) == {"acc": 0.5, "acc_at_half": 1.0}


def test_it_has_no_value_for_three_labels_and_none_for_distances(tmp_path: Path) -> None:
    example = PairExample(id="a", left="a b", right="a b", label=LABELS[0])
    three = scores(tmp_path / "three", FakeClassifier(), [example], ("entailment", "neutral", "contradiction"))
    assert three["acc"] is not None and three["acc_at_half"] is None
    assert list(scores(tmp_path / "two", FakePairScorer(), [example])) == ["acc"]
