"""A prompt as turns: what stands before a question, and how it reads with and without a chat template."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import ChoiceExample, Message, PairExample, Prompt, PromptContext, RankingExample
from tests.fakes import FakeChatModel
from tests.typed import task_types


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


def context(task_type="choice", **settings):
    answer = task_types().get(task_type).few_shot_answer
    return PromptContext(block, labels=("yes", "no"), few_shot_answer=answer, **settings)


def test_without_examples_and_system_a_question_is_one_turn():
    assert context().turns("context", choice("x")) == (Message("user", "Q x:"),)
    assert context().question("context", choice("x")) == "Q x:"


def test_solved_examples_are_turns_of_both_sides():
    turns = context(shots=lambda _: SHOTS, system="Be asking.").turns("context", choice("x"))
    assert turns == (
        Message("system", "Be asking."),
        Message("user", "Q s1:"),
        Message("assistant", " two"),
        Message("user", "Q s2:"),
        Message("assistant", " one"),
        Message("user", "Q x:"),
    )


def test_the_plain_text_is_that_of_before_there_were_turns():
    """Question and answer run on, a blank line parts examples: stored runs were asked so, to the byte."""
    assert context(shots=lambda _: SHOTS).question("context", choice("x")) == "Q s1: two\n\nQ s2: one\n\nQ x:"
    assert context(system="Be asking.").question("context", choice("x")) == "Be asking.\n\nQ x:"


@given(st.lists(st.text(max_size=8), max_size=4), st.text(max_size=8))
def test_plain_turns_run_on(answers, question):
    turns = [Message(role, text) for text in answers for role in ("user", "assistant")]
    prompt = Prompt(messages=(*turns, Message("user", question)))
    assert prompt.plain == "".join(f"{a}{a}\n\n" for a in answers) + question


@pytest.mark.parametrize(
    ("task_type", "name", "example", "shot", "answer"),
    [
        ("choice", "context", choice("x"), choice("s", 1), " two"),
        ("choice", "letter", choice("x"), choice("s", 1), " B"),
        ("pairs", "context", pair("x"), pair("s"), " Yes"),
        ("pairs", "word", pair("x"), pair("s", "no"), " No"),
        (
            "ranking",
            "context",
            RankingExample(id="x", query="q", candidates=("a",), relevant=frozenset({0})),
            RankingExample(id="s", query="q", candidates=("a", "b"), relevant=frozenset({1})),
            " b",
        ),
    ],
    ids=["option", "letter", "verbalizer", "word", "candidate"],
)
def test_what_a_solved_example_answers(task_type, name, example, shot, answer):
    words = {"yes": ("Yes", "Sure"), "no": ("No",)}
    turns = context(task_type, shots=lambda _: [shot], verbalizer=words).turns(name, example)
    assert turns[-2] == Message("assistant", answer)


def test_blocks_that_ask_nothing_stand_alone():
    asking = context(shots=lambda _: SHOTS, system="Be asking.")
    assert asking.block("continuation", choice("x"), option="one") == " one"
    assert asking.block("cloze", choice("x"), gap="_") == "x _"
    assert asking.question("unconditional", choice("x")) == "Be asking.\n\nAnswer:", "a premise without solved examples"


def test_a_chat_template_renders_the_conversation_and_takes_the_blank():
    asking = context(shots=lambda _: SHOTS[:1], system="Be asking.", chat=FakeChatModel().chat)
    expected = "<system>Be asking.</><user>Q s1:</><assistant>two</><user>Q x:</><assistant>"
    assert asking.question("context", choice("x")) == expected
    assert asking.answer_start(" one") == "one"
    assert context().answer_start(" one") == " one"
    assert asking.block("continuation", choice("x"), option="one") == " one", "only a question is a conversation"


def test_a_request_in_words_carries_turns_stops_and_length():
    prompt = context(stop=("\n\n",), max_new_tokens=7, shots=lambda _: SHOTS[:1]).prompt("letter", choice("x"))
    assert [message.content for message in prompt.messages] == ["L s1:", " B", "L x:"]
    assert (prompt.stop, prompt.max_new_tokens, prompt.plain) == (("\n\n", "\nL x:"), 7, "L s1: B\n\nL x:")
    assert context(stop=()).prompt("letter", choice("x")).stop == ()
