"""Generation put to scripted backends: which text is the answer, and when there is none."""

from __future__ import annotations

import math
from typing import Any

import pytest

from figeval import GenerationExample, Inputs, Prediction, PromptContext, Reply, TaskError
from figeval.testing import predict
from tests.fakes import FakeEncoder, FakeGenerator, FakePairScorer
from tests.typed import choose_route, find_route, task_types

EXAMPLE = GenerationExample(
    id="1", inputs={"proverb": "look before you leap", "keywords": ("jumped", "fell")}, references=("he fell.",)
)
POOL = [
    GenerationExample(id=str(number), inputs={"proverb": "p", "keywords": ()}, references=(text, "another telling"))
    for number, text in enumerate(("nothing of the kind", "she jumped and fell", "he fell"), 10)
]
BY_WRITING, BY_DECODING, BY_RETRIEVAL, BY_RETRIEVAL_SCORE = (
    find_route("generation", name) for name in ("by_writing", "by_decoding", "by_retrieval", "by_retrieval_score")
)


def render(_block: str, example: GenerationExample, **_extra: Any) -> str:
    return f"Write about {example.inputs['proverb']}.\nStory:"


def context(**settings: Any) -> PromptContext:
    answer = task_types().get("generation").few_shot_answer
    return PromptContext(render, max_new_tokens=9, pool=lambda: POOL, few_shot_answer=answer, **settings)


def answer(route: Any, backend: Any, prompt_context: PromptContext | None = None) -> Prediction:
    (prediction,) = predict(route, backend, [EXAMPLE], prompt_context or context())
    return prediction


class System:
    """Writes without a prompt."""

    def __init__(self) -> None:
        self.asked: list[Inputs] = []

    def write(self, requests: list[Inputs]) -> list[str]:
        self.asked += requests
        return [f" {len(request.values)} inputs " for request in requests]


# ---- writing -------------------------------------------------------------------------------------------------------


def test_a_system_without_a_prompt_gets_the_inputs_as_they_are() -> None:
    system = System()
    assert answer(BY_WRITING, system).value == "2 inputs"
    assert system.asked == [Inputs((("proverb", "look before you leap"), ("keywords", ("jumped", "fell"))))]


def test_a_model_is_prompted_with_the_block_write() -> None:
    writer = FakeGenerator(function=lambda question: f"  {question.splitlines()[0]}\n")
    prediction = answer(BY_DECODING, writer, context(stop=("\n\n",), shots=lambda _example: POOL[:1]))
    assert (prediction.value, prediction.status) == ("Write about look before you leap.", "ok")
    (prompt,) = writer.asked
    assert [message.content for message in prompt.messages] == [
        "Write about p.\nStory:",
        " nothing of the kind",
        "Write about look before you leap.\nStory:",
    ]
    assert (prompt.max_new_tokens, prompt.stop) == (9, ("\n\n", "\nStory:"))


@pytest.mark.parametrize(
    ("reply", "status", "value"),
    [
        ("He leapt.", "ok", "He leapt."),
        ("<think>A fall, perhaps.</think>\nHe leapt.", "ok", "He leapt."),
        (Reply(text="He leapt and", finish="length"), "ok", "He leapt and"),
        (Reply(text="<think>A fall", finish="length"), "truncated", None),
        (Reply(text="<think>A fall</think>", finish="stop"), "empty", None),
        ("", "empty", None),
        (" \n", "empty", None),
        (Reply(text="", finish="refusal"), "refusal", None),
        ("I'm sorry, but I can't help with that.", "refusal", None),
        ("As an AI language model I do not leap.", "refusal", None),
        ('"I can\'t help with that!" he cried, and leapt.', "ok", '"I can\'t help with that!" he cried, and leapt.'),
        (Reply(text="", finish="error", error="no line"), "error", None),
    ],
)
def test_which_replies_are_texts(reply: Any, status: str, value: str | None) -> None:
    prediction = answer(BY_DECODING, FakeGenerator(function=lambda _question: reply))
    assert (prediction.status, prediction.value) == (status, value)
    if status != "error":
        assert prediction.raw == (reply if isinstance(reply, str) else reply.text), "a later reader finds all of it"


def test_somebody_who_declines_within_a_long_story_is_no_refusal() -> None:
    story = "She asked him for a loan the day after the wedding, and again a week later. 'I cannot help with that.'"
    assert answer(BY_DECODING, FakeGenerator(function=lambda _question: story)).status == "ok"


# ---- a training text in its place ------------------------------------------------------------------------------------


def test_the_closest_training_text_by_score() -> None:
    closeness = FakePairScorer()
    prediction = answer(BY_RETRIEVAL_SCORE, closeness)
    assert (prediction.value, prediction.scores, prediction.tied) == ("she jumped and fell", (2.0,), 1)
    assert {pair.left for pair in closeness.asked} == {"look before you leap jumped fell"}
    assert [pair.right for pair in closeness.asked] == [example.references[0] for example in POOL]


def test_the_closest_training_text_by_cosine() -> None:
    vectors = {"he fell": (1.0, 0.1), "she jumped and fell": (0.0, 1.0), "nothing of the kind": (0.0, -1.0)}
    backend = FakeEncoder(function=lambda text: vectors.get(text, (1.0, 0.0)))
    prediction = answer(BY_RETRIEVAL, backend)
    assert prediction.value == "he fell"
    assert prediction.scores == (pytest.approx(1 / math.hypot(1, 0.1)),)


def test_a_tie_takes_the_first_and_says_so() -> None:
    prediction = answer(BY_RETRIEVAL_SCORE, FakePairScorer(function=lambda left, right: 0.5))
    assert (prediction.value, prediction.tied) == ("nothing of the kind", 3)


def test_a_broken_model_takes_none() -> None:
    prediction = answer(BY_RETRIEVAL, FakeEncoder(function=lambda _text: (math.nan, 1.0)))
    assert (prediction.value, prediction.status, prediction.scores) == (None, "nan", ())


def test_all_examples_share_the_training_texts() -> None:
    first, second = (next(BY_RETRIEVAL.begin(EXAMPLE, context())) for _ in range(2))
    assert all(candidates is other for candidates, other in zip(first[1:], second[1:], strict=True))


def test_an_example_never_gets_its_own_text() -> None:
    prompt_context = PromptContext(render, pool=lambda: [EXAMPLE, *POOL])
    assert (
        answer(
            BY_RETRIEVAL_SCORE, FakePairScorer(function=lambda _left, right: right == "he fell."), prompt_context
        ).tied
        == 3
    )


@pytest.mark.parametrize("route", [BY_RETRIEVAL, BY_RETRIEVAL_SCORE])
def test_without_training_texts_the_cure_is_named(route: Any) -> None:
    with pytest.raises(TaskError, match="no train split to take a text from; add one, or use a model that writes"):
        next(route.begin(EXAMPLE, PromptContext(render)))


# ---- which route -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offers", "route"),
    [
        ({"write", "generate"}, "by_writing"),
        ({"generate", "loglikelihood", "embed"}, "by_decoding"),
        ({"embed", "score_pairs"}, "by_retrieval"),
        ({"score_pairs"}, "by_retrieval_score"),
    ],
)
def test_whoever_writes_writes(offers: set[str], route: str) -> None:
    assert choose_route("generation", offers).name == route
