"""Span metrics: against counting by hand, against brute force, and what has no score."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import MetricAggregator, Prediction, Span, SpanExample
from figeval.metrics import spans as m
from figeval.metrics.statistic import as_statistic
from tests.aggregated import count_in

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "spans" / "found.json").read_text("utf-8"))
NO_SPAN = Span(0, 0)  # the answer that no span is right
STATISTICS = ("span_precision", "span_recall", "span_f1")
MEANS = ("squad_f1", "squad_f1_of_all", "exact_match", "verbatim")
SILENT_STATUSES = ("unparseable", "absent", "refusal", "empty", "truncated", "ambiguous", "nan")


def span_of(text, start, end, identity="1", **extra):
    return Prediction(example_id=identity, value=Span(start, end), **extra)


def statistic(name):
    return as_statistic(getattr(m, name))


def row(case):
    text, gold = case["text"], case["text"].index(case["gold"])
    example = example_of(text, Span(gold, gold + len(case["gold"])))
    start = text.index(case["found"])
    return example, span_of(text, start, start + len(case["found"]))


CASES = [case for case in GOLDEN["cases"] if "reference" not in case]  # those are ePiC's, as are published scores


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_golden(case):
    example, prediction = row(case)
    for name in case["expect"].keys() & {*STATISTICS, *MEANS}:
        assert score(name, [(example, prediction)]) == pytest.approx(case["expect"][name]), name


def score(name, rows):
    tally = MetricAggregator(name, statistic(name))
    for example, prediction in rows:
        count_in(tally, example, prediction)
    return tally.score().value


def example_of(text, gold, weight=1.0, cluster=None):
    return SpanExample(id="1", text=text, given="g", known="k", gold=gold, weight=weight, cluster=cluster)


def test_weights_make_means_by_narrative_and_f1_is_that_of_the_means():
    text = "a b c d"
    gold = Span(0, 3)  # a b
    pairs = [(example_of(text, gold, 0.5), span_of(text, 0, 3)), (example_of(text, gold, 0.5), span_of(text, 4, 7))]
    two = [(example_of(text, gold), span_of(text, 0, 7))]
    assert score("span_precision", pairs + two) == pytest.approx((0.5 + 0.5) / 2)
    assert score("span_recall", pairs + two) == pytest.approx((0.5 + 1) / 2)
    assert score("span_f1", pairs + two) == pytest.approx(2 * 0.5 * 0.75 / 1.25)
    assert score("squad_f1", pairs + two) == pytest.approx((1 + 0 + 2 / 3) / 3)


@pytest.mark.parametrize("status", SILENT_STATUSES)
def test_no_answer_is_no_zero(status):
    silent = Prediction(example_id="1", value=None, status=status)
    example = example_of("a b", Span(0, 1))
    assert all(statistic(name).features(example, silent) is None for name in (*STATISTICS, *MEANS[:1], "exact_match"))
    assert m.squad_f1_of_all(example, silent) == 0.0


def test_an_error_or_a_hidden_gold_is_not_even_that():
    broken = Prediction(example_id="1", value=None, status="error")
    assert m.squad_f1_of_all(example_of("a b", Span(0, 1)), broken) is None
    hidden = example_of("a b", None)
    for name in (*STATISTICS, "squad_f1", "squad_f1_of_all", "exact_match"):
        assert statistic(name).features(hidden, span_of("a b", 0, 1)) is None


def test_a_span_without_words_is_an_answer_and_a_wrong_one():
    example, empty = example_of("a — b", Span(0, 1)), span_of("a — b", 2, 3)
    for name in ("span_precision", "span_recall", "span_f1", "squad_f1", "squad_f1_of_all", "exact_match"):
        assert score(name, [(example, empty)]) == 0


def test_a_gold_without_words_says_nothing():
    example = example_of("a — b", Span(2, 3))
    assert score("span_recall", [(example, span_of("a — b", 0, 1))]) is None
    assert score("squad_f1", [(example, span_of("a — b", 0, 1))]) is None


def test_ties_are_scored_by_expectation():
    text = "a b c d"
    tied = span_of(text, 0, 1, tied_spans=(Span(0, 1), Span(4, 5)), tied=2)
    example = example_of(text, Span(0, 1))
    for name in ("span_precision", "span_recall", "span_f1", "squad_f1", "exact_match"):
        assert score(name, [(example, tied)]) == pytest.approx(0.5)


def test_verbatim_is_a_share_of_what_was_quoted():
    example = example_of("a b", Span(0, 1))
    rows = [
        (example, span_of("a b", 0, 1, scores=(1.0,))),
        (example, span_of("a b", 0, 1, scores=(0.99,))),
        (example, Prediction(example_id="1", value=None, status="absent", scores=(0.2,))),
        (example, Prediction(example_id="1", value=None, status="unparseable")),
    ]
    assert score("verbatim", rows) == pytest.approx(1 / 3)


def test_clusters_make_the_interval():
    text = "a b c d"
    rows = [(example_of(text, Span(0, 3), cluster=f"Q{n % 60}"), span_of(text, 0, 1 + 2 * (n % 4))) for n in range(240)]
    tally = MetricAggregator("span_f1", m.span_f1)
    for example, prediction in rows:
        count_in(tally, example, prediction)
    result = tally.score()
    assert (result.n, result.clusters, result.interval.method) == (240, 60, "cluster bootstrap")
    assert result.low < result.value < result.high


# ---- brute force -----------------------------------------------------------------------------------------------------

tokens = st.sampled_from(["a", "b", "the", "don't", "c,", '"d"', "—", "e!", "5%"])
rows = st.lists(
    st.tuples(st.lists(tokens, min_size=1, max_size=8), st.integers(0, 8), st.integers(0, 8), st.integers(1, 3)),
    min_size=1,
    max_size=6,
)


def bare(token):
    return token.strip(".,!?\"“”'%—-")


@given(rows)
def test_against_brute_force(drawn):
    f1_of_rows, precisions, recalls, weights, f1s = [], [], [], [], []
    for words, first, last, parts in drawn:
        text = " ".join(words)
        gold_words = [bare(word) for word in words if bare(word)]
        if not gold_words:
            continue
        span_words = words[first : max(first, last)]
        start = len(" ".join(words[:first])) + (0 < first < len(words))
        end = start + len(" ".join(span_words))
        f1_of_rows.append(
            (example_of(text, Span(0, len(text)), 1 / parts), span_of(text, min(start, len(text)), min(end, len(text))))
        )
        got = [bare(word) for word in span_words if bare(word)]
        shared = len(set(got) & set(gold_words))
        precisions.append(shared / len(set(got)) if got else 0)
        recalls.append(shared / len(set(gold_words)))
        weights.append(1 / parts)
        f1s.append(2 * sum((Counter(got) & Counter(gold_words)).values()) / (len(got) + len(gold_words)))
    if f1_of_rows:
        p, r = np.average(precisions, weights=weights), np.average(recalls, weights=weights)
        assert score("span_precision", f1_of_rows) == pytest.approx(p)
        assert score("span_recall", f1_of_rows) == pytest.approx(r)
        assert score("span_f1", f1_of_rows) == pytest.approx(2 * p * r / (p + r) if p + r else 0)
        assert score("squad_f1", f1_of_rows) == pytest.approx(np.mean(f1s))


@given(st.text(max_size=40))
def test_words_have_no_punctuation_at_their_edges(text):
    for word in m.words(text):
        assert word and not any(map(str.isspace, word))
        assert m.words(word) == (word,)


def test_words_of_other_scripts_keep_their_signs():
    assert m.words("वह “घर” गया। ¿qué? 「犬」 don’t") == ("वह", "घर", "गया", "qué", "犬", "don’t")


def test_what_has_no_appearance_is_no_part_of_a_token():
    assert m.words("\u200fשלום\u200f, עולם\u200e") == ("שלום", "עולם")
    assert m.words("❤️ me ☀️ 👩\u200d🚀 1️⃣") == ("me", "1\u20e3")


@pytest.mark.parametrize("name", [*STATISTICS, "squad_f1", "squad_f1_of_all", "exact_match"])
def test_that_no_span_is_right_is_an_answer_of_its_own(name):
    text = "a b c d"
    absent, present = example_of(text, NO_SPAN), example_of(text, Span(0, 3))
    none, first_word, mark = span_of(text, 0, 0), span_of(text, 0, 3), span_of("a - b", 2, 3)
    assert score(name, [(absent, none)]) == 1
    assert score(name, [(absent, first_word)]) == 0
    assert score(name, [(present, none)]) == 0
    assert score(name, [(example_of("a - b", NO_SPAN), mark)]) == 0, "a dash is a span, though it has no word"
    assert score(name, [(absent, none), (present, first_word), (absent, first_word)]) == pytest.approx(2 / 3)
    assert score(name, [(example_of(text, None), none)]) is None, "hidden is not absent"


def test_the_answer_that_there_is_no_span_quotes_nothing():
    assert score("verbatim", [(example_of("a b", NO_SPAN), span_of("a b", 0, 0))]) is None
