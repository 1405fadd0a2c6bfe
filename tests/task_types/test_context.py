"""A prompt as turns: what stands before a question, and how it reads with and without a chat template."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval.prompts import PromptContext
from figeval.task_types.choice import ChoiceExample
from figeval.task_types.pairs import PairExample
from figeval.task_types.ranking import RankingExample
from figeval.types import Message, plain_text
from tests.fakes import Chatting


def block(name, example, **extra):
    texts = {
        "context": lambda: f"Q {example.id}:",
        "letter": lambda: f"L {example.id}:",
        "word": lambda: f"W {example.id}:",
        "continuation": lambda: f" {extra['option']}",
        "unconditional": lambda: "Answer:",
        "cloze": lambda: f"{example.id} {extra['gap']}",
    }
    return texts[name]()


def choice(name, gold=0):
    return ChoiceExample(id=name, query="q", options=("one", "two"), gold=gold)


def pair(name, label="yes"):
    return PairExample(id=name, left="l", right="r", label=label)


SHOTS = [choice("s1", 1), choice("s2", 0)]


def briefing(**settings):
    return PromptContext(block, labels=("yes", "no"), **settings)


def test_without_examples_and_system_a_question_is_one_turn():
    assert briefing().turns("context", choice("x")) == (Message("user", "Q x:"),)
    assert briefing().render("context", choice("x")) == "Q x:"


def test_solved_examples_are_turns_of_both_sides():
    turns = briefing(shots=lambda _: SHOTS, system="Be brief.").turns("context", choice("x"))
    assert turns == (
        Message("system", "Be brief."),
        Message("user", "Q s1:"),
        Message("assistant", " two"),
        Message("user", "Q s2:"),
        Message("assistant", " one"),
        Message("user", "Q x:"),
    )


def test_the_plain_text_is_that_of_before_there_were_turns():
    """Question and answer run on, a blank line parts examples: stored runs were asked so, to the byte."""
    assert briefing(shots=lambda _: SHOTS).render("context", choice("x")) == "Q s1: two\n\nQ s2: one\n\nQ x:"
    assert briefing(system="Be brief.").render("context", choice("x")) == "Be brief.\n\nQ x:"


@given(st.lists(st.text(max_size=8), max_size=4), st.text(max_size=8))
def test_plain_turns_run_on(answers, question):
    turns = [Message(role, text) for text in answers for role in ("user", "assistant")]
    assert plain_text([*turns, Message("user", question)]) == "".join(f"{a}{a}\n\n" for a in answers) + question


@pytest.mark.parametrize(
    ("name", "example", "shot", "answer"),
    [
        ("context", choice("x"), choice("s", 1), " two"),
        ("letter", choice("x"), choice("s", 1), " B"),
        ("context", pair("x"), pair("s"), " Yes"),
        ("word", pair("x"), pair("s", "no"), " No"),
        (
            "context",
            RankingExample(id="x", query="q", candidates=("a",), relevant=frozenset({0})),
            RankingExample(id="s", query="q", candidates=("a", "b"), relevant=frozenset({1})),
            " b",
        ),
    ],
    ids=["option", "letter", "verbalizer", "word", "candidate"],
)
def test_what_a_solved_example_answers(name, example, shot, answer):
    words = {"yes": ("Yes", "Sure"), "no": ("No",)}
    turns = briefing(shots=lambda _: [shot], verbalizer=words).turns(name, example)
    assert turns[-2] == Message("assistant", answer)


def test_blocks_that_ask_nothing_stand_alone():
    brief = briefing(shots=lambda _: SHOTS, system="Be brief.")
    assert brief.render("continuation", choice("x"), option="one") == " one"
    assert brief.render("cloze", choice("x"), gap="_") == "x _"
    assert brief.render("unconditional", choice("x")) == "Be brief.\n\nAnswer:", "a premise without solved examples"


def test_a_chat_template_renders_the_conversation_and_takes_the_blank():
    brief = briefing(shots=lambda _: SHOTS[:1], system="Be brief.", chat=Chatting().chat)
    expected = "<system>Be brief.</><user>Q s1:</><assistant>two</><user>Q x:</><assistant>"
    assert brief.render("context", choice("x")) == expected
    assert brief.begun(" one") == "one"
    assert briefing().begun(" one") == " one"
    assert brief.render("continuation", choice("x"), option="one") == " one", "only a question is a conversation"


def test_a_request_in_words_carries_turns_stops_and_length():
    prompt = briefing(stop=("\n\n",), max_new_tokens=7, shots=lambda _: SHOTS[:1]).prompt("letter", choice("x"))
    assert [message.content for message in prompt.messages] == ["L s1:", " B", "L x:"]
    assert (prompt.stop, prompt.max_new_tokens, prompt.plain) == (("\n\n", "\nL x:"), 7, "L s1: B\n\nL x:")
    assert briefing(stop=()).prompt("letter", choice("x")).stop == ()
