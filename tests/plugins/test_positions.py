"""Spans found without reading: at random, the last sentence, everything; and by one who was told."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import Harness, ModelError, ScoredSpan, Span, SpanExample, SpanQuery

HARNESS = Harness()
TEXT = " It rained. The dog ran home, “fast.” "


def ask(model, text=TEXT, proverb="k", quotation="g"):
    (spans,) = model.find_spans([SpanQuery(text, quotation, proverb)])
    return [text[span.span.start : span.span.end] for span in spans]


def test_the_last_sentence(open_model: Any):
    assert ask(open_model("last_sentence")) == ["The dog ran home, “fast.”"]
    assert ask(open_model("last_sentence"), "no end") == ["no end"]


def test_the_whole_text(open_model: Any):
    assert ask(open_model("whole_text")) == [TEXT]


@pytest.mark.parametrize("name", ["last_sentence", "whole_text", "random"])
@pytest.mark.parametrize("text", ["", " \n"])
def test_nothing_is_found_in_nothing(name, text, open_model: Any):
    assert ask(open_model(name), text) == []


@pytest.mark.parametrize("name", ["last_sentence", "whole_text", "oracle"])
def test_nothing_stands_behind_the_colon(name, open_model: Any):
    with pytest.raises(ModelError, match="takes nothing after the colon"):
        open_model(name, "x")


def test_a_random_span_depends_on_seed_and_question_only(open_model: Any):
    queries = [SpanQuery("a b c d e f g h", f"g{n}", "k") for n in range(50)]
    spans = open_model("random", seed=1).find_spans(queries)
    assert spans == [open_model("random", seed=1).find_spans([query])[0] for query in queries]
    assert spans != open_model("random", seed=2).find_spans(queries)


def test_every_span_of_tokens_is_as_likely_as_any_other(open_model: Any):
    text, n = "a b c d", 6000
    model = open_model("random")
    drawn = Counter(ask(model, text, proverb=str(number))[0] for number in range(n))
    tokens = text.split()
    every = [" ".join(tokens[i : j + 1]) for i in range(4) for j in range(i, 4)]
    assert set(drawn) == set(every)
    assert all(abs(count - n / 10) < 5 * (n * 0.09) ** 0.5 for count in drawn.values())


@given(st.text(max_size=60), st.integers())
def test_a_random_span_begins_and_ends_with_a_token(text, seed):
    with HARNESS.open_model("random", {"seed": seed}) as model:
        assert all(span == span.strip() != "" for span in ask(model.backend, text))


def example(**changes):
    return SpanExample(**{"id": "1", "text": TEXT, "given": "g", "known": "k", "gold": Span(1, 3), **changes})


def test_an_oracle_knows_what_it_was_told_and_nothing_else(open_model: Any):
    oracle = open_model("oracle")
    with pytest.raises(ModelError, match="cannot answer before"):
        ask(oracle)
    oracle.fit([example(), example(id="2", gold=Span(4, 11)), example(id="3", given="h", gold=None)])
    assert oracle.find_spans([SpanQuery(TEXT, "g", "k")]) == [[ScoredSpan(Span(1, 3), 0.0)]]  # of two, the first
    assert ask(oracle, quotation="h") == []
    assert (oracle.describe(), oracle.fit_splits) == ({"answers": 1}, ("test",))
