"""Generation in batches: each prompt gets the text that it gets alone, while rows join and leave."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from figeval import AnswerFormat, Message, ModelError, Prompt
from figeval.builtin.plugins.causal.generation.decoder import Decoder
from figeval.builtin.plugins.causal.generation.prefixes import by_beginning
from figeval.builtin.plugins.causal.generation.row import End, Row
from figeval.builtin.plugins.causal.generation.self_test import writer_for
from figeval.builtin.plugins.causal.generation.whole_batches import WholeBatches
from figeval.builtin.plugins.causal.language_model import hf
from figeval.builtin.plugins.torch_models.batching import TokenBudget
from figeval.io.observer import listening
from figeval.models.capabilities import ask
from tests.listeners import Ears
from tests.plugins.architectures import PACKED_CONFIGS, PLAIN_CONFIGS, SHARING, WINDOW, WORDS, build
from tests.plugins.tiny import LINES, Workshop

TEXTS = [line[:length] for line in LINES for length in (5, 24)]


def prompts(max_tokens: int = 24, stop: tuple[str, ...] = ()) -> list[Prompt]:
    return [Prompt((Message("user", text),), stop=stop, max_new_tokens=max_tokens) for text in TEXTS]


# ---- the model ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "head"), [("gpt2", "LMHeadModel"), ("llama", "ForCausalLM")])
def test_a_prompt_gets_the_same_text_alone_and_in_a_batch(kind: str, head: str, workshop: Workshop) -> None:
    folder = str(workshop(kind, head))
    alone, together = hf(folder, batch_size=1), hf(folder)
    free = alone.generate(prompts()).values
    stop = free[0].text[6:8], free[3].text[10:11]
    for batch in (prompts(), prompts(stop=stop), [*prompts(9, stop)[:5], *prompts(3)[5:]]):
        assert together.generate(batch).values == alone.generate(batch).values
    cut = together.generate(prompts(stop=stop)).values
    assert any(len(reply.text) < len(uncut.text) for reply, uncut in zip(cut, free, strict=True))


def test_a_stop_text_ends_an_answer_whatever_tokens_it_is_written_with(workshop: Workshop) -> None:
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    letters = [backend.tokenizer.convert_tokens_to_ids(letter) for letter in "sandforgivinglyand"]
    assert len(backend.tokenizer.encode("forgivingly")) < len("forgivingly") - 2

    def spelt(read: Any, scores: Any) -> Any:
        dictated = scores.clone().fill_(-100.0)
        dictated[0, letters[read.shape[1] - length]] = 0
        return dictated

    length = len(backend.tokenizer.encode(TEXTS[0]))
    backend.network.writer.processors = spelt
    prompt = Prompt((Message("user", TEXTS[0]),), stop=("forgivingly",), max_new_tokens=len(letters))
    (reply,) = backend.generate([prompt]).values
    assert (reply.text, reply.finish, reply.answer_tokens) == ("sand", "stop", len(letters) - len("and"))


def record_shapes(model: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of everything that the model reads from now on."""
    shapes: list[tuple[int, ...]] = []
    forward = model.forward

    @wraps(forward)  # transformers reads its signature
    def count_forward(**inputs: Any) -> Any:
        shapes.append(tuple(inputs["input_ids"].shape))
        return forward(**inputs)

    monkeypatch.setattr(model, "forward", count_forward)
    return shapes


def test_every_text_is_reported_when_it_ends_and_the_batch_shrinks(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    stop = tuple({reply.text[4:6] for reply in backend.generate(prompts()).values[:7]})
    shapes = record_shapes(backend.network.model, monkeypatch)
    ears = Ears()
    with listening(ears):
        ask(backend, prompts(stop=stop))
    counts = [answered for answered, _ in ears.heard]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, len(TEXTS))
    assert len(TEXTS) // 2 in counts, "all prompts are read"
    steps = [rows for rows, columns in shapes if columns == 1]
    leaving = steps[steps.index(max(steps)) :]
    assert leaving == sorted(leaving, reverse=True)
    assert leaving[0] > 2 * leaving[-1]


def test_memory_that_runs_out_halves_the_batch_and_loses_no_text(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    expected = backend.generate(prompts()).values
    model = backend.network.model
    forward, seen = model.forward, []

    @wraps(forward)
    def small(**inputs: Any) -> Any:
        rows, columns = inputs["input_ids"].shape
        seen.append(rows)
        if rows > len(TEXTS) // 2 and len(seen) > 5 and columns == 1:  # in the middle of the texts
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(**inputs)

    monkeypatch.setattr(model, "forward", small)
    parts = list(backend.generate(prompts()).parts)
    assert {part.rows[0]: part.values[0] for part in parts} == dict(enumerate(expected))
    assert len(parts) == len(TEXTS)
    assert backend.describe()["writing"]["halved"] == 1


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


# ---- the writers ---------------------------------------------------------------------------------------------------

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
    """The likeliest tokens, each from a pass of its own over the whole text."""
    ids = list(row.prompt)
    with torch.inference_mode():
        while len(ids) < len(row.prompt) + row.room and (len(ids) == len(row.prompt) or ids[-1] != 0):
            ids.append(int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(row.prompt) :]


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


def copy_with_options(folder: Path, target: Path, **options: Any) -> str:
    """A copy of a checkpoint whose generation_config.json has further options."""
    shutil.copytree(folder, target)
    file = target / "generation_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | options))
    return str(target)


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_stop_texts_of_a_generation_config_end_an_answer(kind: str, workshop: Workshop, tmp_path: Path) -> None:
    folder = workshop(kind, {"gpt2": "LMHeadModel", "bart": "ForConditionalGeneration"}[kind])
    free = hf(str(folder)).generate(prompts()).values
    stop = free[0].text[3:4]
    replies = hf(copy_with_options(folder, tmp_path / "m", stop_strings=stop)).generate(prompts()).values
    assert replies == hf(str(folder)).generate(prompts(stop=(stop,))).values != free


def test_a_generation_config_asks_for_one_text_of_each_beam_search(workshop: Workshop, tmp_path: Path) -> None:
    folder = workshop("bart", "ForConditionalGeneration")
    single, two = (
        hf(copy_with_options(folder, tmp_path / str(count), num_beams=2, num_return_sequences=count))
        for count in (1, 2)
    )
    assert two.generate(prompts()).values == single.generate(prompts()).values


@pytest.mark.parametrize(
    ("kind", "head", "options"),
    [
        ("gpt2", "LMHeadModel", {"repetition_penalty": -2}),
        ("bart", "ForConditionalGeneration", {"prompt_lookup_num_tokens": 2}),
    ],
)
def test_a_generation_config_that_cannot_be_followed_is_named(
    kind: str, head: str, options: dict[str, int], workshop: Workshop, tmp_path: Path
) -> None:
    backend = hf(copy_with_options(workshop(kind, head), tmp_path / "m", **options))
    with pytest.raises(ModelError, match=r"as generation_config\.json says: .*; correct that file"):
        list(backend.generate(prompts()).parts)


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


# ---- formats -------------------------------------------------------------------------------------------------------

FORMATS = [
    AnswerFormat(choices=("B", "C")),
    AnswerFormat(choices=("not entailed", 'Äpfel "x"', "a\\b")),
    AnswerFormat.of_object({"word": {"type": "string", "enum": ["x", "y"]}}),
]


def is_acceptable(answer: AnswerFormat, text: str) -> bool:
    return text.removeprefix(" ") in answer.choices or json.loads(text)["word"] in "xy"


def test_answers_keep_to_their_formats(workshop: Workshop) -> None:
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    requests = [replace(prompt, answer=answer) for prompt in prompts(40)[:4] for answer in FORMATS]
    free = backend.generate([prompts(40)[0]]).values[0].text
    assert free[:1] not in ("B", "C", "{")
    for prompt, reply in zip(requests, backend.generate(requests).values, strict=True):
        assert prompt.answer is not None
        assert reply.finish == "stop"
        assert is_acceptable(prompt.answer, reply.text), reply.text
    (cut,) = backend.generate([replace(requests[2], max_new_tokens=3)]).values
    assert cut.finish == "length"


def test_whole_batches_keep_to_formats_too_and_what_a_tokenizer_cannot_write_ends(workshop: Workshop) -> None:
    backend = hf(str(workshop("t5", "ForConditionalGeneration")))
    short, impossible = AnswerFormat(choices=("No", "Yes")), FORMATS[2]  # its tokens have no braces
    requests = [replace(prompt, answer=answer) for prompt in prompts(9)[:2] for answer in (short, impossible)]
    replies = backend.generate([*requests, prompts(9)[0]]).values
    assert [reply.text.strip() in short.choices for reply in replies[::2]] == [True, True, False]
    assert [reply.text for reply in replies[1::2]] == ["", ""]


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_a_format_outranks_what_a_generation_config_forces_and_forbids(
    kind: str, workshop: Workshop, tmp_path: Path
) -> None:
    head = {"gpt2": "LMHeadModel", "bart": "ForConditionalGeneration"}[kind]
    forced = {} if kind == "gpt2" else {"forced_bos_token_id": 0, "forced_eos_token_id": 2, "min_length": 30}
    backend = hf(copy_with_options(workshop(kind, head), tmp_path / "m", no_repeat_ngram_size=1, **forced))
    requests = [replace(prompt, answer=answer) for prompt in prompts(40)[:3] for answer in FORMATS]
    for prompt, reply in zip(requests, backend.generate(requests).values, strict=True):
        assert prompt.answer is not None
        assert is_acceptable(prompt.answer, reply.text), reply.text
    (cut,) = backend.generate([replace(requests[2], max_new_tokens=3)]).values
    assert cut.finish == "length"


def test_an_end_that_the_model_cannot_write_does_no_harm_to_a_format(workshop: Workshop, tmp_path: Path) -> None:
    folder = copy_with_options(workshop("t5", "ForConditionalGeneration"), tmp_path / "m", eos_token_id=[1, 99_999])
    (reply,) = hf(folder).generate([replace(prompts(9)[0], answer=FORMATS[2])]).values
    assert reply.text == ""


def test_without_xgrammar_a_format_names_the_extra(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgrammar", None)
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    with pytest.raises(ModelError, match=r"pip install 'figeval\[constrain\]'"):
        backend.generate([replace(prompts()[0], answer=FORMATS[0])])
    with pytest.raises(ModelError, match=r"pip install 'figeval\[constrain\]'"):  # asked before the first question
        _ = backend.constrains_answers


# ---- beginnings ----------------------------------------------------------------------------------------------------

words = st.lists(st.integers(0, 3), min_size=1, max_size=4)


@st.composite
def similar_rows(draw: st.DrawFn) -> list[list[int]]:
    begin = draw(st.lists(st.integers(0, WORDS), max_size=80))
    return [(begin if draw(st.booleans()) else []) + draw(words) for _ in range(draw(st.integers(1, 8)))]


def parents(beginning: Any) -> Iterator[Any]:
    while beginning is not None:
        yield beginning
        beginning = beginning.parent


@given(similar_rows())
def test_every_prompt_has_one_place_and_begins_with_its_beginning(texts: list[list[int]]) -> None:
    groups = by_beginning(texts)
    assert sorted(index for index, _ in groups) == list(range(len(texts)))
    for index, beginning in groups:
        for parent in parents(beginning):
            assert texts[index][: len(parent.ids)] == list(parent.ids)
    order = [beginning for _, beginning in groups]
    assert len(set(map(id, order))) == 1 + sum(a is not b for a, b in pairwise(order))
