"""Spans that count only beside a right candidate: worked out by hand, and against the metrics of single spans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import JointExample, Prediction, Span, SpanExample
from figeval.metrics import spans
from figeval.metrics.ranking import accuracy
from figeval.metrics.statistic import Statistic

TEXT = "the old cat sat on the mat"
PLACES = [Span(0, 3), Span(4, 11), Span(8, 15), Span(0, 26), Span(19, 26)]


def part(n: int, gold: Span | None, k: int) -> SpanExample:
    return SpanExample(id=f"S{n}", text=TEXT, given="g", known="k", gold=gold, weight=1 / k)


def example(*golds: Span | None) -> JointExample:
    parts = tuple(part(n, gold, len(golds)) for n, gold in enumerate(golds))
    return JointExample(id="1", query=TEXT, candidates=("a", "b", "c"), relevant=frozenset({0}), parts=parts)


def joint_prediction(scores: tuple[float, ...], *spans_of_parts: Span | None) -> Prediction:
    parts = tuple(
        Prediction(example_id=f"S{n}", value=span, status="ok" if span else "unparseable")
        for n, span in enumerate(spans_of_parts)
    )
    return Prediction(example_id="1", value=int(np.argmax(scores)), scores=scores, parts=parts)


RIGHT_SCORES, WRONG_SCORES, TIED_SCORES = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (1.0, 1.0, 0.0)


def value(statistic: Statistic, *rows: tuple[JointExample, Prediction]) -> float:
    features = [statistic.features(*row) for row in rows]
    return float(statistic.combine(np.array([feature for feature in features if feature is not None]).sum(axis=0)))


def test_a_narrative_by_hand() -> None:
    """Gold "old cat" and "the mat"; found "cat sat" (P = R = 1/2) and everything (P 2/6: the, mat; R 1)."""
    question = example(Span(4, 11), Span(19, 26))
    span_pair = (Span(8, 15), Span(0, 26))
    precision, recall = (1 / 2 + 2 / 6) / 2, (1 / 2 + 1) / 2
    for scores, gate in ((RIGHT_SCORES, 1.0), (TIED_SCORES, 0.5), (WRONG_SCORES, 0.0)):
        row = question, joint_prediction(scores, *span_pair)
        assert value(spans.joint_precision, row) == pytest.approx(gate * precision)
        assert value(spans.joint_recall, row) == pytest.approx(gate * recall)
        f1 = 2 * precision * recall / (precision + recall)
        assert value(spans.joint_f1, row) == pytest.approx(gate * f1)
        assert value(spans.joint_f1_ungated, row) == pytest.approx(f1)
        assert spans.joint_squad_f1(*row) == pytest.approx(gate * (1 / 2 + 2 * 2 / (7 + 2)) / 2)


def test_f1_is_the_harmonic_mean_of_means_over_narratives() -> None:
    rows = [
        (example(Span(4, 11)), joint_prediction(RIGHT_SCORES, Span(4, 11))),
        (example(Span(4, 11), Span(0, 3)), joint_prediction(RIGHT_SCORES, Span(0, 26), Span(0, 26))),
        (example(Span(4, 11)), joint_prediction(WRONG_SCORES, Span(4, 11))),
    ]
    precision, recall = (1 + (2 / 6 + 1 / 6) / 2 + 0) / 3, (1 + 1 + 0) / 3
    assert value(spans.joint_f1, *rows) == pytest.approx(2 * precision * recall / (precision + recall))


def test_what_was_not_asked_for_after_a_wrong_candidate_counts_nothing() -> None:
    question = example(Span(4, 11), Span(19, 26))
    for answered in (
        joint_prediction(WRONG_SCORES),
        joint_prediction(WRONG_SCORES, Span(4, 11), Span(19, 26)),
        joint_prediction(WRONG_SCORES, None, Span(0, 3)),
    ):
        assert spans.joint_precision.features(question, answered) == (0.0, 1.0)
        assert spans.joint_f1.features(question, answered) == (0.0, 0.0, 1.0)
        assert spans.joint_squad_f1(question, answered) == 0.0
    assert spans.joint_f1_ungated.features(question, joint_prediction(WRONG_SCORES)) is None


def test_a_part_without_an_answer_is_unknown_and_not_wrong() -> None:
    question = example(Span(4, 11), Span(19, 26))
    assert spans.joint_recall.features(question, joint_prediction(RIGHT_SCORES, Span(4, 11), None)) == (0.5, 0.5)
    assert spans.joint_recall.features(question, joint_prediction(RIGHT_SCORES, None, None)) is None
    assert spans.joint_squad_f1(question, joint_prediction(RIGHT_SCORES, Span(4, 11), None)) == 1.0
    assert spans.joint_squad_f1(question, joint_prediction(RIGHT_SCORES, None, None)) is None
    hidden = example(Span(4, 11), None)
    assert spans.joint_recall.features(hidden, joint_prediction(WRONG_SCORES, Span(4, 11), Span(0, 3))) == (0.0, 0.5)


def test_without_a_candidate_nothing_is_known_but_the_spans() -> None:
    question = example(Span(4, 11))
    broken = Prediction(
        example_id="1",
        value=None,
        status="nan",
        scores=(float("nan"),) * 3,
        parts=(Prediction(example_id="S0", value=Span(4, 11)),),
    )
    assert accuracy(question, broken) is None
    assert spans.joint_f1.features(question, broken) is None
    assert spans.joint_squad_f1(question, broken) is None
    assert value(spans.joint_f1_ungated, (question, broken)) == 1.0


ROWS = st.lists(
    st.tuples(
        st.sampled_from([RIGHT_SCORES, WRONG_SCORES, TIED_SCORES]),
        st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from([*PLACES, None])), min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=5,
)


@given(ROWS)
def test_against_the_metrics_of_single_spans(rows: list[Any]) -> None:
    """Ungated they are those of the spans one by one; gated those with nothing found where the candidate is wrong."""
    answered_examples = [
        (example(*(gold for gold, _ in pairs)), joint_prediction(scores, *(f for _, f in pairs)))
        for scores, pairs in rows
    ]
    singles = [
        pair for question, answer in answered_examples for pair in zip(question.parts, answer.parts, strict=True)
    ]
    for joint_metric, span_metric in (
        (spans.joint_precision_ungated, spans.span_precision),
        (spans.joint_recall_ungated, spans.span_recall),
        (spans.joint_f1_ungated, spans.span_f1),
    ):
        if any(answer.status == "ok" for _, answer in singles):
            assert value(joint_metric, *answered_examples) == pytest.approx(value(span_metric, *singles))  # type: ignore[arg-type]
    gated = 0.0
    weight = 0.0
    for question, answer in answered_examples:
        right = accuracy(question, answer)
        assert right is not None
        for single, prediction in zip(question.parts, answer.parts, strict=True):
            features = spans.span_precision.features(single, prediction)
            if right == 0:
                weight += single.weight
            elif features is not None:
                gated, weight = gated + right * features[0], weight + features[1]
    if weight:
        assert value(spans.joint_precision, *answered_examples) == pytest.approx(gated / weight)
