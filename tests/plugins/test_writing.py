"""Ways of writing: each gives the texts of own decoding, one that fails loses none, and the fastest goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import CompileConfig

from figeval import ModelError
from figeval.builtin.plugins.causal.generation import attention, whole_batches
from figeval.builtin.plugins.causal.generation.fastest import FastestWriter, fastest_writer
from figeval.builtin.plugins.causal.generation.row import End, Row, Thinking
from figeval.builtin.plugins.causal.generation.self_test import writer_for
from figeval.builtin.plugins.causal.generation.thinking import Marks
from figeval.builtin.plugins.causal.generation.ways import COMPILING_SECONDS, MEASURING_SECONDS, WritingWay
from figeval.builtin.plugins.torch_models.batching import TokenBudget
from tests.plugins.architectures import PACKED_CONFIGS, SHARING, build
from tests.plugins.test_generation import FORMATS, prompts, record_shapes
from tests.plugins.test_writers import END, LONG_TOKENS, SHORT_TOKENS, greedy_tokens, rows_of

OTHER_WAYS = ("generate", "continuous", "static")  # than own decoding
ARCHITECTURES = ("GPT2", "Llama", "Gemma2", "Mistral")


@cache
def build_model(name: str) -> Any:
    model = build(name)
    model.generation_config.eos_token_id = 0  # that of `END`
    return model


def writer_in(way: str, model: Any, **budget: Any) -> Any:
    return fastest_writer(writer_for(model, 0, TokenBudget(16_384, **budget)), 0, way)


def used_way_only(writer: Any, way: str) -> bool:
    """Whether all texts were written in this way."""
    ways = writer.describe()["ways"]
    return not ways[way].get("dropped") and {name for name, way in ways.items() if way["tokens"]} == {way}


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let attention be computed by groups on a CPU as well."""
    monkeypatch.setattr(attention, "EXCLUDED_DEVICES", ())


# ---- the ways --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "way"),
    [
        pytest.param(name, way, marks=[pytest.mark.slow] * ((number - turn) % len(OTHER_WAYS) != 0))
        for number, name in enumerate(ARCHITECTURES)
        for turn, way in enumerate(OTHER_WAYS)
    ],
)
def test_every_way_writes_the_texts_of_the_model(name: str, way: str) -> None:
    model = build_model(name)
    writer = writer_in(way, model, rows=4)
    for shared in (LONG_TOKENS, SHORT_TOKENS):  # a second call, whose rows are shorter
        rows = rows_of(shared)
        assert sorted(map(id, writer.write(rows))) == sorted(map(id, rows))
        for row in rows:
            assert row.written == greedy_tokens(model, row)
            assert row.finish == ("stop" if row.written[-1] == 0 else "length")
    assert used_way_only(writer, way), writer.describe()


@pytest.mark.slow
@pytest.mark.parametrize("name", [*[*PACKED_CONFIGS][::3], *SHARING])
def test_an_architecture_gets_its_texts_whatever_way_fails_on_it(name: str, everywhere: None) -> None:
    del everywhere
    model = build(name)
    model.generation_config.eos_token_id = 0
    for way in OTHER_WAYS:
        rows = rows_of(LONG_TOKENS)
        list(writer_in(way, model, rows=4).write(rows))
        assert [row.written for row in rows] == [greedy_tokens(model, row) for row in rows]


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_every_way_keeps_to_stop_texts_and_formats(gpt2: Path, way: str, open_model: Any) -> None:
    own_writing, other = open_model("hf", gpt2, writing="own"), open_model("hf", gpt2, writing=way)
    free = own_writing.generate(prompts()).values
    stop = free[0].text[6:8], free[3].text[10:11]
    held = [replace(prompt, answer=answer) for prompt in prompts(40)[:2] for answer in FORMATS]
    requests = [*prompts(), *prompts(9, stop), *held]
    assert other.generate(requests).values == own_writing.generate(requests).values
    ways = other.describe()["writing"]["ways"]
    assert ways[way]["tokens"] > 0
    assert ways.get("own", {"tokens": 0})["tokens"] > 0 or way != "continuous", "formats are left to own decoding"


def test_the_record_says_why_a_chosen_way_wrote_nothing(gpt2: Path, open_model: Any) -> None:
    model = open_model("hf", gpt2, writing="continuous")
    list(model.generate([replace(prompts(20)[0], answer=FORMATS[0])]).parts)
    writing = model.describe()["writing"]
    assert writing["way"] == "own"
    assert "format" in writing["because"]


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_every_way_tells_thinking_from_the_answer(gpt2: Path, way: str, open_model: Any) -> None:
    backend = open_model("hf", gpt2)
    free = backend.generate(prompts(12)).values
    lm = backend.network

    def thinking(index: int, max_thoughts: int | None) -> Row:
        """A row whose thinking ends as soon as a part of its free text is written."""
        marks = Marks("<", free[index].text[2:4], "")
        end = End(lm.tokenizer, lm.final, (free[0].text[6:8],))
        return Row(lm.tok_encode(prompts()[index].plain), 6, end, Thinking(marks, max_thoughts, opened=True))

    texts = []
    for writer in (lm.writer, fastest_writer(lm.writer, lm.tokenizer.pad_token_id, way)):
        rows = [thinking(index, max_thoughts) for index in range(4) for max_thoughts in (None, 2, 9)]
        list(writer.write(rows))
        texts.append([row.reply for row in rows])
    assert texts[0] == texts[1]
    assert any(reply.reasoning_tokens and reply.answer_tokens for reply in texts[0])
    assert used_way_only(writer, way), writer.describe()


def test_batches_of_a_fixed_shape_have_it_also_in_later_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("Llama")
    writer = writer_in("static", model)
    first = rows_of(SHORT_TOKENS)
    list(writer.write(first))
    fixed = writer.alternatives[0].writer.fixed
    assert fixed.rows == len(first)
    shapes = record_shapes(model, monkeypatch)
    fewer = rows_of(SHORT_TOKENS)[:3]
    list(writer.write(fewer))
    assert {shape for shape in shapes if shape[1] == 1} == {(len(first), 1)}
    assert [row.written for row in fewer] == [row.written for row in first[:3]]
    longer, later_row = Row([5] * (fixed.read + 1), 2, END), Row([5], fixed.written + 1, END)
    assert set(map(id, writer.write([longer, later_row]))) == {id(longer), id(later_row)}
    ways = writer.describe()["ways"]
    assert ways["own"]["tokens"] == len(longer.written) + len(later_row.written)
    assert "dropped" not in ways["static"]


def test_a_fixed_shape_has_room_for_a_long_text_after_the_longest_prompt() -> None:
    model = build_model("Llama")
    rows = [Row([5] * 100, 2, END), Row([6, 7, 8], 90, END)]
    writer = writer_in("static", model)
    list(writer.write(rows))
    assert [row.written for row in rows] == [greedy_tokens(model, row) for row in rows]
    assert used_way_only(writer, "static"), writer.describe()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Llama", "GPT2"])
def test_a_pass_is_compiled_once(name: str, everywhere: None) -> None:
    del everywhere
    from torch._dynamo.utils import counters

    model = build(name)
    model.generation_config.eos_token_id = 0
    model.generation_config.compile_config = compiled = CompileConfig(backend="eager", mode=None)
    compiled._compile_all_devices = True
    writer = writer_in("static", model)
    torch._dynamo.reset()
    counters.clear()
    for shared, number in ((LONG_TOKENS, 8), (SHORT_TOKENS, 8), (SHORT_TOKENS, 5), (LONG_TOKENS, 8)):
        rows = rows_of(shared)[:number]
        list(writer.write(rows))
        assert [row.written for row in rows] == [greedy_tokens(model, row) for row in rows]
        assert counters["stats"]["unique_graphs"] == 1
    assert used_way_only(writer, "static"), writer.describe()


@pytest.mark.slow
def test_a_row_that_is_not_waited_for_does_not_block_continuous_batching() -> None:
    writer = writer_in("continuous", build_model("Llama"))
    list(writer.write(rows_of(SHORT_TOKENS)))
    parts = writer.write(rows_of(SHORT_TOKENS))
    next(parts)
    parts.close()
    rows = rows_of(SHORT_TOKENS)
    list(writer.write(rows))
    assert [row.written for row in rows] == [greedy_tokens(build_model("Llama"), row) for row in rows]


def test_options_of_a_generation_config_hold_in_every_way() -> None:
    model = build("Llama")
    for name, value in {"eos_token_id": 0, "repetition_penalty": 1.8, "no_repeat_ngram_size": 2}.items():
        setattr(model.generation_config, name, value)
    texts = []
    for way in ("own", *OTHER_WAYS):
        rows = rows_of(SHORT_TOKENS)
        writer = writer_in(way, model)
        list(writer.write(rows))
        texts.append([row.written for row in rows])
    assert all(text == texts[0] for text in texts)
    assert writer_in("continuous", model).describe()["ways"]["continuous"]["dropped"]


def test_a_model_whose_rows_cannot_come_and_go_has_no_other_ways() -> None:
    writer = writer_for(build_model("Mamba"), 0, TokenBudget(16_384))
    assert fastest_writer(writer, 0) is fastest_writer(writer, 0, "generate") is writer
    with pytest.raises(ModelError, match="writing=static"):
        fastest_writer(writer, 0, "static")


def test_on_a_cpu_own_decoding_is_not_compared_with_anything() -> None:
    assert writer_in("auto", build_model("Llama")).describe()["rows"] == "come and go"


def test_an_unknown_way_is_refused(gpt2: Path, open_model: Any) -> None:
    with pytest.raises(ModelError, match=r"writing=statc is not one of .* did you mean 'static'"):
        open_model("hf", gpt2, writing="statc")


# ---- ways that fail --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_the_rows_of_a_way_that_fails_are_written_by_own_decoding(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("Llama")
    writer = writer_in(way, model)

    def broken(*_: Any, **__: Any) -> Any:
        raise NotImplementedError("no kernel image")

    monkeypatch.setattr(model, "generate", broken)
    monkeypatch.setattr(model, "continuous_batching_context_manager", broken)
    for _ in range(2):
        rows = rows_of(SHORT_TOKENS)
        assert sorted(map(id, writer.write(rows))) == sorted(map(id, rows))
        assert [row.written for row in rows] == [greedy_tokens(model, row) for row in rows]
    assert "no kernel image" in writer.describe()["ways"][way]["dropped"]
    assert writer.describe()["way"] == "own"


def test_texts_that_are_not_those_of_the_model_are_written_again() -> None:
    model = build("Llama")
    writer = writer_in("generate", model)
    generate = writer.alternatives[0].writer.write

    def wrong(rows: Sequence[Row]) -> Iterator[Row]:
        for row in generate(rows):
            row.written[:] = [(token + 1) % 60 for token in row.written]
            yield row

    writer.alternatives[0].writer = StandIn(wrong)
    rows = rows_of(SHORT_TOKENS)
    list(writer.write(rows))
    assert [row.written for row in rows] == [greedy_tokens(model, row) for row in rows]
    generate_way = writer.describe()["ways"]["generate"]
    assert "nats below" in generate_way["dropped"]
    assert generate_way["tokens"] == 0


def test_a_way_that_draws_other_tokens_is_dropped(gpt2: Path, open_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Greedy:
        def __init__(self, *_: object) -> None: ...

        def __call__(self, _ids: Any, scores: Any) -> Any:
            return scores

    monkeypatch.setattr(whole_batches, "DrawProcessor", Greedy)
    model = open_model("hf", gpt2, writing="generate", temperature=1.0)
    assert model.generate(prompts()).values == open_model("hf", gpt2, temperature=1.0).generate(prompts()).values
    assert model.describe()["writing"]["ways"]["generate"]["dropped"]


# ---- the choice ------------------------------------------------------------------------------------------------------


@dataclass
class StandIn:
    """A writer that is a function."""

    write: Any
    writing: TokenBudget = field(default_factory=lambda: TokenBudget(1_000_000, rows=100))

    def describe(self) -> dict[str, Any]:
        return {}


@dataclass
class Clock:
    """Time that passes only while texts are written."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds

    def way(self, name: str, rate: float, patience: float, preparing: float = 0.0) -> WritingWay[Any]:
        """A way that writes `rate` tokens per second, the first time after some seconds of preparing."""
        left = [preparing]

        def write(rows: Sequence[Row]) -> Iterator[Row]:
            self.seconds += left[0]
            left[0] = 0.0
            for row in rows:
                self.seconds += row.room / rate
                row.written[:] = [7] * row.room
                row.finish = "length"
                yield row

        return WritingWay(name, StandIn(write), patience, prepares=preparing > 0)


def chooser(clock: Clock, **rates: float) -> FastestWriter:
    patience = {"own": 0.0, "static": COMPILING_SECONDS}
    ways = [
        clock.way(name, rate, patience.get(name, MEASURING_SECONDS), 25.0 * (name == "static"))
        for name, rate in rates.items()
    ]
    return FastestWriter(ways[0], ways[1:], lambda _rows: "", clock=clock)


def write(writer: FastestWriter, calls: int, rows: int, room: int = 100) -> None:
    for _ in range(calls):
        requests = [Row([5], room, END) for _ in range(rows)]
        assert sorted(map(id, writer.write(requests))) == sorted(map(id, requests))
        assert all(row.written for row in requests)


def test_the_fastest_way_goes_on_after_each_has_been_tried() -> None:
    clock = Clock()
    writer = chooser(clock, own=5_000, generate=8_000, continuous=3_000)
    write(writer, calls=40, rows=100)
    description = writer.describe()
    assert description["way"] == "generate"
    assert description["ways"]["continuous"]["tokens"] == 10_000
    assert 50_000 <= description["ways"]["own"]["tokens"] <= 60_000, "ten seconds, before which nothing else is tried"
    assert clock.seconds < 40 * 10_000 / 6_500


def test_own_decoding_goes_on_where_it_is_the_fastest() -> None:
    writer = chooser(Clock(), own=9_000, generate=8_000, continuous=3_000)
    write(writer, calls=40, rows=100)
    assert writer.describe()["way"] == "own"


def test_a_short_run_compares_nothing() -> None:
    writer = chooser(Clock(), own=5_000, generate=8_000, static=13_000)
    write(writer, calls=4, rows=100)
    assert list(writer.describe()["ways"]) == ["own"]


def test_a_pass_is_compiled_only_if_a_minute_is_at_stake() -> None:
    clock = Clock()
    writer = chooser(clock, own=5_000, static=13_000)
    while clock.seconds < COMPILING_SECONDS:
        assert list(writer.describe()["ways"]) in ([], ["own"])
        write(writer, calls=1, rows=100)
    write(writer, calls=5, rows=100)
    description = writer.describe()
    assert description["way"] == "static"
    assert description["ways"]["static"]["first_batch_seconds"] > 25
    assert list(description["ways"]["static"]["tokens_per_second"].values()) == [13_000]


def test_a_long_call_is_known_to_be_long_after_its_first_batch() -> None:
    writer = chooser(Clock(), own=5_000, generate=8_000, static=13_000)
    write(writer, calls=1, rows=10_000)
    ways = writer.describe()["ways"]
    assert ways["own"]["tokens"] == ways["generate"]["tokens"] == 10_000
    assert ways["static"]["tokens"] == 980_000


def test_rows_of_another_magnitude_are_measured_anew() -> None:
    writer = chooser(Clock(), own=5_000, generate=8_000)
    write(writer, calls=10, rows=100)
    token_count = writer.describe()["ways"]["own"]["tokens"]
    write(writer, calls=1, rows=10)
    assert writer.describe()["ways"]["own"]["tokens"] == token_count + 1_000
    write(writer, calls=3, rows=10)
    assert writer.describe()["way"] == "generate"


class Unwilling(WritingWay[Any]):
    def takes(self, _row: Row) -> bool:
        return False


def test_rows_that_a_way_does_not_take_do_not_keep_others_from_being_tried() -> None:
    writer = chooser(Clock(), own=5_000, continuous=9_000, static=13_000)
    unwilling = Unwilling("continuous", writer.alternatives[0].writer, MEASURING_SECONDS)
    writer.alternatives = [unwilling, *writer.alternatives[1:]]
    write(writer, calls=60, rows=100)
    assert list(writer.describe()["ways"]) == ["own", "static"]
    assert writer.describe()["way"] == "static"


def test_a_small_fixed_shape_is_not_tried_on_many_rows() -> None:
    (way,) = writer_in("static", build_model("Llama")).alternatives
    list(way.write(rows_of(SHORT_TOKENS)[:1]))
    assert way.suits(rows_of(SHORT_TOKENS)[:2])
    assert not way.suits(rows_of(SHORT_TOKENS))
    assert not way.suits([Row([5] * 500, 3, END), *rows_of(SHORT_TOKENS)[1:2], Row([5] * 500, 3, END)])


# ---- attention -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["Llama", *(pytest.param(name, marks=pytest.mark.slow) for name in ("Mistral", "StableLm"))]
)
def test_attention_by_groups_gives_the_same_texts_and_repeats_no_keys(
    name: str, everywhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del everywhere
    model = build(name)
    writer = writer_for(model, 0, TokenBudget(16_384, rows=4))
    assert writer.grouped
    seen: list[tuple[int, int]] = []
    compute = torch.nn.functional.scaled_dot_product_attention

    def listening(query: Any, key: Any, *further: Any, **options: Any) -> Any:
        seen.append((query.shape[1], key.shape[1]))
        return compute(query, key, *further, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", listening)
    for way in ("own", *OTHER_WAYS):
        rows = rows_of(LONG_TOKENS)
        seen.clear()
        list(fastest_writer(writer, 0, way).write(rows))
        assert (2, 2) in seen or way == "continuous"
        assert model.config._attn_implementation == "sdpa"
        assert [row.written for row in rows] == [greedy_tokens(model, row) for row in rows]


@pytest.mark.parametrize("name", ["GPT2", "Gemma2"])
def test_attention_of_other_kinds_is_left_to_transformers(name: str, everywhere: None) -> None:
    del everywhere
    writer = writer_for(build(name), 0, TokenBudget(16_384, rows=4))
    assert not writer.grouped


def test_a_model_that_does_not_bear_attention_by_groups_keeps_its_own(
    everywhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del everywhere
    model = build("Llama")
    forward = attention.attention_by_groups

    def wrong(*inputs: Any, **further: Any) -> Any:
        states, nothing = forward(*inputs, **further)
        return states + 1, nothing

    attention._register.cache_clear()
    monkeypatch.setattr(attention, "attention_by_groups", wrong)
    writer = writer_for(model, 0, TokenBudget(16_384, rows=4))
    attention._register.cache_clear()
    assert not writer.grouped
