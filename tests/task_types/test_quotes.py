"""Quotations: out of a reply, and back to where they stand."""

import json
import re
import string
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import example as example_of
from hypothesis import strategies as st

from figeval import PromptContext, Reply, Span, SpanExample
from tests.typed import find_quotation, find_route

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "task_types" / "quotations.json").read_text("utf-8"))
TEXT = GOLDEN["text"]
CONTEXT = PromptContext(lambda *_: "")
READER = find_route("spans", "by_json").reader
NO_SPAN = Span(0, 0)
CUTOFF = 0.7  # likeness of quotations that count
LETTERS = string.ascii_letters + "éßİﬁ’“”—… \n.,'\"{}\\"


def example(text=TEXT):
    return SpanExample(id="1", text=text, given=GOLDEN["given"], known=GOLDEN["known"], gold=None)


def heard(reply, text=TEXT, finish="stop"):
    return READER.read(example(text), CONTEXT, Reply(text=reply, finish=finish))


def stretch(span, text=TEXT):
    return None if span is None else text[span.start : span.end]


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["why"])
def test_replies(case):
    reading = heard(case["reply"], finish=case.get("finish", "stop"))
    expected = case["expect"]
    assert (reading.status, stretch(reading.value) or None) == (expected["status"], expected.get("text"))
    assert (reading.value == NO_SPAN) == expected.get("none", False)
    assert (reading.raw, reading.finish) == (case["reply"], case.get("finish", "stop"))


def test_the_corpus_has_a_reason_for_each_of_its_many_shapes():
    reasons = [case["why"] for case in GOLDEN["cases"]]
    assert len(set(reasons)) == len(reasons) >= 40


@pytest.mark.parametrize(
    ("quote", "is_verbatim", "is_found"),
    [
        ("she was hungry", True, True),
        ("She was hungry", False, True),
        ("she was very hungry", False, True),
        ("the miller counted his sacks at dawn", False, False),
    ],
)
def test_only_what_stands_there_word_for_word_is_verbatim(quote, is_verbatim, is_found):
    prediction = find_quotation(quote, TEXT)
    (likeness,) = prediction.scores
    assert (likeness == 1) == is_verbatim
    assert (prediction.value is not None) == (likeness >= CUTOFF) == is_found


def test_the_likeness_is_the_score():
    assert heard('{"quote": "she was hungry"}').scores == (1.0,)
    assert 0.7 < heard('{"quote": "She was hungry"}').scores[0] < 1
    assert heard('{"quote": "the miller counted his sacks"}').scores[0] < CUTOFF
    assert heard("no idea").scores == ()


def test_the_first_place_counts_and_whole_words_come_first():
    assert find_quotation("he", "the man said he left and he slept").value == Span(13, 15)
    assert find_quotation("eal", "steal a meal").value == Span(2, 5)  # nowhere a word of its own


def test_offsets_survive_characters_that_fold_to_several():
    text = "die straße war “groß…” und leer"
    assert stretch(find_quotation('STRASSE WAR "GROSS..."', text).value, text) == "straße war “groß…”"


def test_invisible_marks_and_composed_accents_do_not_matter():
    text = "the cafe\u0301 was\u00a0\u200bclosed"
    assert stretch(find_quotation("café was closed", text).value, text) == "cafe\u0301 was\u00a0\u200bclosed"


def test_an_error_is_no_answer():
    reading = READER.read(example(), CONTEXT, Reply(text="", finish="error", error="no route to host"))
    assert (reading.status, reading.value, reading.error) == ("error", None, "no route to host")


@pytest.mark.parametrize("text", ["", " ", "…"])
def test_nothing_is_found_in_a_text_without_words(text):
    assert heard('{"quote": "she was hungry"}', text).status == "absent"


texts = st.lists(st.text(LETTERS, min_size=1, max_size=12), min_size=1, max_size=12).map(" ".join)


@given(texts, st.data())
def test_any_stretch_quoted_verbatim_comes_back_with_its_own_text(text, data):
    start = data.draw(st.integers(0, len(text) - 1))
    quote = text[start : data.draw(st.integers(start + 1, len(text)))].strip()
    assume(any(map(str.isalnum, quote)))
    prediction = find_quotation(quote, text)
    assert (stretch(prediction.value, text), prediction.scores) == (quote, (1.0,))
    assume(re.sub(r"[\W_]", "", quote.lower()) not in {"none", "null", "na", "n", "a"})
    reading = heard(json.dumps({"quote": quote}), text)
    assert (reading.status, stretch(reading.value, text)) == ("ok", quote)


@given(texts, st.text(LETTERS, max_size=40))
def test_a_place_lies_in_the_text_and_is_not_empty(text, quote):
    prediction = find_quotation(quote, text)
    assert 0 <= prediction.scores[0] <= 1
    if prediction.value is not None:
        assert 0 <= prediction.value.start < prediction.value.end <= len(text)


@example_of(reply="{[]}", finish="stop")
@example_of(reply="{{}: 1}", finish="stop")
@given(st.text(max_size=200) | st.text('{}"[]:,\\quotespan \n', max_size=80), st.sampled_from(["stop", "length"]))
def test_no_reply_raises(reply, finish):
    assert heard(reply, finish=finish).status in {
        "ok",
        "absent",
        "ambiguous",
        "unparseable",
        "empty",
        "truncated",
        "refusal",
    }


def test_a_long_reply_is_read_in_no_time():
    assert heard('{"quote": ' * 3000).status in {"unparseable", "ok", "absent"}
    assert heard('"' * 20_000).status == "unparseable"
    assert heard("{" * 20_000).status == "unparseable"
    assert heard("'x " * 7000).status == "unparseable"
