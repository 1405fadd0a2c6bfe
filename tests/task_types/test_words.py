"""Routes whose answers are words: what is asked, what is kept, and what is no answer."""

from __future__ import annotations

import pytest

from figeval import ChoiceExample, PairExample, PluginError, PromptContext, Reply, ReplyReader
from figeval.testing import predict
from tests.fakes import FakeChatModel, FakeGenerator, FakeLanguageModel
from tests.typed import find_route

EXAMPLE = ChoiceExample(id="1", query="it rained", options=("a dog", "a cat", "a hen"), gold=1)
PAIR = PairExample(id="1", left="He kicked the bucket", right="He died", label="entailment")
LABELS = ("entailment", "non-entailment")
BY_LETTER, BY_LABEL_WORD = find_route("choice", "by_letter"), find_route("pairs", "by_label_word")
BY_LETTER_LIKELIHOOD = find_route("choice", "by_letter_likelihood")
READER = BY_LETTER.reader
WORDS = {"entailment": ("Yes",), "non-entailment": ("No", "Maybe")}


def block(name, example, **extra):
    return {"letter": "Which?", "word": "Does it?"}[name]


def answer(route, example, backend, **settings):
    prompt_context = PromptContext(block, labels=LABELS, verbalizer=WORDS, **settings)
    (prediction,) = predict(route, backend, [example], prompt_context)
    return prediction


def test_a_letter_is_an_option():
    backend = FakeGenerator(function=lambda _: "The answer is C.")
    prediction = answer(BY_LETTER, EXAMPLE, backend, stop=("\n\n",), max_new_tokens=9)
    assert (prediction.value, prediction.status, prediction.scores) == (2, "ok", ())
    assert (prediction.raw, prediction.finish) == ("The answer is C.", "stop")
    (request,) = backend.asked
    assert (request.messages[-1].content, request.stop, request.max_new_tokens) == ("Which?", ("\n\n", "\nWhich?"), 9)


def test_the_whole_text_is_kept_with_its_reasoning():
    text = "<think>It might be A.</think> B"
    prediction = answer(BY_LETTER, EXAMPLE, FakeGenerator(function=lambda _: Reply(text=text)))
    assert (prediction.value, prediction.raw) == (1, text)


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (Reply(text=""), "empty"),
        (Reply(text="Well, let me think about it", finish="length"), "truncated"),
        (Reply(text="Bananas are yellow."), "unparseable"),
        (Reply(text="I cannot help with that.", finish="refusal"), "refusal"),
    ],
)
def test_no_answer_is_told_by_its_kind(reply, status):
    prediction = answer(BY_LETTER, EXAMPLE, FakeGenerator(function=lambda _: reply))
    assert (prediction.value, prediction.status, prediction.raw, prediction.finish) == (
        *(None, status, reply.text),
        reply.finish,
    )


@pytest.mark.parametrize(("route", "example"), [(BY_LETTER, EXAMPLE), (BY_LABEL_WORD, PAIR)])
def test_no_reply_at_all_keeps_why(route, example):
    reply = Reply(text="", finish="error", error="HTTP 500 after 5 tries")
    prediction = answer(route, example, FakeGenerator(function=lambda _: reply))
    assert (prediction.status, prediction.value, prediction.raw) == ("error", None, None)
    assert (prediction.finish, prediction.error) == ("error", "HTTP 500 after 5 tries")


@pytest.mark.parametrize(("text", "label"), [("Yes.", LABELS[0]), ("No", LABELS[1]), ("Maybe", LABELS[1])])
def test_every_word_of_a_label_means_it(text, label):
    prediction = answer(BY_LABEL_WORD, PAIR, FakeGenerator(function=lambda _: text))
    assert (prediction.value, prediction.labels, prediction.status) == (label, LABELS, "ok")


def test_a_reader_may_be_named_and_is_not_called_for_a_reply_that_did_not_come():
    reader = ReplyReader("figeval.task_types.choice:no_such_reader", "1")
    failed = reader.read(EXAMPLE, PromptContext(block), Reply(text="B", finish="error", error="HTTP 500"))
    assert (failed.status, failed.value, failed.raw, failed.error) == ("error", None, None, "HTTP 500")
    with pytest.raises(PluginError, match="has no 'no_such_reader'"):
        reader.read(EXAMPLE, PromptContext(block), "B")
    prediction = ReplyReader("figeval.task_types.choice:read_letter", "1").read(EXAMPLE, PromptContext(block), "B")
    assert (prediction.value, prediction.raw, prediction.finish) == (1, "B", "stop")


@pytest.mark.parametrize("text", ["Riddle: b", "The second riddle", "riddle two fits"])
def test_a_task_says_what_replies_call_its_options(text):
    prompt_context = PromptContext(block, vocabulary={"option": ("riddle",)})
    assert READER.read(EXAMPLE, prompt_context, text).value == 1
    assert READER.read(EXAMPLE, PromptContext(block), text).value is None


def test_what_the_right_option_is_called_does_not_count_options():
    prompt_context = PromptContext(block, vocabulary={"answer": ("moral",)})
    assert READER.read(EXAMPLE, prompt_context, "Moral: B").value == 1
    assert READER.read(EXAMPLE, prompt_context, "The second moral").status == "unparseable"


def test_more_options_than_letters_are_not_asked():
    many = ChoiceExample(id="big", query="q", options=tuple(map(str, range(27))), gold=0)
    for route in (BY_LETTER, BY_LETTER_LIKELIHOOD):
        backend = FakeGenerator()
        prediction = answer(route, many, backend)
        assert (prediction.value, prediction.status) == (None, "unasked")
        assert "'big' has 27 options, more than the 26 letters; choose another --route" in prediction.error
        assert not backend.asked


def test_letters_can_be_scored_instead_of_written():
    backend = FakeLanguageModel(function=lambda context, letter: -abs(ord(letter[-1]) - ord("B")))
    prediction = answer(BY_LETTER_LIKELIHOOD, EXAMPLE, backend)
    assert prediction.value == 1
    assert [(r.context, r.continuation) for r in backend.asked] == [("Which?", f" {letter}") for letter in "ABC"]


def test_after_a_chat_template_no_blank_stands_before_the_letter():
    backend = FakeChatModel()
    answer(BY_LETTER_LIKELIHOOD, EXAMPLE, backend, chat=backend.chat)
    assert {(r.context, r.continuation) for r in backend.asked} == {
        ("<user>Which?</><assistant>", letter) for letter in "ABC"
    }
