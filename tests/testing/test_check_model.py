"""The check of models finds what is wrong with broken ones, names it, and lets the sound ones pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest

from figeval import Harness, Outputs, PairExample, PromptContext, Reply, ScoredSpan, Span
from figeval.testing import CapabilityCheck, check_model
from figeval.testing.fakes import (
    FakeChatModel,
    FakeClassifier,
    FakeEncoder,
    FakeGenerator,
    FakeLanguageModel,
    FakeMaskFiller,
    FakePairScorer,
)

TWO_LABELS = ("sarcastic", "earnest")


def label_requests(task_type: str, *texts: str) -> list[Any]:
    """Requests of the plugin for classification, which trivial models answer, too."""
    kind = Harness().task_types.get(task_type)
    by_head = next(route for route in kind.routes if route.name == "by_head")
    context = PromptContext(block=lambda *_: "", labels=TWO_LABELS)
    gold = kind.gold_fields[0]
    examples = [kind.Example(id=text, text=text, **{gold: None}) for text in texts]
    return [request for example in examples for request in by_head.first_requests(example, context)]


def label_check() -> CapabilityCheck:
    requests = [
        *label_requests("classification", "Lovely, rain again.", "It rains."),
        *label_requests("multilabel", "Lovely."),
    ]
    return CapabilityCheck(
        "label_texts",
        tuple(requests),
        lambda request, answer: "" if list(answer) == list(request.labels) else "not one probability per label",
    )


def comparison_check() -> CapabilityCheck:
    kind = Harness().task_types.get("pairwise")
    by_comparison = next(route for route in kind.routes if route.name == "by_comparison")
    context = PromptContext(block=lambda *_: "")
    examples = [kind.Example(id=texts, options=tuple(texts), votes=None) for texts in ("ab", "xyz")]
    return CapabilityCheck(
        "compare_texts",
        tuple(request for example in examples for request in by_comparison.first_requests(example, context)),
        lambda request, answer: "" if len(answer) == len(request.texts) + 1 else "not one probability per outcome",
    )


@pytest.mark.parametrize(
    "fake",
    [FakeChatModel, FakePairScorer, FakeMaskFiller, FakeClassifier, FakeLanguageModel, FakeEncoder, FakeGenerator],
)
def test_the_fakes_are_sound(fake: type) -> None:
    check_model(fake, empty=True)
    check_model(fake(), empty=True)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {}) for name in ("chance", "random", "majority", "overlap", "echo", "oracle", "tfidf")),
        *((name, {}) for name in ("last_sentence", "whole_text")),
        ("random", {"seed": 3}),
    ],
)
def test_built_in_models_without_weights_are_sound(name: str, options: dict[str, Any]) -> None:
    check_model(
        partial(Harness().backends.registry.get(name), **options),
        empty=True,
        checks=[label_check(), comparison_check()],
    )


def scoring(answer: Callable[[Any], Any], **methods: Any) -> Any:
    """A model whose `score_pairs` is a function of the list of requests."""
    body = {"score_pairs": lambda self, requests: answer(requests), "fingerprint": lambda self: "1", **methods}
    return type("Model", (), body)


def fair(requests: Any) -> list[float]:
    return [float(len(request.left)) for request in requests]


def first_apart(requests: Any) -> list[float]:
    return [fair(requests)[0], *fair(requests)[1:]]


BROKEN_MODELS: dict[str, tuple[Any, str]] = {
    "a dict": (
        scoring(lambda requests: dict.fromkeys(requests, 1.0)),
        "Model.score_pairs returned a dict; return a list",
    ),
    "a set": (scoring(lambda requests: set(fair(requests))), "Model.score_pairs returned a set"),
    "a text": (scoring(lambda requests: "1" * len(requests)), "Model.score_pairs returned a str"),
    "too few": (scoring(lambda requests: fair(requests)[1:]), "returned 2 outputs for 3 requests"),
    "too few of a generator": (scoring(lambda requests: iter(fair(requests)[1:])), "returned 2 outputs for 3 requests"),
    "None": (scoring(lambda requests: None), "returned None"),
    "NaN": (scoring(lambda requests: [math.nan] * len(requests)), "NaN, which counts as a broken model"),
    "words": (scoring(lambda requests: ["high"] * len(requests)), "str is not a number"),
    "raising": (scoring(lambda requests: 1 / 0), "Model.score_pairs raised ZeroDivisionError"),
    "sorted": (scoring(lambda requests: sorted(fair(requests))), "not in the order of the requests"),
    "ranks": (scoring(lambda requests: list(range(len(requests)))), "not in the order of the requests"),
    "relative": (
        scoring(lambda requests: [score / sum(fair(requests)) for score in fair(requests)]),
        "what else is in",
    ),
    "nothing": (scoring(first_apart), r"\(\[\]\) raised IndexError"),
    "cut": (scoring(lambda requests: Outputs(fair(requests), frozenset({9}))), "truncated has 9, not an index"),
    "no fingerprint": (scoring(fair, fingerprint=None), "Model.* has no fingerprint"),
    "empty": (scoring(fair, fingerprint=lambda self: ""), "returned an empty text"),
    "by id": (scoring(fair, fingerprint=lambda self: str(id(self))), "created alike have different fingerprints"),
    "describing": (
        scoring(fair, describe=lambda self: {"device": object()}),
        "returned a value that JSON cannot represent",
    ),
    "closing": (scoring(fair, close=lambda self: 1 / 0), r"close\(\) raised ZeroDivisionError"),
    "able of nothing": (type("Model", (), {"fingerprint": lambda self: "1"}), "offers no capability"),
}


@pytest.mark.parametrize(("model", "message"), BROKEN_MODELS.values(), ids=BROKEN_MODELS)
def test_a_broken_model_is_told_what_is_wrong(model: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_model(model, empty=True)


def test_an_answer_that_changes() -> None:
    count = iter(range(1000))
    with pytest.raises(AssertionError, match="the answers change when the same requests are repeated"):
        check_model(scoring(lambda requests: [float(next(count)) for _ in requests]))
    check_model(scoring(lambda requests: [float(next(count)) for _ in requests]), repeatable=False)


def embed_raggedly(text: str) -> list[float]:
    return [1.0] * len(text[:6])


@pytest.mark.parametrize(
    ("fake", "message"),
    [
        (FakeLanguageModel(function=lambda context, continuation: 0.5), "a log-probability must be at most 0"),
        (
            FakeClassifier(function=lambda left, right: {"yes": 1.0}),
            "not a mapping of the labels entailment, non-entailment",
        ),
        (FakeClassifier(function=lambda left, right: {"entailment": 0.5, "non-entailment": 0.4}), "sum to 0.9, not 1"),
        (FakeGenerator(function=lambda question: Reply(text="A", finish="done")), "finish must be one of stop"),  # type: ignore[arg-type]
        (FakeGenerator(function=lambda question: 3), "not a figeval.Reply or str"),  # type: ignore[arg-type, return-value]
        (FakeEncoder(function=lambda text: (math.inf, 1.0)), "the number is not finite"),
    ],
)
def test_what_each_capability_promises(fake: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_model(fake)


def test_vectors_of_different_lengths() -> None:
    class Ragged(FakeEncoder):
        def embed(self, requests: Any) -> Any:
            return [embed_raggedly(request.text) for request in requests]

    with pytest.raises(AssertionError, match="vectors of different lengths"):
        check_model(Ragged)


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([ScoredSpan(Span(0, 1), 0.0), ScoredSpan(Span(0, 2), 1.0)], "the best span is not the first"),
        ([ScoredSpan(Span(0, 10**6), 0.0)], "a span is outside the text"),
        ([Span(0, 1)], "Span is not a figeval.ScoredSpan"),
    ],
)
def test_spans_that_are_wrong(spans: list[Any], message: str) -> None:
    class Finder:
        deterministic_by_name = True

        def find_spans(self, requests: Any) -> Any:
            return [spans for _ in requests]

    with pytest.raises(AssertionError, match=message):
        check_model(Finder)


def test_numbers_may_differ_a_little_where_that_is_said() -> None:
    def rounded(requests: Any) -> Any:
        return np.array([1 + 1e-5 * len(requests)] * len(requests))

    with pytest.raises(AssertionError, match="what else is in the batch"):
        check_model(scoring(rounded))
    check_model(scoring(rounded), tolerance=1e-3)


def test_a_model_that_learns_is_given_examples() -> None:
    class Learned(FakePairScorer):
        seen: tuple[Any, ...] = ()

        def fit(self, examples: Any) -> None:
            Learned.seen = tuple(examples)

    check_model(Learned)
    assert len(Learned.seen) == 2
    example = PairExample(id="1", left="a", right="b", label="c")
    check_model(Learned, examples=[example])
    assert Learned.seen == (example,)


# ---- a capability that figeval does not know ------------------------------------------------------------------------


@dataclass(frozen=True)
class Syllables:
    capability: ClassVar[str] = "count_syllables"
    word: str


class Counter:
    deterministic_by_name = True
    capabilities = ("count_syllables",)

    def count_syllables(self, requests: Any) -> list[int]:
        return [sum(letter in "aeiou" for letter in request.word) for request in requests]


def test_a_capability_of_a_plugin_is_checked_by_its_own_check() -> None:
    words = (Syllables("crow"), Syllables("lantern"))
    check_model(Counter, checks=[CapabilityCheck("count_syllables", words, lambda request, answer: "")])
    with pytest.raises(AssertionError, match=r"Counter\.count_syllables answered .*: too few"):
        check_model(Counter, checks=[CapabilityCheck("count_syllables", words, lambda request, answer: "too few")])
    with pytest.raises(AssertionError, match="offers 'count_syllables', for which figeval has no test requests"):
        check_model(Counter)


def test_a_capability_without_its_method() -> None:
    class Boasting(FakePairScorer):
        capabilities = ("sing",)

    with pytest.raises(AssertionError, match=r"Boasting\.capabilities names 'sing', but it has no such method"):
        check_model(Boasting)


def test_the_requests_may_be_the_authors_own() -> None:
    model = Counter()
    first = [CapabilityCheck("count_syllables", (Syllables("crow"), Syllables("ox")), lambda request, answer: "")]
    check_model(model, checks=first, requests=[Syllables("lantern"), Syllables("well")])
