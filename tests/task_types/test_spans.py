"""Routes of spans: what they ask, what they make of the answers, and what is no answer."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from figeval import Prediction, PromptContext, Reply, ScoredSpan, Span, SpanExample, SpanQuery
from figeval.testing import predict
from tests.fakes import FakeEncoder, FakeGenerator, FakeModel, FakePairScorer
from tests.typed import find_route, task_types

TEXT = "it rained. the dog ran home, the cat slept."
EXAMPLE = SpanExample(id="1", text=TEXT, given="a hound", known="a hound at play", gold=Span(11, 28))
BY_HEAD, BY_JSON = find_route("spans", "by_head"), find_route("spans", "by_json")
BY_WINDOW_COSINE, BY_WINDOW_SCORE = find_route("spans", "by_window_cosine"), find_route("spans", "by_window_score")


@dataclass
class Pointing(FakeModel):
    """`find_spans` with one answer for all."""

    spans: list = field(default_factory=list)

    def find_spans(self, requests):
        self.note(requests)
        return [self.spans for _ in requests]


def answer(route, backend, example=EXAMPLE):
    brief = PromptContext(lambda *_, **__: "Where?\nJSON:", stop=("\n\n",), max_new_tokens=9)
    (prediction,) = predict(route, backend, [example], brief)
    return prediction


def text_of(prediction):
    return None if prediction.value is None else TEXT[prediction.value.start : prediction.value.end]


# ---- by_head ---------------------------------------------------------------------------------------------------------


def test_a_head_is_asked_once_and_its_best_span_counts():
    backend = Pointing(spans=[ScoredSpan(Span(11, 18), -0.1), ScoredSpan(Span(0, 9), -2.0)])
    prediction = answer(BY_HEAD, backend)
    assert (prediction.value, prediction.scores, prediction.tied, prediction.tied_spans) == (
        Span(11, 18),
        (-0.1,),
        1,
        (),
    )
    assert backend.asked == [SpanQuery(TEXT, "a hound", "a hound at play")]


def test_no_span_is_no_answer():
    assert answer(BY_HEAD, Pointing()) == Prediction(example_id="1", value=None, status="empty")


def test_a_score_that_is_no_number_is_no_answer():
    assert answer(BY_HEAD, Pointing(spans=[ScoredSpan(Span(0, 2), math.nan)])).status == "nan"


@pytest.mark.parametrize("span", [Span(0, 99), Span(-1, 2), Span(5, 3)])
def test_a_span_outside_the_text_is_a_mistake_of_the_model(span):
    with pytest.raises(ValueError, match="'1', which has 43 characters"):
        answer(BY_HEAD, Pointing(spans=[ScoredSpan(span, 0.0)]))


# ---- windows ---------------------------------------------------------------------------------------------------------


def dogs(text):
    return (text.count("dog") + text.count("hound"), text.count("cat") + text.count("rain") + 0.1)


def test_the_window_with_the_best_cosine():
    prediction = answer(BY_WINDOW_COSINE, FakeEncoder(function=dogs))
    assert text_of(prediction) == "the dog ran home,"
    assert prediction.scores == pytest.approx((1.0,))


def test_the_window_with_the_best_score():
    backend = FakePairScorer(function=lambda left, right: float("cat" in right) / len(right))
    assert text_of(answer(BY_WINDOW_SCORE, backend)) == "the cat slept."
    assert {pair.left for pair in backend.asked} == {"a hound"}


def test_windows_that_the_model_knows_nothing_of_are_no_candidates():
    encoder = FakeEncoder(function=lambda text: (float("cat" in text or "hound" in text), 0.0))
    assert text_of(answer(BY_WINDOW_COSINE, encoder)) == "the dog ran home, the cat slept."
    given_unknown = FakeEncoder(function=lambda text: (float("cat" in text), 0.0))
    assert answer(BY_WINDOW_COSINE, given_unknown).status == "nan"
    nothing_known = FakeEncoder(function=lambda text: (0.0, 0.0))
    assert answer(BY_WINDOW_COSINE, nothing_known).status == "empty"


def test_a_broken_model_does_not_look_like_one_that_answers():
    broken = FakeEncoder(function=lambda text: (math.nan if "cat" in text else 1.0, 1.0))
    assert (answer(BY_WINDOW_COSINE, broken).status, answer(BY_WINDOW_COSINE, broken).value) == (
        "nan",
        None,
    )
    assert answer(BY_WINDOW_SCORE, FakePairScorer(function=lambda *_: math.nan)).status == "nan"


def test_all_windows_that_tie_are_kept_and_the_first_is_the_value():
    prediction = answer(BY_WINDOW_SCORE, FakePairScorer(function=lambda _, right: float("cat" in right)))
    assert [TEXT[span.start : span.end] for span in prediction.tied_spans] == [
        "the dog ran home, the cat slept.",
        "the cat slept.",
    ]
    assert (prediction.value, prediction.tied) == (prediction.tied_spans[0], 2)


@pytest.mark.parametrize("text", ["", "  \n"])
@pytest.mark.parametrize("route", [BY_WINDOW_COSINE, BY_WINDOW_SCORE])
def test_a_text_without_tokens_has_no_windows(route, text):
    example = SpanExample(id="1", text=text, given="a", known="a", gold=None)
    backend = FakeEncoder() if route is BY_WINDOW_COSINE else FakePairScorer()
    assert answer(route, backend, example).status == "empty"


def test_scores_are_plain_floats_in_double_precision():
    prediction = answer(BY_WINDOW_SCORE, FakePairScorer(function=lambda *_: np.float32(0.1)))
    assert type(prediction.scores[0]) is float


# ---- by_json ---------------------------------------------------------------------------------------------------------


def test_a_quotation_is_found_again():
    backend = FakeGenerator(function=lambda _: '{"quote": "the dog ran home"}')
    prediction = answer(BY_JSON, backend)
    assert (text_of(prediction), prediction.status, prediction.scores) == ("the dog ran home", "ok", (1.0,))
    assert prediction.raw == '{"quote": "the dog ran home"}'
    (request,) = backend.asked
    assert (request.stop, request.max_new_tokens) == (("\n\n", "\nJSON:"), 9)


def test_a_quotation_that_is_nowhere_is_told_from_none():
    absent = answer(BY_JSON, FakeGenerator(function=lambda _: '{"quote": "a miller counted sacks"}'))
    assert (absent.status, absent.value) == ("absent", None)
    assert answer(BY_JSON, FakeGenerator(function=lambda _: "I would not know.")).status == "unparseable"
    assert answer(BY_JSON, FakeGenerator(function=lambda _: Reply(text="", finish="length"))).status == "truncated"


def test_a_solved_example_shows_its_span_as_json():
    backend = FakeGenerator(function=lambda _: "{}")
    shot = SpanExample(id="2", text='he said "no" to it', given="g", known="k", gold=Span(8, 12))
    answer_of = task_types().get("spans").few_shot_answer
    brief = PromptContext(lambda _, example, **__: example.id, shots=lambda _: [shot], few_shot_answer=answer_of)
    predict(BY_JSON, backend, [EXAMPLE], brief)
    (prompt,) = backend.asked
    assert [turn.content for turn in prompt.messages] == ["2", ' {"quote": "\\"no\\""}', "1"]
