"""Generation in batches: each prompt gets the text that it gets alone, while rows join and leave."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import torch

from figeval import AnswerFormat, FigevalError, Message, ModelError, Prompt
from figeval.testing import ask
from tests.listeners import listen
from tests.plugins.tiny import LINES, Workshop

TEXTS = [line[:length] for line in LINES for length in (5, 24)]


def prompts(max_tokens: int = 24, stop: tuple[str, ...] = ()) -> list[Prompt]:
    return [Prompt((Message("user", text),), stop=stop, max_new_tokens=max_tokens) for text in TEXTS]


# ---- the model ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "head"), [("gpt2", "LMHeadModel"), ("llama", "ForCausalLM")])
def test_a_prompt_gets_the_same_text_alone_and_in_a_batch(
    kind: str, head: str, workshop: Workshop, open_model: Any
) -> None:
    folder = str(workshop(kind, head))
    alone, together = open_model("hf", folder, batch_size=1), open_model("hf", folder)
    free = alone.generate(prompts()).values
    stop = free[0].text[6:8], free[3].text[10:11]
    for batch in (prompts(), prompts(stop=stop), [*prompts(9, stop)[:5], *prompts(3)[5:]]):
        assert together.generate(batch).values == alone.generate(batch).values
    cut = together.generate(prompts(stop=stop)).values
    assert any(len(reply.text) < len(uncut.text) for reply, uncut in zip(cut, free, strict=True))


def test_a_stop_text_ends_an_answer_whatever_tokens_it_is_written_with(gpt2: Path, open_model: Any) -> None:
    backend = open_model("hf", gpt2)
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
    gpt2: Path, monkeypatch: pytest.MonkeyPatch, open_model: Any
) -> None:
    backend = open_model("hf", gpt2)
    stop = tuple({reply.text[4:6] for reply in backend.generate(prompts()).values[:7]})
    shapes = record_shapes(backend.network.model, monkeypatch)
    with listen() as ears:
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
    gpt2: Path, monkeypatch: pytest.MonkeyPatch, open_model: Any
) -> None:
    backend = open_model("hf", gpt2)
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


def copy_with_options(folder: Path, target: Path, **options: Any) -> str:
    """A copy of a checkpoint whose generation_config.json has further options."""
    shutil.copytree(folder, target)
    file = target / "generation_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | options))
    return str(target)


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_stop_texts_of_a_generation_config_end_an_answer(
    kind: str, workshop: Workshop, tmp_path: Path, open_model: Any
) -> None:
    folder = workshop(kind, {"gpt2": "LMHeadModel", "bart": "ForConditionalGeneration"}[kind])
    free = open_model("hf", folder).generate(prompts()).values
    stop = free[0].text[3:4]
    replies = open_model("hf", copy_with_options(folder, tmp_path / "m", stop_strings=stop)).generate(prompts()).values
    assert replies == open_model("hf", folder).generate(prompts(stop=(stop,))).values != free


def test_a_generation_config_asks_for_one_text_of_each_beam_search(
    workshop: Workshop, tmp_path: Path, open_model: Any
) -> None:
    folder = workshop("bart", "ForConditionalGeneration")
    single, two = (
        open_model("hf", copy_with_options(folder, tmp_path / str(count), num_beams=2, num_return_sequences=count))
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
    kind: str, head: str, options: dict[str, int], workshop: Workshop, tmp_path: Path, open_model: Any
) -> None:
    backend = open_model("hf", copy_with_options(workshop(kind, head), tmp_path / "m", **options))
    with pytest.raises(ModelError, match=r"as generation_config\.json says: .*; correct that file"):
        list(backend.generate(prompts()).parts)


# ---- formats -------------------------------------------------------------------------------------------------------

FORMATS = [
    AnswerFormat(choices=("B", "C")),
    AnswerFormat(choices=("not entailed", 'Äpfel "x"', "a\\b")),
    AnswerFormat.of_object({"word": {"type": "string", "enum": ["x", "y"]}}),
]


def is_acceptable(answer: AnswerFormat, text: str) -> bool:
    return text.removeprefix(" ") in answer.choices or json.loads(text)["word"] in "xy"


def test_answers_keep_to_their_formats(gpt2: Path, open_model: Any) -> None:
    backend = open_model("hf", gpt2)
    requests = [replace(prompt, answer=answer) for prompt in prompts(40)[:4] for answer in FORMATS]
    free = backend.generate([prompts(40)[0]]).values[0].text
    assert free[:1] not in ("B", "C", "{")
    for prompt, reply in zip(requests, backend.generate(requests).values, strict=True):
        assert prompt.answer is not None
        assert reply.finish == "stop"
        assert is_acceptable(prompt.answer, reply.text), reply.text
    (cut,) = backend.generate([replace(requests[2], max_new_tokens=3)]).values
    assert cut.finish == "length"


def test_whole_batches_keep_to_formats_too_and_what_a_tokenizer_cannot_write_ends(
    workshop: Workshop, open_model: Any
) -> None:
    backend = open_model("hf", workshop("t5", "ForConditionalGeneration"))
    short, impossible = AnswerFormat(choices=("No", "Yes")), FORMATS[2]  # its tokens have no braces
    requests = [replace(prompt, answer=answer) for prompt in prompts(9)[:2] for answer in (short, impossible)]
    replies = backend.generate([*requests, prompts(9)[0]]).values
    assert [reply.text.strip() in short.choices for reply in replies[::2]] == [True, True, False]
    assert [reply.text for reply in replies[1::2]] == ["", ""]


@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_a_format_outranks_what_a_generation_config_forces_and_forbids(
    kind: str, workshop: Workshop, tmp_path: Path, open_model: Any
) -> None:
    head = {"gpt2": "LMHeadModel", "bart": "ForConditionalGeneration"}[kind]
    forced = {} if kind == "gpt2" else {"forced_bos_token_id": 0, "forced_eos_token_id": 2, "min_length": 30}
    backend = open_model(
        "hf", copy_with_options(workshop(kind, head), tmp_path / "m", no_repeat_ngram_size=1, **forced)
    )
    requests = [replace(prompt, answer=answer) for prompt in prompts(40)[:3] for answer in FORMATS]
    for prompt, reply in zip(requests, backend.generate(requests).values, strict=True):
        assert prompt.answer is not None
        assert is_acceptable(prompt.answer, reply.text), reply.text
    (cut,) = backend.generate([replace(requests[2], max_new_tokens=3)]).values
    assert cut.finish == "length"


def test_an_end_that_the_model_cannot_write_does_no_harm_to_a_format(
    workshop: Workshop, tmp_path: Path, open_model: Any
) -> None:
    folder = copy_with_options(workshop("t5", "ForConditionalGeneration"), tmp_path / "m", eos_token_id=[1, 99_999])
    (reply,) = open_model("hf", folder).generate([replace(prompts(9)[0], answer=FORMATS[2])]).values
    assert reply.text == ""


def test_without_xgrammar_a_format_names_the_extra(
    gpt2: Path, monkeypatch: pytest.MonkeyPatch, open_model: Any
) -> None:
    monkeypatch.setitem(sys.modules, "xgrammar", None)
    backend = open_model("hf", gpt2)
    with pytest.raises(FigevalError, match=r"figeval\[constrain\]"):
        backend.generate([replace(prompts()[0], answer=FORMATS[0])])
    with pytest.raises(FigevalError, match=r"figeval\[constrain\]"):  # asked before the first question
        _ = backend.constrains_answers
