"""Replies in many scripts: borders of words and clusters, Unicode forms, case, punctuation and announcements."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from figeval import Reply, Span, extract_choice, extract_label, extract_number
from figeval.answers.folding import fold
from figeval.answers.mentions import text_finder
from figeval.language.words import is_boundary, is_cluster_boundary, letters
from tests.typed import find_quotation

GOLDEN = Path(__file__).parents[1] / "golden" / "task_types"
SCRIPTS = json.loads((GOLDEN / "answers_scripts.json").read_text("utf-8"))
DENIED_ANSWERS = json.loads((GOLDEN / "answers_denied.json").read_text("utf-8"))
MARKS = json.loads((GOLDEN / "answers_marks.json").read_text("utf-8"))
Case = dict[str, Any]


def replies() -> Iterator[tuple[str, str, list[str], str, int | None]]:
    """Every situation in every script: its name, the reply, the options, the language, and which option is meant."""
    for script in SCRIPTS["scripts"]:
        option = script["options"][0]
        signs = {"stop": ".", "comma": ",", "question": "?", "open": "“", "close": "”", "inside": ""} | script
        words = {
            "announced": script["announced"].format(option),
            "announced_letter": script["announced"].format("A"),
            "nfc": unicodedata.normalize("NFC", option),
            "nfd": unicodedata.normalize("NFD", option),
            "upper": script.get("upper", option.upper()),
        }
        for situation in SCRIPTS["situations"]:
            if (situation["name"] == "inside" and not signs["inside"]) or (
                situation["name"] == "upper" and words["upper"] == option
            ):
                continue
            form = "NFD" if situation.get("decomposed") else "NFC"
            options = [unicodedata.normalize(form, text) for text in script["options"]]
            reply = situation["reply"].format(*options, **signs | words)
            yield f"{script['name']}, {situation['name']}", reply, options, script["language"], situation["index"]


def test_an_option_is_read_in_every_script() -> None:
    wrong = {}
    for name, reply, options, language, index in replies():
        extracted = extract_choice(Reply(text=reply), options, "ABC", language=language)
        if extracted.index != index:
            wrong[name] = extracted
    assert not wrong


def test_the_matrix_has_many_scripts_and_a_reason_for_each() -> None:
    assert len({script["name"] for script in SCRIPTS["scripts"]}) >= 30
    assert all(entry["why"] for entry in SCRIPTS["scripts"] + SCRIPTS["situations"])


def reply_of(case: Case) -> Reply:
    return Reply(text=case["reply"], finish=case.get("finish", "stop"))


def test_choices() -> None:
    wrong = {}
    for case in MARKS["choices"]:
        letters = "ABC"[: len(case["options"])]
        extracted = extract_choice(reply_of(case), case["options"], letters, language=case["language"])
        if (extracted.status, extracted.index) != (case["status"], case["index"]):
            wrong[case["why"]] = extracted
    assert not wrong


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_labels(form: str) -> None:
    wrong = {}
    for case in MARKS["labels"]:
        words = [[unicodedata.normalize(form, word) for word in label] for label in case["words"]]
        extracted = extract_label(reply_of(case), words, case["language"])
        if (extracted.status, extracted.index) != (case["status"], case["index"]):
            wrong[case["why"]] = extracted
    assert not wrong


def test_numbers() -> None:
    values = {case["why"]: extract_number(reply_of(case), [1, 2, 3, 4])[1] for case in MARKS["numbers"]}
    assert values == {case["why"]: case["value"] for case in MARKS["numbers"]}


@pytest.mark.parametrize("case", MARKS["quotes"], ids=lambda case: case["why"])
def test_quotations(case: Case) -> None:
    prediction = find_quotation(case["quote"], case["text"], case.get("language", ""))
    assert prediction.value == (None if case["found"] is None else Span(*case["found"]))
    assert (prediction.scores == (1.0,)) == (case["kind"] == "verbatim")


# ---- options that are denied ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_reversed", [False, True], ids=["", "reversed"])
def test_a_denied_option_is_no_answer(is_reversed: bool) -> None:
    letters = "BA" if is_reversed else "AB"
    wrong = {}
    for case in DENIED_ANSWERS["languages"]:
        options = case["options"][::-1] if is_reversed else case["options"]
        expected = {template: int(not is_reversed) for template in case["answered"]}
        expected |= dict.fromkeys(case["unanswered"])
        for template, index in expected.items():
            for denied, affirmed in (letters, case["options"]):
                reply = template.format(no=denied, yes=affirmed)
                extracted = extract_choice(Reply(text=reply), options, "AB", language=case["language"])
                if extracted.index != index:
                    wrong[case["language"], reply] = extracted
    assert not wrong


def test_replies_that_deny() -> None:
    options = ["the sound of water", "a spark", "the smell of earth", "a song of wind"]
    cases = DENIED_ANSWERS["replies"]
    indices = {case["why"]: extract_choice(Reply(text=case["reply"]), options, "ABCD").index for case in cases}
    assert indices == {case["why"]: case["index"] for case in cases}


# ---- what holds for any text ----------------------------------------------------------------------------------------

ALPHABETS = (
    *("abcdeéßǰ", "αβγδσς", "абвгйё", "ابتثج\u064e\u064f\u0650\u0652", "אבגדש\u05b8\u05b0\u05c1"),
    *("कखगनपािीु\u094d", "কখগিী\u09cd", "கஙசிை\u0bcd", "కఖగిీ", "ಕಗನಿೀ", "കഖഗിീ", "ກຂຄິີ່ຳ", "กขคิี่ำ"),
    *("ကခဂိီု", "កខគិី", "한글밤나", "漢字口如井", "かがきぎ", "አበገደ", "\u1ecdẹńàs\u0300\u0301", "ıiİI"),
)
WORDS = (
    st.sampled_from(ALPHABETS)
    .flatmap(lambda alphabet: st.text(alphabet, min_size=1, max_size=6))
    .filter(lambda word: unicodedata.category(fold(word).text[0])[0] != "M")
)
TEXTS = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
VOWELS = re.compile("[\u05b0-\u05c2\u064b-\u0652]")
EMOJI = st.sampled_from(["👩", "👩‍👩‍👧", "👩🏽", "❤️", "❤️‍🔥", "🇩🇪", "🇪🇬", "1️⃣", "♣", "+", "++"])
SENTENCES = st.sampled_from(["{}", "The answer is {}.", "“{}”।", "({})", "**{}**!"])
FORMS = st.sampled_from(["NFC", "NFD"])


def is_option(text: str) -> bool:
    """Not the letter of an option."""
    return len(text) > 1


@given(st.lists(st.one_of(TEXTS.filter(is_option), EMOJI), min_size=2, max_size=4), st.data(), FORMS, SENTENCES)
def test_the_text_of_an_option_is_that_option(options: list[str], data: Any, form: str, sentence: str) -> None:
    assume(len({fold(option).text.strip() for option in options}) == len(options))
    index = data.draw(st.integers(0, len(options) - 1))
    shown = [unicodedata.normalize(form, option) for option in options]
    reply = Reply(text=sentence.format(unicodedata.normalize(data.draw(FORMS), options[index])))
    extracted = extract_choice(reply, shown, "ABCD"[: len(options)])
    assert (extracted.status, extracted.index) == ("ok", index), extracted.rule


@given(WORDS.filter(is_option), st.data(), SENTENCES)
def test_the_beginning_of_an_option_is_never_read_in_its_place(word: str, data: Any, sentence: str) -> None:
    beginning = word[: data.draw(st.integers(1, len(word) - 1))]
    assume(letters(beginning) not in ("", letters(word)) and fold(beginning).text != fold(word).text)
    assume(VOWELS.sub("", beginning) != VOWELS.sub("", word))  # which may be left out
    assume(letters(beginning) not in letters(word)[1:])  # a cluster of its own at the end of a word without blanks
    reply = Reply(text=sentence.format(word))
    for options in ([beginning, word], [word, beginning], [beginning, "xyz"]):
        if options[-1] == "xyz" and is_boundary(word, len(beginning)):
            continue  # of a script without blanks
        extracted = extract_choice(reply, options, "AB")
        assert extracted.index is None or options[extracted.index] != beginning, extracted.rule


@given(st.lists(st.one_of(TEXTS, EMOJI), max_size=4).map(" ".join), st.one_of(TEXTS, EMOJI))
def test_mentions_are_apart_and_divide_no_cluster(reply: str, text: str) -> None:
    mentions = text_finder(((text, 0),))(reply)
    ends = [0, *(mention.end for mention in mentions)]
    for mention, end in zip(mentions, ends, strict=False):
        assert end <= mention.start < mention.end <= len(reply)
        assert is_cluster_boundary(reply, mention.start) and is_cluster_boundary(reply, mention.end)
        assert letters(reply[mention.start : mention.end]) == letters(text)


@given(st.lists(st.one_of(TEXTS, EMOJI), min_size=1, max_size=4).map(" ".join), st.data(), FORMS)
def test_a_place_lies_in_the_original_text(text: str, data: Any, form: str) -> None:
    borders = st.sampled_from([index for index in range(len(text) + 1) if is_boundary(text, index)])
    start, end = sorted((data.draw(borders), data.draw(borders)))
    assume(letters(text[start:end]))
    span = find_quotation(unicodedata.normalize(form, text[start:end]), text).value
    assert isinstance(span, Span)
    assert is_cluster_boundary(text, span.start) and is_cluster_boundary(text, span.end)
    assert letters(text[span.start : span.end]) == letters(text[start:end])


@pytest.mark.parametrize(
    ("reply", "options", "index"),
    [
        ("ի՞նչ", ["ի", "ինչ"], 1),
        ("Պատասխանը ի՞նչ է", ["ի", "ինչ"], 1),
        ("Կրա՛կ։", ["ջուր", "կրակ"], 1),
        ("կրակ", ["ջո՞ւր", "Կրա՜կ"], 1),
        ("ի՞", ["ի", "ինչ"], 0),
    ],
)
def test_armenian_signs_of_tone_divide_no_option(reply: str, options: list[str], index: int) -> None:
    assert extract_choice(Reply(text=reply), options, "AB", language="hy").index == index


@pytest.mark.parametrize("spelt", "'’‘ʻʼ＇")
@pytest.mark.parametrize("sign", "'’‘ʻʼ＇")
def test_an_option_with_an_apostrophe_is_read_however_it_is_spelt(sign: str, spelt: str) -> None:
    for reply in (f"g{spelt}oz", f"Javob: G{spelt}oz.", f"Bu katta g{spelt}oz edi."):
        for options, index in (([f"g{sign}oz", "oz"], 0), (["g", f"g{sign}oz"], 1), (["katta g", f"g{sign}oz"], 1)):
            assert extract_choice(Reply(text=reply), options, "AB", language="uz").index == index, (reply, options)
    assert extract_choice(Reply(text=f"{spelt}okina"), [f"{sign}okina", "mahina"], "AB", language="haw").index == 0
