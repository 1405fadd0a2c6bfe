"""The extractor against its corpus, and what has to hold for any text."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from figeval import Reply, extract_choice, extract_label, strip_reasoning

GOLDEN = Path(__file__).parents[1] / "golden" / "task_types"
CHOICE = json.loads((GOLDEN / "answers_choice.json").read_text(encoding="utf-8"))
LABEL = json.loads((GOLDEN / "answers_label.json").read_text(encoding="utf-8"))
OPTIONS = CHOICE["options"]
VOCABULARY = CHOICE["vocabulary"]
LETTERS = ("A", "B", "C", "D", "E")
WORDS = (("Yes",), ("No", "Maybe"))


def reply_of(case):
    return Reply(text=case["reply"], finish=case.get("finish", "stop"), reasoning=case.get("reasoning", ""))


def choice(text, options=OPTIONS, letters=LETTERS, finish="stop"):
    return extract_choice(Reply(text=text, finish=finish), options, letters, VOCABULARY)


def test_choice_corpus():
    wrong = {}
    for case in CHOICE["cases"]:
        options = case.get("options", OPTIONS)
        letters = case.get("letters") or [chr(ord("A") + index) for index in range(len(options))]
        got = extract_choice(reply_of(case), options, letters, VOCABULARY)
        if (got.status, got.index) != (case["expect"]["status"], case["expect"]["index"]):
            wrong[case["why"]] = got
    assert not wrong


def test_label_corpus():
    wrong = {}
    for case in LABEL["cases"]:
        got = extract_label(reply_of(case), case["words"])
        if (got.status, got.index) != (case["expect"]["status"], case["expect"]["index"]):
            wrong[case["why"]] = got
    assert not wrong


def test_the_corpus_is_as_large_as_promised():
    assert len(CHOICE["cases"]) >= 150
    assert len(CHOICE["cases"]) + len(LABEL["cases"]) >= 220


# ---- what holds for any text ----------------------------------------------------------------------------------------

FRAGMENTS = st.sampled_from(
    [case["reply"] for case in CHOICE["cases"] + LABEL["cases"]]
    + ["A", "B", "I", "F", "not", "and", "or", ",", ".", "\n", "(", ")", "**", "$", "the answer is", "wait", "<think>"]
    + ["</think>", "\\boxed{", "}", "option", "2", "second", "Yes", "No", "non-entailment", "{", '"answer":', *OPTIONS]
)
TEXTS = st.one_of(
    st.text(max_size=200), st.lists(FRAGMENTS, max_size=8).map(" ".join), st.lists(FRAGMENTS).map("".join)
)
FINISH = st.sampled_from(["stop", "length", "refusal", "error"])


@given(TEXTS, FINISH)
@example("\U000f0000", "stop")
@example("İ is the answer", "stop")
def test_no_text_raises_and_an_index_means_ok(text, finish):
    reply = Reply(text=text, finish=finish)
    for got, size in ((extract_choice(reply, OPTIONS, LETTERS, VOCABULARY), 5), (extract_label(reply, WORDS), 2)):
        assert (got.status == "ok") == (got.index is not None)
        assert got.index is None or 0 <= got.index < size
        assert got.rule


@pytest.mark.slow
@given(st.text(max_size=40), st.lists(st.text(max_size=12), min_size=1, max_size=6))
def test_no_option_raises(text, options):
    letters = LETTERS[: len(options)] if len(options) <= 5 else (*LETTERS, "F")
    for content in (text, options[0], f"The answer is {options[-1]}"):
        got = choice(content, options, letters)
        assert got.index is None or 0 <= got.index < len(options)
    extract_label(Reply(text=text), [[option] for option in options])


WRAPPERS = ["{}", " {}", "{}\n", "**{}**", "*{}*", "`{}`", '"{}"', "“{}”", "({})", "[{}]", "```\n{}\n```", "\n\n{}\n\n"]


@given(st.integers(0, 4), st.lists(st.sampled_from(WRAPPERS), max_size=3))
def test_wrapping_does_not_change_a_letter(index, wrappers):
    text = LETTERS[index]
    for wrapper in wrappers:
        text = wrapper.format(text)
    assert choice(text).index == index


CLEAN_REPLIES = [
    "The answer is {}.",
    "Answer: {}",
    "Final answer: ({})",
    "{}. because it fits",
    "I choose {}.",
    "So the answer is {}",
]


@given(
    st.integers(0, 4), st.sampled_from(CLEAN_REPLIES), st.sampled_from(["**{}**", "  {}\n", "<p>{}</p>", "Sure! {}"])
)
def test_wrapping_does_not_change_a_sentence(index, sentence, wrapper):
    assert choice(wrapper.format(sentence.format(LETTERS[index]))).index == index


@given(
    st.permutations(range(5)),
    st.integers(0, 4),
    st.sampled_from(["{}", "{}.", "“{}”", "The answer is “{}”.", "I choose {}"]),
)
def test_permuting_the_options_permutes_an_answer_by_text(order, index, sentence):
    options = [OPTIONS[position] for position in order]
    got = choice(sentence.format(OPTIONS[index]), options)
    assert got.status == "ok"
    assert options[got.index] == OPTIONS[index]


@pytest.mark.slow
@given(st.integers(2, 26), st.data())
def test_a_bare_letter_gives_its_index(size, data):
    letters = [chr(ord("A") + index) for index in range(size)]
    options = [f"saying number {'x' * index}y" for index in range(size)]
    index = data.draw(st.integers(0, size - 1))
    for text in (letters[index], letters[index].lower(), f"({letters[index]})", f"The answer is {letters[index]}"):
        assert choice(text, options, letters).index == index
    beyond = chr(ord("A") + size)
    if size < 26:
        assert choice(beyond, options, letters).status == "unparseable"


@given(st.integers(0, 4), st.integers(0, 4))
def test_a_later_answer_revises_an_earlier_one(first, second):
    text = f"The answer is {LETTERS[first]}. Wait, no. The answer is {LETTERS[second]}."
    assert choice(text).index == second


@given(TEXTS)
def test_a_reasoning_trace_never_decides(trace):
    clean = trace.replace("think>", "")
    assert (
        choice(f"<think>{clean}</think>\n\nThe answer is C.").index == 2 or "<" in clean or "[" in clean or "◁" in clean
    )


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text", ["answer is " * 1000, "A and " * 1000, "not " * 2000, "(" * 4000, " \n" * 2000, "the " * 2000]
)
def test_long_text_is_no_trap(text):
    """A pattern that backtracks would take longer than anybody waits."""
    choice(text)


def test_nested_and_repeated_traces_go():
    text = "<think>a<think>b</think>c</think>B<think>d</think>"
    assert strip_reasoning(text) == "B"


def test_options_and_letters_have_to_be_parallel():
    with pytest.raises(ValueError, match="5 options and 4 letters"):
        choice("A", letters=LETTERS[:4])
