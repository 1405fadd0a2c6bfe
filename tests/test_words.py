"""Words in every language: what is a word, where it is, and how it is compared."""

from __future__ import annotations

import re
from itertools import pairwise
from unicodedata import category
from unicodedata import normalize as unicode_form

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval.language.words import find_words, is_boundary, letters, normalize, split_tokens, split_words

FORMER_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")  # of versions up to 0.2; right in scripts without marks
PLAIN_TEXTS = st.text("abcxyzÄÖÜäöüßéèçñÉøåœάέώαβγΣςАБВабвяё 0123456789.,;:!?_-\"'’()\n", max_size=60)
MIXED_TEXTS = st.text(
    "aի՞՛՚ʻʼ‘ŉ＇Zé e\u0301ẞßİıI\u0307'’·_.,1٣ कमल ि्\u200d\u200c\u00adಕಾ"
    '中文かなー한글\u1100\u1161กำเาက္ကצה"״שָׁ👩👩\u200d👧🇩🇪🏽\r\n\ufe0f',
    max_size=40,
)
LANGUAGES = st.sampled_from(["", "en", "de", "tr", "az-Latn", "lt", "zh-Hant", "he"])


@given(PLAIN_TEXTS)
def test_words_of_latin_greek_and_cyrillic_texts_are_those_of_earlier_versions(text: str) -> None:
    former = [unicode_form("NFC", word.casefold()) for word in FORMER_WORD.findall(text.replace("’", "'"))]
    assert split_words(text) == former


@given(MIXED_TEXTS, LANGUAGES)
def test_places_of_words_are_in_the_original_text(text: str, language: str) -> None:
    words = [*find_words(text, language)]
    assert [word.text for word in words] == split_words(text, language)
    assert all(0 <= word.start < word.end <= len(text) for word in words)
    assert all(before.end <= after.start for before, after in pairwise(words))
    assert all(split_words(text[word.start : word.end], language) == [word.text] for word in words)


@given(MIXED_TEXTS, LANGUAGES)
def test_words_are_the_same_in_every_unicode_form(text: str, language: str) -> None:
    composed, decomposed = (split_words(unicode_form(form, text), language) for form in ("NFC", "NFD"))
    assert composed == decomposed == split_words(text, language)
    assert letters(text, language) == letters(unicode_form("NFD", text), language)


@given(MIXED_TEXTS, LANGUAGES)
def test_words_are_not_divided_at_boundaries(text: str, language: str) -> None:
    assert is_boundary(text, 0) and is_boundary(text, len(text))
    for word in find_words(text, language):
        run = re.split(r"\s", text[: word.start])[-1]
        is_conjunct = "Mn" in map(category, run)  # a virama may join letters of scripts with and without blanks
        assert is_boundary(text, word.start) or is_conjunct


@given(MIXED_TEXTS, LANGUAGES)
def test_normalization_changes_nothing_the_second_time(text: str, language: str) -> None:
    assert normalize(normalize(text, language), language) == normalize(text, language)


@pytest.mark.parametrize(
    ("text", "cuts"),
    [
        ("पानी", []),  # a consonant and its vowel sign are never divided, and a word not between letters
        ("पान पानी", [3, 4]),
        ("👩\u200d👩\u200d👧!", [5]),
        ("e\u0301 a", [2, 3]),
        ("don't", [3, 4]),
        ("坚持abc到", [1, 2, 5]),
        ("กำก", [2]),
        ("🇩🇪🇫🇷", [2]),
    ],
)
def test_a_text_may_be_cut_between_words_and_clusters(text: str, cuts: list[int]) -> None:
    assert [index for index in range(1, len(text)) if is_boundary(text, index)] == cuts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ինչպե՞ս", ["ինչպես"]),
        ("Կրա՛կ։ ի՜նչ", ["կրակ", "ինչ"]),
        ("ի՞ նչ", ["ի", "նչ"]),
        ("կ՚ուզեմ", ["կ'ուզեմ"]),
    ],
)
def test_signs_of_tone_stand_within_armenian_words(text: str, words: list[str]) -> None:
    assert split_words(text, "hy") == words
    inner = [index for index in range(1, len(text)) if text[index] in "՛՜՞" and text[index + 1] != " "]
    assert not any(is_boundary(text, index) or is_boundary(text, index + 1) for index in inner)


@pytest.mark.parametrize("sign", "'’‘ʻʼ＇")
def test_an_apostrophe_is_the_same_however_it_is_spelt(sign: str) -> None:
    assert split_words(f"o{sign}zbek g{sign}oz", "uz") == ["o'zbek", "g'oz"]
    assert split_words(f"п{sign}ять", "uk") == ["п'ять"]
    assert split_words(f"{sign}okina Hawai{sign}i", "haw") == ["okina", "hawai'i"]


def test_an_opening_quotation_mark_divides_english_words() -> None:
    assert split_words("called‘extinct’ mammoths") == ["called", "extinct", "mammoths"]


@pytest.mark.parametrize("sign", ["\u200b", "\u2060", "\u200b\ufeff", "\u200c"])
def test_characters_without_an_appearance_are_no_tokens(sign: str) -> None:
    assert split_tokens(f"ដើរ{sign}យឺត{sign} (ល){sign}") == split_tokens("ដើរយឺត (ល)")
    assert split_tokens(f"slow{sign}ly") == [f"slow{sign}ly"]  # as published protocols for English have it
