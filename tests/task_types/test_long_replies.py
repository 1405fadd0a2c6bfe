"""Replies that are made to be slow, and very long ones: what is read of them, and that they are read at all.

How fast is measured by bench/extractor.py. Each of these took minutes before it was mended, and would run into the
time limit of all tests.
"""

from __future__ import annotations

import pytest

from figeval import PromptContext, Reply, Span, SpanExample, extract_choice, extract_label
from tests.typed import find_quotation, find_route

OPTIONS, LETTERS = ["a patched boat floats", "the roof leaked", "no smoke"], "ABC"
LINE = "He kicked the bucket into the corner and the bucket rolled back. "
MAX_CHARS = 16_000  # of a reply of which everything is read
PIECES = ["A, ", "A\n", "answer is ", "Yes, ", "-", "{", '"', "'a' ", "<think></think>", '{"quote": "a', "the bucket "]


@pytest.mark.slow
@pytest.mark.parametrize("piece", PIECES)
def test_a_million_characters_of_anything_are_read(piece: str) -> None:
    reply = Reply(text=piece * (1_000_000 // len(piece)) + "x")
    example = SpanExample(id="1", text=LINE * 20, given="the roof", known="the roof leaked", gold=None)
    assert extract_choice(reply, OPTIONS, LETTERS).status
    assert extract_label(reply, [("Yes",), ("No", "Maybe")]).status
    reader = find_route("spans", "by_json").reader
    assert reader is not None
    assert reader.read(example, PromptContext(lambda *_: ""), reply).status


@pytest.mark.slow
def test_a_long_reply_answers_at_its_beginning_or_its_end() -> None:
    prose = "The story is about patience and greed. " * 100_000
    for text in (f"The answer is B. {prose}", f"{prose} The answer is B."):
        assert extract_choice(Reply(text=text), OPTIONS, LETTERS).index == 1
    assert extract_choice(Reply(text=f"{prose} The answer is B. {prose}"), OPTIONS, LETTERS).status == "unparseable"


def test_the_middle_is_left_out_of_longer_replies() -> None:
    words = "word " * (MAX_CHARS // 10 - 10)
    assert extract_choice(Reply(text=f"{words}The answer is B. {words}"), OPTIONS, LETTERS).index == 1
    longer = f"{words}The answer is B. {words * 2}"
    assert extract_choice(Reply(text=longer), OPTIONS, LETTERS).status == "unparseable"
    thought = f"<think>{words * 9}</think>B"
    assert extract_choice(Reply(text=thought), OPTIONS, LETTERS).index == 1, "what a model thinks is not counted"


def test_a_quotation_as_long_as_a_long_text() -> None:
    text = LINE * 500
    assert find_quotation(text.upper(), text).value == Span(0, len(text.strip()))
    assert find_quotation(text[::-1], text).status == "absent"
    assert 0 < find_quotation("kicked the bukket into a corner", text).scores[0] < 1
    assert find_quotation("a" * 20_000, "a" * 40_000).value == Span(0, 20_000)
    assert find_quotation("b" * 10_000_000, text).status == "absent"
