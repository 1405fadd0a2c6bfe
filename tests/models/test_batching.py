"""What lies between a route and a backend: chunks, rounds, duplicates, progress, and memory that runs out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from figeval import (
    ChoiceExample,
    Message,
    OutputStream,
    Part,
    PluginError,
    Prediction,
    Prompt,
    Reply,
    Text,
    TextPair,
    report_loading,
    report_share,
)
from figeval.io.observer import listening, opening
from figeval.models.batching import BatchScheduler, Memo, Pace
from figeval.models.devices import attempt
from figeval.testing import ask
from tests.fakes import FakeEncoder, FakeModel, FakePairScorer, multi_round_route
from tests.listeners import Ears


def example(number: int, text: str = "a b") -> ChoiceExample:
    return ChoiceExample(id=str(number), query=text, options=("a", "b c"), gold=0)


def ask_pairs(example: ChoiceExample):
    scores = yield [TextPair(example.query, option) for option in example.options]
    return Prediction(example_id=example.id, value=scores.index(max(scores)), scores=tuple(scores))


def test_predictions_come_in_the_order_of_the_examples():
    examples = [example(number) for number in range(200)]
    talked = BatchScheduler(FakePairScorer(), ask_pairs, pace=Pace(size=7)).predictions(examples)
    assert [(e.id, p.example_id) for e, p in talked] == [(str(n), str(n)) for n in range(200)]


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=40), st.integers(1, 50))
def test_the_size_of_the_chunk_changes_nothing(texts, size):
    examples = [example(number, text) for number, text in enumerate(texts)]
    small = list(BatchScheduler(FakePairScorer(), ask_pairs, pace=Pace(size=1, largest=1)).predictions(examples))
    large = list(BatchScheduler(FakePairScorer(), ask_pairs, pace=Pace(size=size)).predictions(examples))
    assert small == large


def test_duplicates_are_asked_once_within_and_across_chunks():
    backend = FakePairScorer()
    list(BatchScheduler(backend, ask_pairs, pace=Pace(size=3)).predictions([example(n) for n in range(50)]))
    assert len(backend.asked) == len(set(backend.asked)) == 2


def test_a_chunk_closes_when_it_holds_enough_requests():
    backend = FakePairScorer()
    conversation = BatchScheduler(backend, ask_pairs, Memo(limit=0), Pace(size=1000, requests=10))
    list(conversation.predictions([example(n, f"text {n}") for n in range(20)]))
    assert max(map(len, backend.batches)) <= 10


def test_rounds_of_different_capabilities():
    class Both(FakePairScorer):
        def embed(self, texts):
            self.note(texts)
            return [np.ones(2) for _ in texts]

    backend = Both()
    start = multi_round_route(
        [Text("abc")],
        [TextPair("x y", "y z")],
        then=lambda outputs: Prediction(example_id="1", value=0, raw=str(outputs[1])),
    )
    ((_, prediction),) = BatchScheduler(backend, start).predictions([example(1)])
    assert prediction.raw == "[1.0]"
    assert [type(batch[0]) for batch in backend.batches] == [Text, TextPair]


def test_truncation_marks_the_example_that_it_concerns_also_from_the_memo():
    def embed(example):
        yield [Text(example.query)]
        return Prediction(example_id=example.id, value=0)

    examples = [example(1, "short"), example(2, "x" * 50), example(3, "x" * 50)]
    talked = BatchScheduler(FakeEncoder(longest=10), embed, pace=Pace(size=1)).predictions(examples)
    assert [prediction.truncated for _, prediction in talked] == [False, True, True]


def test_a_backend_that_answers_with_another_number_is_a_bug_not_a_shift():
    class Short(FakePairScorer):
        def score_pairs(self, pairs):
            return super().score_pairs(pairs)[:-1]

    with pytest.raises(PluginError, match=r"returned 1 outputs for 2 requests"):
        list(BatchScheduler(Short(), ask_pairs).predictions([example(1)]))


def test_the_chunk_follows_the_clock():
    pace = Pace(size=64, seconds=4)
    pace.adapt(0.1)
    assert pace.size == 128
    pace.adapt(100)
    pace.adapt(100)
    assert pace.size == 32
    pace.adapt(4)
    pace.adapt(100, may_shrink=False)
    assert pace.size == 32


def test_the_memo_is_bounded_and_keeps_what_recurs():
    memo = Memo(limit=2)
    memo.update({Text("a"): (1, False), Text("b"): (2, False)})
    assert memo.get(Text("a")) == (1, False)
    memo.update({Text("c"): (3, True)})
    assert memo.get(Text("b")) is None
    assert memo.get(Text("a")) == (1, False)
    assert memo.get(Text("c")) == (3, True)


def test_a_batch_beyond_the_limit_does_not_wash_out_the_memo():
    memo = Memo(limit=3)
    memo.update({Text("kept"): (np.float64(1), False)})
    memo.update({Text(str(n)): (n, False) for n in range(10)})
    assert memo.get(Text("kept")) is not None


def test_a_reply_that_failed_is_not_remembered_but_serves_its_chunk():
    class Moody(FakeModel):
        def generate(self, prompts):
            self.note(prompts)
            finish = "error" if len(self.batches) == 1 else "stop"
            return [Reply(text="", finish=finish) for _ in prompts]

    def ask(example):
        (reply,) = yield [Prompt((Message("user", example.query),))]
        return Prediction(example_id=example.id, value=None, status="error" if reply.finish == "error" else "ok")

    backend = Moody()
    talked = BatchScheduler(backend, ask, pace=Pace(size=2)).predictions([example(number) for number in range(12)])
    assert [prediction.status for _, prediction in talked] == ["error"] * 2 + ["ok"] * 10
    assert len(backend.asked) == 2, "once failed, once answered, then remembered"


def test_a_model_that_wants_many_at_once_gets_them_however_slow_it_is():
    class Far(FakePairScorer):
        min_batch_size = 100

    conversation = BatchScheduler(Far(), ask_pairs)
    for _ in range(9):
        conversation.pace.adapt(1000)
    assert conversation.pace.size == 100


def test_requests_of_a_plugin_go_to_the_method_that_they_name():
    @dataclass(frozen=True)
    class Syllables:
        capability: ClassVar[str] = "count_syllables"
        word: str

    class Counter:
        def count_syllables(self, requests):
            return [sum(letter in "aeiou" for letter in request.word) for request in requests]

    def shortest(example):
        counts = yield [Syllables(option) for option in example.options]
        return Prediction(example_id=example.id, value=counts.index(min(counts)))

    example = ChoiceExample(id="1", query="", options=("lantern", "crow", "umbrella"), gold=1)
    ((_, prediction),) = BatchScheduler(Counter(), shortest).predictions([example])
    assert prediction.value == 1


class Gradual(FakeModel):
    """A model that answers part by part, the longest text first, with two texts in a part."""

    def generate(self, prompts):
        def parts():
            order = sorted(range(len(prompts)), key=lambda row: -len(prompts[row].plain))
            for rows in (order[begin : begin + 2] for begin in range(0, len(order), 2)):
                self.note([prompts[row] for row in rows])
                yield Part(rows, [Reply(text=prompts[row].plain) for row in rows], {rows[0]})

        return OutputStream(len(prompts), parts())


def ask_twice(example):
    (first,) = yield [Prompt((Message("user", "?" * int(example.id)),))]
    (second,) = yield [Prompt((Message("user", first.text + "!"),))]
    return Prediction(example_id=example.id, value=0, raw=second.text)


def ask_once(example):
    (reply,) = yield [Prompt((Message("user", "?" * int(example.id)),))]
    return Prediction(example_id=example.id, value=0, raw=reply.text)


EXAMPLES = [example(number) for number in range(1, 6)]


def test_examples_end_with_the_part_that_answers_them():
    backend = Gradual()
    scheduler = BatchScheduler(backend, ask_once)
    seen = []
    for part in scheduler.parts(EXAMPLES):
        seen.append([answer.prediction.example_id for answer in part])
        assert len(backend.batches) == len(seen), "the next part is computed once this one is stored"
    assert seen == [["4", "5"], ["2", "3"], ["1"]]


def test_parts_and_rounds_give_the_same_predictions_in_the_order_of_the_examples():
    answers = list(BatchScheduler(Gradual(), ask_twice, pace=Pace(size=3)).predictions(EXAMPLES))
    assert [prediction.raw for _, prediction in answers] == ["?" * number + "!" for number in range(1, 6)]
    assert [prediction.truncated for _, prediction in answers] == [True, False, True, False, True]
    in_parts = BatchScheduler(Gradual(), ask_twice, pace=Pace(size=3)).parts(EXAMPLES)
    assert {answer.prediction for part in in_parts for answer in part} == {prediction for _, prediction in answers}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([([0, 1], "ab")], "returned 2 outputs for 5 requests"),
        ([([0, 0], "ab")], "one value for each of its requests, once"),
        ([([0, 1], "ab"), ([1], "b")], "one value for each of its requests, once"),
        ([([5], "a")], "one value for each of its requests, once"),
        ([([0, 1], "a")], "one value for each of its requests, once"),
    ],
)
def test_parts_that_do_not_answer_every_request_once_are_a_bug(parts, message):
    class Wrong:
        def generate(self, prompts):
            return OutputStream(len(prompts), (Part(rows, list(values)) for rows, values in parts))

    with pytest.raises(PluginError, match=message):
        list(BatchScheduler(Wrong(), ask_once).predictions(EXAMPLES))


class RoleEncoder:
    """An encoder that counts the texts that it reads; with `prompts`, queries and documents are read differently."""

    def __init__(self, *, prompts: bool) -> None:
        self.prompts = prompts
        self.texts: list[str] = []

    def embed(self, requests):
        texts = [f"{request.role}: {request.text}" if self.prompts else request.text for request in requests]
        self.texts += texts
        return np.array([[len(text)] for text in texts], dtype=float)

    def canonical(self, request):
        return request if self.prompts else Text(request.text)


@pytest.mark.parametrize(
    ("prompts", "texts", "lengths"),
    [
        (False, ["a b", "a"], (3.0, 1.0, 3.0)),
        (True, ["query: a b", "document: a", "document: a b"], (10.0, 11.0, 13.0)),
    ],
)
@pytest.mark.parametrize("size", [1, 4])
def test_a_text_that_is_read_alike_in_two_roles_is_read_once(prompts, texts, lengths, size):
    """Within a batch and in later ones."""

    def start(example):
        vectors = yield [Text(example.query, "query"), Text("a", "document"), Text(example.query, "document")]
        return Prediction(example_id=example.id, value=0, scores=tuple(float(vector[0]) for vector in vectors))

    encoder = RoleEncoder(prompts=prompts)
    scheduler = BatchScheduler(encoder, start, pace=Pace(size=size, largest=size))
    predictions = [
        prediction.scores for _, prediction in scheduler.predictions([example(number) for number in range(4)])
    ]
    assert predictions == [lengths] * 4
    assert encoder.texts == texts


# ---- progress --------------------------------------------------------------------------------------------------------


class InBatches:
    """A model that reports its batches; each holds two texts."""

    def embed(self, requests: Sequence[Text]) -> list[list[float]]:
        for begin in range(0, len(requests), 2):
            report_share(min(2, len(requests) - begin) / len(requests))
        return [[1.0] for _ in requests]


TEXTS = [Text(letter) for letter in "abcde"]


def test_a_listener_hears_how_many_requests_are_answered() -> None:
    ears = Ears()
    with listening(ears):
        ask(InBatches(), TEXTS)
    ask(InBatches(), TEXTS)
    assert ears.heard == [(0, 5), (2, 5), (4, 5), (5, 5)]


def test_nobody_has_to_listen_and_too_much_is_all() -> None:
    report_share(0.5)
    report_loading()

    class Eager:
        def embed(self, requests: Sequence[Text]) -> list[list[float]]:
            report_share(0.75)
            report_share(0.75)
            return [[1.0] for _ in requests]

    ears = Ears()
    with listening(ears):
        ask(Eager(), TEXTS)
    assert ears.heard == [(0, 5), (3, 5), (5, 5)]


def test_a_model_is_announced_by_the_name_that_the_user_gave() -> None:
    ears = Ears()
    with listening(ears):
        report_loading()  # outside of any model
        with opening("smollm2"):
            report_loading()
    assert ears.activities == ["loading model smollm2"]


def test_requests_that_are_sent_at_the_same_time_are_counted_together() -> None:
    class Server:
        def embed(self, requests: Sequence[Text]) -> list[list[float]]:
            async def embed_number(number: int) -> list[float]:
                report_share(1 / len(requests))
                return [float(number)]

            async def every() -> list[list[float]]:
                return list(await asyncio.gather(*map(embed_number, range(len(requests)))))

            return asyncio.run(every())

    ears = Ears()
    with listening(ears):
        ask(Server(), TEXTS)
    assert ears.heard == [(number, 5) for number in range(6)]


# ---- memory that runs out is recognised whoever says so, and nothing else is taken for it ----------------------------


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        torch.OutOfMemoryError("Allocation on device 0 would exceed allowed memory."),
        RuntimeError("Allocation on device"),
        torch.AcceleratorError("CUDA error: out of memory"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("MPS backend out of memory (MPS allocated: 9.05 GB)"),
        RuntimeError("XPU out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::40"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:119] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 40 bytes"),
        RuntimeError("std::bad_alloc"),
        MemoryError(),
    ],
    ids=str,
)
def test_memory_that_ran_out_is_no_result(error: Exception) -> None:
    def call(size: int) -> int:
        if size > 1:
            raise error
        return size

    assert attempt(call, 2) is None
    assert attempt(call, size=1) == 1


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("The size of tensor a (49) must match the size of tensor b (48)"),
        torch.AcceleratorError("CUDA error: an illegal memory access was encountered"),
        ValueError("this text is about being out of memory"),
    ],
    ids=str,
)
def test_any_other_error_propagates(error: Exception) -> None:
    def call() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        attempt(call)
    assert raised.value is error
