"""Writers: rows that join and leave a batch get their own texts, and the self-test finds whatever mixes them up."""

from __future__ import annotations

from functools import cache, wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from figeval import ModelError
from figeval.builtin.plugins.causal.engine.separable import separable_parts
from figeval.builtin.plugins.causal.generation import trials
from figeval.builtin.plugins.causal.generation.decoder import Decoder
from figeval.builtin.plugins.causal.generation.row import End, Row
from figeval.builtin.plugins.causal.generation.self_test import writer_for
from figeval.builtin.plugins.causal.generation.trials import BatchTrial, DecoderTrial, array, failure, fresh_failure
from figeval.builtin.plugins.causal.generation.whole_batches import WholeBatches
from figeval.builtin.plugins.torch_models.batching import TokenBudget
from tests.plugins.architectures import (
    MIXING,
    PACKED_CONFIGS,
    PLAIN_CONFIGS,
    SHARING,
    WINDOW,
    WORDS,
    build,
)
from tests.plugins.test_generation import record_shapes

END = End(None, frozenset({0}))
LONG_TOKENS, SHORT_TOKENS = 70, 9  # tokens that prompts share: more than `reading_plan.PASS`, and not worth a pass


def rows_of(shared: int) -> list[Row]:
    """Rows of several lengths that begin alike; two of them are equal, and one continues another."""
    generator = torch.Generator().manual_seed(3)
    begin, *other_ids = (torch.randint(5, 60, (n,), generator=generator).tolist() for n in (shared, 3, 17, 1, 30, 8))
    texts = [[*begin, *other] for other in other_ids]
    texts += [texts[1], [*texts[1], 7, 8], other_ids[4]]
    return [Row(text, room, END) for text, room in zip(texts, (4, 9, 1, 7, 12, 5, 9, 12), strict=True)]


def greedy_tokens(model: Any, row: Row) -> list[int]:
    """The likeliest tokens of a plain pass over the text alone, up to the end of the row.

    They are those that follow what the row has written, so they are equal to it only if each of its tokens is right and
    it ends where it should.
    """
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([[*row.prompt, *row.written]])).logits[0]
    likeliest = logits[len(row.prompt) - 1 :].argmax(-1).tolist()[: row.room]
    return likeliest[: likeliest.index(0) + 1] if 0 in likeliest else likeliest


@pytest.mark.parametrize("name", ["GPT2", "Llama", "Gemma2", "Mistral", "GPTNeoX", "OPT", "Bloom", "Mamba"])
def test_every_row_gets_its_own_text(name: str) -> None:
    model = build(name)
    writer = writer_for(model, 0, TokenBudget(16_384, rows=3))  # so that rows join others
    rows = rows_of(SHORT_TOKENS)
    assert sorted(map(id, writer.write(rows))) == sorted(map(id, rows))
    for row in rows:
        assert row.written == greedy_tokens(model, row)
        assert row.finish == ("stop" if row.written[-1] == 0 else "length")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PACKED_CONFIGS, *SHARING])
def test_rows_of_every_architecture_come_and_go(name: str) -> None:
    model = build(name)
    writer = writer_for(model, 0, TokenBudget(16_384, rows=3))
    assert isinstance(writer, Decoder), writer.describe()
    rows = rows_of(LONG_TOKENS)
    assert LONG_TOKENS > WINDOW
    list(writer.write(rows))
    assert [row.written for row in rows] == [greedy_tokens(model, row) for row in rows]


@pytest.mark.parametrize("name", PLAIN_CONFIGS)
def test_a_model_with_a_cache_of_its_own_keeps_its_rows_and_says_why(name: str) -> None:
    writer = writer_for(build(name), 0, TokenBudget(16_384))
    assert isinstance(writer, WholeBatches)
    assert "Error" in writer.describe()["because"]


@pytest.mark.parametrize(("name", "separate"), [("Mamba", True), ("Rwkv", False), ("MiniMax", False)])
def test_a_model_that_mixes_up_the_rows_of_a_batch_writes_one_at_a_time(name: str, separate: bool) -> None:
    model = build(name)
    model.generation_config.eos_token_id = 0
    writer = writer_for(model, 0, TokenBudget(16_384))
    assert isinstance(writer, WholeBatches)
    assert ("each is written alone" in writer.describe()["because"]) is not separate
    rows = rows_of(SHORT_TOKENS)
    assert sorted(map(id, writer.write(rows))) == sorted(map(id, rows))
    assert [row.written for row in rows] == [greedy_tokens(model, row) for row in rows]


def test_what_prompts_begin_with_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = writer_for(build("Llama"), 0, TokenBudget(16_384))
    shapes = record_shapes(writer.model, monkeypatch)
    first, again = rows_of(LONG_TOKENS), rows_of(LONG_TOKENS)
    list(writer.write(first))
    read = sum(rows * columns for rows, columns in shapes if columns > 1)
    assert read < 4 * LONG_TOKENS
    shapes.clear()
    list(writer.write(again))  # the next call knows it already
    assert sum(rows * columns for rows, columns in shapes if columns > 1) <= read - LONG_TOKENS + 1
    assert [row.written for row in first] == [row.written for row in again]


def test_options_of_a_generation_config_hold_for_each_row_alone() -> None:
    model = build("Llama")
    plain = rows_of(SHORT_TOKENS)
    list(writer_for(model, 0, TokenBudget(16_384)).write(plain))
    model.generation_config.eos_token_id = 0
    model.generation_config.repetition_penalty = 1.8
    model.generation_config.no_repeat_ngram_size = 2
    rows = rows_of(SHORT_TOKENS)
    list(writer_for(model, 0, TokenBudget(16_384)).write(rows))
    for row in rows:
        output = model.generate(torch.tensor([row.prompt]), max_new_tokens=row.room, do_sample=False, pad_token_id=0)
        assert row.written == output[0, len(row.prompt) :].tolist()
    assert [row.written for row in rows] != [row.written for row in plain]


@pytest.mark.parametrize("max_rows", [5, 0])
def test_prompts_that_do_not_fit_are_read_in_smaller_batches(max_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("Llama")
    writer = writer_for(model, 0, TokenBudget(16_384))
    forward = model.forward

    @wraps(forward)
    def small(**inputs: Any) -> Any:
        if len(inputs["input_ids"]) > max_rows:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(**inputs)

    monkeypatch.setattr(model, "forward", small)
    rows = rows_of(SHORT_TOKENS)
    if max_rows == 0:
        with pytest.raises(ModelError, match="does not fit into memory"):
            list(writer.write(rows))
        return
    list(writer.write(rows))
    assert [row.written for row in rows] == [greedy_tokens(model, row) for row in rows]


def test_texts_that_ended_with_their_first_token_survive_memory_that_runs_out_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = build("Llama")
    writer = writer_for(model, 0, TokenBudget(16_384))
    forward, failed = model.forward, []

    @wraps(forward)
    def small(**inputs: Any) -> Any:
        if inputs["input_ids"].shape[1] == 1 and not failed:
            failed.append(True)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(**inputs)

    monkeypatch.setattr(model, "forward", small)
    rows = [Row([5 + number, 6, 7], (1, 4)[number % 2], END) for number in range(6)]
    assert sorted(map(id, writer.write(rows))) == sorted(map(id, rows))


@pytest.mark.parametrize("options", [{"num_beams": 2}, {"min_new_tokens": 3}])
def test_unusual_decoding_is_left_to_transformers(options: dict[str, int]) -> None:
    model = build("Llama")
    for name, value in {"eos_token_id": 0, **options}.items():
        setattr(model.generation_config, name, value)
    writer = writer_for(model, 0, TokenBudget(16_384))
    assert writer.describe()["because"] == f"the generation config sets {next(iter(options))}"
    rows = [Row(row.prompt, 6, END) for row in rows_of(SHORT_TOKENS)[:3]]
    list(writer.write(rows))
    for row in rows:
        output = model.generate(torch.tensor([row.prompt]), max_new_tokens=6, do_sample=False, pad_token_id=0)
        assert row.written == output[0, len(row.prompt) :].tolist()


# ---- beginnings ----------------------------------------------------------------------------------------------------

words = st.lists(st.integers(0, 3), min_size=1, max_size=4)


@st.composite
def similar_rows(draw: st.DrawFn) -> list[list[int]]:
    begin = draw(st.lists(st.integers(0, WORDS - 1), max_size=80))
    return [(begin if draw(st.booleans()) else []) + draw(words) for _ in range(draw(st.integers(1, 8)))]


@cache
def llama_writer() -> tuple[Any, Any]:
    """A model and its writer, which remembers what the prompts of earlier examples began with."""
    model = build("Llama")
    return model, writer_for(model, 0, TokenBudget(16_384, rows=5))


@pytest.mark.slow
@settings(max_examples=30)
@given(similar_rows())
def test_prompts_of_any_beginnings_get_their_own_texts(texts: list[list[int]]) -> None:
    model, writer = llama_writer()
    rows = [Row(text, 2, END) for text in texts]
    assert sorted(map(id, writer.write(rows))) == sorted(map(id, rows))
    assert [row.written for row in rows] == [greedy_tokens(model, row) for row in rows]


# ---- the self-test ---------------------------------------------------------------------------------------------------

LOUD_CONFIGS = {"Cohere": {"logit_scale": 1.0}}
NATS = 0.1  # per token
QUICK_NAMES = ("Llama", "Gemma2", "Mpt")


def decoder_trial(model: Any) -> DecoderTrial:
    return DecoderTrial(Decoder(model, TokenBudget.on("cpu"), TokenBudget(16_384)))


def batch_trial(model: Any) -> BatchTrial:
    model.generation_config.eos_token_id = 0
    return BatchTrial(WholeBatches(model, TokenBudget(16_384), 0, ""))


def add_noise(model: Any) -> None:
    """Add noise to states in half precision that depends on the shape of a batch: .1 nats per token."""
    level = 0.0

    def noisy(_module: Any, _inputs: Any, output: Any) -> Any:
        states = output.last_hidden_state
        if level and states.dtype == torch.bfloat16:
            rows, columns, _ = states.shape
            generator = torch.Generator().manual_seed(1_000 * rows + columns)
            output.last_hidden_state = states + level * torch.randn(states.shape, generator=generator).to(states)
        return output

    body, _ = separable_parts(model, torch.device("cpu"))
    assert body is not None
    body.register_forward_hook(noisy)
    trial = decoder_trial(model)
    clean = array(trial.rows(together=True))
    level = 0.1
    for _ in range(3):
        level *= NATS / float(np.sqrt(np.square(array(trial.rows(together=True)) - clean).mean()))


@pytest.mark.parametrize("name", ["Llama", *(pytest.param(name, marks=pytest.mark.slow) for name in ("Gemma2", "Mpt"))])
def test_rounding_that_depends_on_the_shape_of_a_batch_hides_no_fault(name: str) -> None:
    """The second question finds the fault without the first one, as on a device with wrong kernels in half precision.

    The first one is asked of a copy in single precision, whatever is rounded.
    """
    model = build(name, **LOUD_CONFIGS.get(name, {})).to(torch.bfloat16)
    # Whole batches are for models whose rows cannot come and go, so a few of those that can are enough.
    makers: Any = (decoder_trial, batch_trial) if name in QUICK_NAMES else (decoder_trial,)
    for make in makers:
        assert fresh_failure(make(model)) == ""
        assert fresh_failure(make(model).with_fault())
    add_noise(model)
    for make in makers:
        assert trials.judge_rounding(make(model)) == ""
        assert trials.judge_rounding(make(model).with_fault())


@pytest.mark.parametrize("name", [*PLAIN_CONFIGS, *MIXING])
def test_what_has_a_cache_of_its_own_fails_in_either_precision(name: str) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        model = build(name).to(dtype)
        assert failure(decoder_trial(model))
        assert bool(failure(batch_trial(model))) is (name not in {"Mamba"})


def test_weights_that_cannot_be_cast_are_compared_with_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_model: Any, _dtype: Any) -> Any:
        raise RuntimeError("4-bit weights")

    monkeypatch.setattr(trials, "computing_in", refuse)
    model = build("Llama").to(torch.bfloat16)
    assert fresh_failure(decoder_trial(model)) == ""
    assert trials.judge_rounding(decoder_trial(model).with_fault())


def test_a_verdict_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIGEVAL_HOME", str(tmp_path))
    first = writer_for(build("Mamba"), 0, TokenBudget(16_384)).describe()
    assert len(list((tmp_path / "self_tests").iterdir())) == 2

    def forbidden(_trial: Any) -> str:
        raise AssertionError("tested again")

    monkeypatch.setattr(trials, "fresh_failure", forbidden)
    assert writer_for(build("Mamba"), 0, TokenBudget(16_384)).describe() == first
