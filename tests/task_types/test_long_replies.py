"""Replies that are made to be slow, and very long ones: what is read of them, and that they are read at all.

How fast is measured by bench/extractor.py. Each of these took minutes before it was mended, and would run into the
time limit of all tests.
"""

from __future__ import annotations

import pytest

from figeval import Reply, Span, SpanExample, extract_choice, extract_label
from figeval.answers.quotes import locate, quotation
from figeval.answers.reply_text import BEGINNING, END, answering_part

OPTIONS, LETTERS = ["a patched boat floats", "the roof leaked", "no smoke"], "ABC"
LINE = "He kicked the bucket into the corner and the bucket rolled back. "
PIECES = ["A, ", "A\n", "answer is ", "Yes, ", "-", "{", '"', "'a' ", "<think></think>", '{"quote": "a', "the bucket "]


@pytest.mark.slow
@pytest.mark.parametrize("piece", PIECES)
def test_a_million_characters_of_anything_are_read(piece: str) -> None:
    reply = Reply(text=piece * (1_000_000 // len(piece)) + "x")
    example = SpanExample(id="1", text=LINE * 20, given="the roof", known="the roof leaked", gold=None)
    assert extract_choice(reply, OPTIONS, LETTERS).status
    assert extract_label(reply, [("Yes",), ("No", "Maybe")]).status
    assert quotation(reply, example).status


@pytest.mark.slow
def test_a_long_reply_answers_at_its_beginning_or_its_end() -> None:
    prose = "The story is about patience and greed. " * 100_000
    for text in (f"The answer is B. {prose}", f"{prose} The answer is B."):
        assert extract_choice(Reply(text=text), OPTIONS, LETTERS).index == 1
    assert extract_choice(Reply(text=f"{prose} The answer is B. {prose}"), OPTIONS, LETTERS).status == "unparseable"


def test_the_middle_is_left_out_between_words() -> None:
    long_text = "word " * ((BEGINNING + END) // 5)
    assert answering_part(long_text) == long_text
    longer = answering_part(long_text + "an answer")
    assert longer.startswith("word word") and longer.endswith("word an answer")
    assert set(longer.replace("\n\n", " ").split()) == {"word", "an", "answer"}
    assert BEGINNING + END - 10 < len(longer) <= BEGINNING + END + 2
    assert answering_part(f"<think>{long_text * 9}</think>B") == "B", "what a model thinks is not counted"


def test_a_quotation_as_long_as_a_long_text() -> None:
    text = LINE * 500
    assert locate(text.upper(), text).span == Span(0, len(text.strip()))
    assert locate(text[::-1], text).kind == "nowhere"
    assert locate("kicked the bukket into a corner", text).kind == "near"
    assert locate("a" * 20_000, "a" * 40_000).span == Span(0, 20_000)
    assert locate("b" * 10_000_000, text).kind == "nowhere"
