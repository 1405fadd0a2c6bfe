"""Spans found without reading: at random, the last sentence, everything; and by one who was told."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import ModelError, ScoredSpan, Span, SpanExample, SpanQuery
from figeval.builtin.plugins.baselines.guessing import Random
from figeval.builtin.plugins.baselines.positions import LastSentence, Oracle, WholeText

TEXT = " It rained. The dog ran home, “fast.” "


def ask(model, text=TEXT, proverb="k", quotation="g"):
    (spans,) = model.find_spans([SpanQuery(text, quotation, proverb)])
    return [text[span.span.start : span.span.end] for span in spans]


def test_the_last_sentence():
    assert ask(LastSentence()) == ["The dog ran home, “fast.”"]
    assert ask(LastSentence(), "no end") == ["no end"]


def test_the_whole_text():
    assert ask(WholeText()) == [TEXT]


@pytest.mark.parametrize("model", [LastSentence(), WholeText(), Random()])
@pytest.mark.parametrize("text", ["", " \n"])
def test_nothing_is_found_in_nothing(model, text):
    assert ask(model, text) == []


@pytest.mark.parametrize("factory", [LastSentence, WholeText, Oracle])
def test_nothing_stands_behind_the_colon(factory):
    with pytest.raises(ModelError, match="takes nothing after the colon"):
        factory("x")


def test_a_random_span_depends_on_seed_and_question_only():
    queries = [SpanQuery("a b c d e f g h", f"g{n}", "k") for n in range(50)]
    spans = Random(seed=1).find_spans(queries)
    assert spans == [Random(seed=1).find_spans([query])[0] for query in queries]
    assert spans != Random(seed=2).find_spans(queries)


def test_every_span_of_tokens_is_as_likely_as_any_other():
    text, n = "a b c d", 6000
    drawn = Counter(ask(Random(), text, proverb=str(n))[0] for n in range(n))
    tokens = text.split()
    every = [" ".join(tokens[i : j + 1]) for i in range(4) for j in range(i, 4)]
    assert set(drawn) == set(every)
    assert all(abs(count - n / 10) < 5 * (n * 0.09) ** 0.5 for count in drawn.values())


@given(st.text(max_size=60), st.integers())
def test_a_random_span_begins_and_ends_with_a_token(text, seed):
    for span in ask(Random(seed=seed), text):
        assert span == span.strip() != ""


def example(**changes):
    return SpanExample(**{"id": "1", "text": TEXT, "given": "g", "known": "k", "gold": Span(1, 3), **changes})


def test_an_oracle_knows_what_it_was_told_and_nothing_else():
    oracle = Oracle()
    with pytest.raises(ModelError, match="cannot answer before"):
        ask(oracle)
    oracle.fit([example(), example(id="2", gold=Span(4, 11)), example(id="3", given="h", gold=None)])
    assert oracle.find_spans([SpanQuery(TEXT, "g", "k")]) == [[ScoredSpan(Span(1, 3), 0.0)]]  # of two, the first
    assert ask(oracle, quotation="h") == []
    assert (oracle.describe(), oracle.fit_splits) == ({"answers": 1}, ("test",))
