"""One question in several orders of its options: which orders, asked together, and folded into one prediction."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import CapabilityError, ChoiceExample, Continuation, Prediction, PromptContext, Reply
from figeval.models.batching import BatchScheduler
from figeval.task_types.choice import Choice
from figeval.task_types.debiasing import as_they_are, combine_answers, in_orders, orders_of, together
from figeval.task_types.fields import reordered
from tests.fakes import FakeGenerator, FakeLanguageModel, multi_round_route
from tests.typed import route_of

EXAMPLE = ChoiceExample(id="1", query="q", options=("wrong", "right", "silly"), gold=1)
LETTER, LETTER_LIKELIHOOD = route_of(Choice, "by_letter"), route_of(Choice, "by_letter_likelihood")
ORDERS = st.integers(1, 7).flatmap(lambda n: st.permutations(range(n)))


def block(name, example, **extra):
    return " ".join(f"{letter}={option}" for letter, option in zip("ABCDEFGH", example.options, strict=False))


def predict_in_orders(route, backend, orders, example=EXAMPLE, seed=0):
    start = in_orders(route, orders, seed).start
    ((_, prediction),) = BatchScheduler(backend, lambda e: start(e, PromptContext(block))).predictions([example])
    return prediction


def names(text):
    """A backend that knows the right option wherever it stands."""
    return next(pair[0] for pair in text.split() if pair.endswith("=right"))


# ---- which orders ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5, 26])
def test_in_cyclic_orders_every_option_stands_everywhere_once(n):
    orders = orders_of(replace(EXAMPLE, options=tuple("abcdefghijklmnopqrstuvwxyz"[:n]), gold=0), "cyclic", 0)
    assert len(orders) == n
    assert orders[0] == tuple(range(n))
    for index in range(n):
        assert sorted(order[index] for order in orders) == list(range(n))


def test_all_orders_of_five_options_and_of_no_more():
    five = replace(EXAMPLE, options=tuple("abcde"))
    assert len(set(orders_of(five, "all", 0))) == math.factorial(5)
    with pytest.raises(CapabilityError, match="--orders all: 6 options have 720 orders; use cyclic or a number"):
        orders_of(replace(EXAMPLE, options=tuple("abcdef")), "all", 0)


def test_drawn_orders_differ_and_depend_on_seed_and_example():
    five = replace(EXAMPLE, options=tuple("abcde"))
    drawn = orders_of(five, "20", 1)
    assert len(set(drawn)) == 20
    assert drawn == orders_of(five, "20", 1)
    assert drawn != orders_of(five, "20", 2)
    assert drawn != orders_of(replace(five, id="2"), "20", 1)
    assert sorted(orders_of(EXAMPLE, "100", 0)) == sorted(orders_of(EXAMPLE, "all", 0)), "there are only six"


@given(ORDERS, st.data())
def test_what_is_seen_in_an_order_can_be_told_in_terms_of_the_options(order, data):
    options = tuple(f"o{i}" for i in range(len(order)))
    gold = data.draw(st.integers(0, len(order) - 1))
    example = ChoiceExample(id="1", query="q", options=options, gold=gold)
    shown = reordered(example, "options", tuple(order))
    assert shown.options[shown.gold] == options[gold]
    scores = tuple(float(option[1:]) for option in shown.options)
    restored = as_they_are(Prediction(example_id="1", value=shown.gold, scores=scores), tuple(order))
    assert (restored.value, restored.scores, restored.order) == (
        gold,
        tuple(map(float, range(len(order)))),
        tuple(order),
    )


# ---- asked together --------------------------------------------------------------------------------------------------


def test_all_orders_go_in_one_round_and_a_model_that_reads_is_consistent():
    backend = FakeGenerator(function=names)
    prediction = predict_in_orders(LETTER, backend, "cyclic")
    assert len(backend.batches) == 1
    assert [prompt.messages[-1].content for prompt in backend.asked] == [
        *("A=wrong B=right C=silly", "A=right B=silly C=wrong", "A=silly B=wrong C=right")
    ]
    assert (prediction.value, prediction.scores, prediction.tied) == (1, (0.0, 1.0, 0.0), 1)
    assert [answer.raw for answer in prediction.answers] == ["B", "A", "C"]
    assert [answer.value for answer in prediction.answers] == [1, 1, 1]


def test_a_liking_for_a_place_chooses_every_option_equally_often():
    prediction = predict_in_orders(LETTER, FakeGenerator(function=lambda _: "A"), "cyclic")
    assert [answer.value for answer in prediction.answers] == [0, 1, 2]
    assert prediction.scores == (1 / 3, 1 / 3, 1 / 3)
    assert prediction.tied == 3


def test_scores_are_told_in_terms_of_the_options():
    backend = FakeLanguageModel(function=lambda context, letter: -1.0 if f"{letter.strip()}=right" in context else -2.0)
    prediction = predict_in_orders(LETTER_LIKELIHOOD, backend, "all")
    assert {answer.scores for answer in prediction.answers} == {(-2.0, -1.0, -2.0)}
    assert prediction.value == 1


def test_dialogues_of_different_length_keep_their_own_outputs():
    def request(name):
        return Continuation(name, " x")

    def dialogue(rounds):
        return multi_round_route(*([request(name) for name in names] for names in rounds), then=lambda out: out)(None)

    talk = together([dialogue([["a", "b"]]), dialogue([["c"], ["d", "e"], ["f"]])])
    sent = next(talk)
    with pytest.raises(StopIteration) as ended:
        while True:
            sent = talk.send([f"<{request.context}>" for request in sent])
    assert ended.value.value == [[["<a>", "<b>"]], [["<c>"], ["<d>", "<e>"], ["<f>"]]]


def test_a_route_that_shows_one_option_at_a_time_is_refused():
    with pytest.raises(CapabilityError, match="by_cosine shows no list of options, so --orders would change nothing"):
        in_orders(route_of(Choice, "by_cosine"), "cyclic", 0)


# ---- one answer from several -----------------------------------------------------------------------------------------


def predict(value, status="ok", **extra):
    return Prediction(example_id="1", value=value, status=status, **extra)


@pytest.mark.parametrize(
    ("answers", "value", "status", "scores"),
    [
        ([predict(1), predict(1), predict(0)], 1, "ok", (1 / 3, 2 / 3, 0.0)),
        ([predict(1), predict(None, "refusal"), predict(0), predict(1)], 1, "ok", (1 / 3, 2 / 3, 0.0)),
        ([predict(None, "empty"), predict(None, "refusal"), predict(None, "refusal")], None, "refusal", ()),
        ([predict(0, scores=(2.0, 2.0, 1.0), tied=2), predict(1)], 1, "ok", (0.25, 0.75, 0.0)),
    ],
    ids=["majority", "of those that answered", "no answer", "a tie is half a vote each"],
)
def test_folding(answers, value, status, scores):
    prediction = combine_answers(EXAMPLE, answers)
    assert (prediction.value, prediction.status, prediction.scores) == (value, status, scores)
    assert prediction.answers == tuple(answers)


def test_an_error_in_one_order_is_an_error_of_the_whole():
    def moody(text):
        return Reply(text="", finish="error", error="timeout") if text.startswith("A=silly") else names(text)

    prediction = predict_in_orders(LETTER, FakeGenerator(function=moody), "cyclic")
    assert (prediction.status, prediction.value, prediction.error) == ("error", None, "timeout")
    assert [answer.status for answer in prediction.answers] == ["ok", "ok", "error"]
