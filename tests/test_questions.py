"""When two texts ask the same."""

from __future__ import annotations

import pytest

from figeval.language.questions import core_of


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Hello, World!", "hello world"),
        ("ILIK su", "ılık su"),
        ("\uff26\uff35\uff2c\uff2c", "full"),
        ("2-3", "2 \u2013 3"),
        ("*word*", "word"),
        ("It ends at 3.", "It ends at 3"),
        ("don't", "dont"),
        ("In 1990, 12 swans left.", "In 1990 12 swans left"),
        ("He rose at 5: 3 went", "He rose at 5. 3 went"),
    ],
)
def test_blanks_punctuation_case_and_width_are_no_difference(text: str, other: str) -> None:
    assert core_of(text) == core_of(other)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("2 + 3 = 5", "2 - 3 = 5"),
        ("2 - 3", "2 * 3"),
        ("3.14 is pi", "314 is pi"),
        ("3:1 at noon", "31 at noon"),
        ("50%", "50"),
        ("👍 or 👎", "👎 or 👍"),
        ("कि", "की"),
        ("über", "uber"),
        ("!!", "??"),
    ],
)
def test_symbols_and_marks_are(text: str, other: str) -> None:
    assert core_of(text) != core_of(other)
