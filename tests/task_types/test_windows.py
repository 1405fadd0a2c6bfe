"""Windows: what may be an answer where a model cannot point."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import SpanExample
from figeval.testing import predict
from tests.fakes import FakePairScorer
from tests.typed import find_route

BY_WINDOW_SCORE = find_route("spans", "by_window_score")
LONGEST_RUN = 8  # clauses

texts = st.text() | st.lists(
    st.sampled_from(
        ["a", "dog", "and", "because", "ran", ".", "…", "?!", ",", ";", "—", "-", "'", '"', " ", "\n\n", "。", "mr."]
    )
).map(" ".join)


def windows(text):
    """The windows of a text: to a model that scores all alike, all are right."""
    example = SpanExample(id="1", text=text, given="g", known="k", gold=None)
    (prediction,) = predict(BY_WINDOW_SCORE, FakePairScorer(function=lambda *_: 1.0), [example])
    return prediction.tied_spans or [span for span in [prediction.value] if span is not None]


def outermost(spans):
    return [span for span in spans if not any(other != span and contains(other, span) for other in spans)]


def innermost(spans):
    return [span for span in spans if not any(other != span and contains(span, other) for other in spans)]


def contains(outer, inner):
    return outer.start <= inner.start and inner.end <= outer.end


def texts_of(text, spans):
    return [text[span.start : span.end] for span in spans]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("he ran. she sat! why? gone", ["he ran.", "she sat!", "why?", "gone"]),
        ('he said "run." she ran.', ['he said "run."', "she ran."]),
        ("wait... what?! no.", ["wait...", "what?!", "no."]),
        ("mr. smith met dr. jones. they sat.", ["mr. smith met dr. jones.", "they sat."]),
        ("it cost 3.50 at noon. ok.", ["it cost 3.50 at noon.", "ok."]),
        ("a title\n\nthe text", ["a title", "the text"]),
        ("彼は走った。彼女は座った。", ["彼は走った。", "彼女は座った。"]),
        ("  \n ", []),
        ("", []),
    ],
)
def test_sentences(text, expected):
    assert texts_of(text, outermost(windows(text))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("he ran, and she sat", ["he ran,", "and she sat"]),
        ("when it rained he slept because he could", ["when it rained he slept because he could"]),
        ("he paid - twice – for it—all", ["he paid -", "twice –", "for it—", "all"]),
        ("a well-known man", ["a well-known man"]),
        ('"run," he said', ['"run,"', "he said"]),
        ("10,000 coins; none left", ["10,000 coins;", "none left"]),
    ],
)
def test_clauses(text, expected):
    assert texts_of(text, innermost(windows(text))) == expected


def test_windows_are_sentences_clauses_and_their_runs():
    text = "he ran, she sat, they ate. gone."
    assert texts_of(text, windows(text)) == [
        *("he ran,", "he ran, she sat,", "he ran, she sat, they ate."),
        *("she sat,", "she sat, they ate.", "they ate.", "gone."),
    ]


def test_a_text_without_full_stops_has_no_more_windows_than_it_should():
    assert len(windows("and so on, " * 3000)) <= 3000 * LONGEST_RUN + 1


@given(texts)
def test_windows_lie_in_the_text_none_is_empty_and_all_of_it_is_covered(text):
    windows_of_text = windows(text)
    for span in windows_of_text:
        assert 0 <= span.start < span.end <= len(text)
        assert text[span.start : span.end] == text[span.start : span.end].strip() != ""
    assert len(set(windows_of_text)) == len(windows_of_text)
    assert list(windows_of_text) == sorted(windows_of_text, key=lambda span: (span.start, span.end))
    covered = {index for span in windows_of_text for index in range(span.start, span.end)}
    assert all(character.isspace() for index, character in enumerate(text) if index not in covered)


@given(texts)
def test_clauses_do_not_overlap(text):
    clauses = innermost(windows(text))
    assert all(clause.end <= following.start for clause, following in pairwise(clauses))
