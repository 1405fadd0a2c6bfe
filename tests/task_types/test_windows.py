"""Windows: what may be an answer where a model cannot point."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import Span
from figeval.task_types.spans import LONGEST_RUN, clauses, sentences, trimmed, windows

texts = st.text() | st.lists(
    st.sampled_from(
        ["a", "dog", "and", "because", "ran", ".", "…", "?!", ",", ";", "—", "-", "'", '"', " ", "\n\n", "。", "mr."]
    )
).map(" ".join)


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
    assert texts_of(text, sentences(text)) == expected


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
    assert texts_of(text, clauses(text, Span(0, len(text)))) == expected


def test_windows_are_sentences_clauses_and_their_runs():
    text = "he ran, she sat, they ate. gone."
    assert texts_of(text, windows(text)) == [
        *("he ran,", "he ran, she sat,", "he ran, she sat, they ate."),
        *("she sat,", "she sat, they ate.", "they ate.", "gone."),
    ]


def test_a_text_without_full_stops_has_no_more_windows_than_it_should():
    text = "and so on, " * 3000
    assert len(windows(text)) <= len(clauses(text, Span(0, len(text)))) * LONGEST_RUN + 1


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
def test_sentences_do_not_overlap_and_clauses_stay_within_theirs(text):
    end = 0
    for sentence in sentences(text):
        assert sentence.start >= end
        end = sentence.end
        assert all(sentence.start <= piece.start < piece.end <= sentence.end for piece in clauses(text, sentence))


def test_what_holds_only_white_space_is_trimmed_to_nothing():
    assert trimmed("a   b", Span(1, 4)) == Span(4, 4)
