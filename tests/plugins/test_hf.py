"""Causal and encoder-decoder models through lm-eval, against plain forwards."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from figeval.backends.capabilities import capabilities
from figeval.builtin.plugins.hf import hf
from figeval.errors import ModelError
from figeval.types import Continuation, Message, Prompt
from tests.plugins.tiny import LINES, LONG, POSITIONS, Workshop

REQUESTS = [
    *(Continuation(line, f" {other}") for line in LINES[:3] for other in ("Yes", "No, it does not.")),
    Continuation("Does it follow? ", "Yes"),
    Continuation("", "Empty vessels"),
    Continuation(" ", "Empty vessels"),
]


def naive(folder: Path, request: Continuation) -> float:
    """Σ log P of the continuation's tokens, one text at a time."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    context = request.context.rstrip()
    whole = tokenizer(request.context + request.continuation)["input_ids"]
    begin = len(tokenizer(context)["input_ids"])
    if not context:
        whole, begin = [tokenizer.eos_token_id, *whole], 1
    with torch.inference_mode():
        table = model(input_ids=torch.tensor([whole])).logits[0].double().log_softmax(-1)
    return sum(float(table[position - 1, whole[position]]) for position in range(begin, len(whole)))


def test_loglikelihood_is_the_naive_sum_in_any_batch(workshop: Workshop) -> None:
    folder = workshop("gpt2", "LMHeadModel")
    wanted = [naive(folder, request) for request in REQUESTS]
    for size in (1, 64, "auto"):
        output = hf(str(folder), batch_size=size).loglikelihood(REQUESTS)
        np.testing.assert_allclose(output.values, wanted, rtol=1e-4, err_msg=f"{size}")
        assert output.truncated == set()
    assert max(wanted) - min(wanted) > 1


def test_a_long_context_loses_its_beginning_and_is_reported(workshop: Workshop) -> None:
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    output = backend.loglikelihood([Continuation(LONG, " Yes"), REQUESTS[0]])
    assert output.truncated == {0}
    assert all(math.isfinite(value) for value in output.values)
    assert backend.describe()["max_length"] == POSITIONS


def test_the_limit_is_exact(workshop: Workshop) -> None:
    """The last token is only predicted: a text of `max_length` + 1 tokens still fits."""
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    encode = backend.network.tok_encode
    words = " a" * (POSITIONS + 5)
    context = words[: 2 * (POSITIONS)]
    assert len(encode(context + " a")) == POSITIONS + 1
    assert backend.loglikelihood([Continuation(context, " a")]).truncated == set()
    assert backend.loglikelihood([Continuation(context + " a", " a")]).truncated == {0}


def test_generation_stops_where_it_is_told(workshop: Workshop) -> None:
    folder = workshop("gpt2", "LMHeadModel")
    backend = hf(str(folder))
    prompts = [Prompt((Message("user", line),), max_new_tokens=6) for line in LINES[:3]]
    texts = list(backend.generate(prompts).values)
    assert texts == list(hf(str(folder), batch_size=1).generate(prompts).values)
    assert all(texts)
    stop = texts[0][2:4]
    (stopped,) = backend.generate([Prompt((Message("user", LINES[0]),), stop=(stop,), max_new_tokens=6)]).values
    assert stopped == texts[0].partition(stop)[0]
    assert backend.generate([Prompt((Message("user", LONG),), max_new_tokens=4)]).truncated == {0}
    with pytest.raises(ModelError, match=f"{POSITIONS} new tokens do not fit"):
        backend.generate([Prompt((Message("user", "Yes"),), max_new_tokens=POSITIONS)])


@pytest.mark.parametrize(("kind", "head"), [("llama", "ForCausalLM"), ("t5", "ForConditionalGeneration")])
def test_other_kinds(kind: str, head: str, workshop: Workshop) -> None:
    folder = str(workshop(kind, head))
    one, many = (hf(folder, batch_size=size).loglikelihood(REQUESTS[:6]).values for size in (1, 64))
    np.testing.assert_allclose(one, many, rtol=1e-4)
    backend = hf(folder)
    assert len(backend.generate([Prompt((Message("user", LINES[0]),), max_new_tokens=3)]).values) == 1
    assert backend.describe()["kind"] == ("seq2seq" if kind == "t5" else "causal")


def test_memory_that_runs_out_once_halves_the_budget(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    wanted = backend.loglikelihood(REQUESTS).values
    original, failed = backend.network.model.forward, []

    def forward(*args: Any, **kwargs: Any) -> Any:
        if not failed:
            failed.append(True)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(*args, **kwargs)

    monkeypatch.setattr(backend.network.model, "forward", forward)
    np.testing.assert_allclose(backend.loglikelihood(REQUESTS).values, wanted, rtol=1e-4)
    assert backend.describe()["halved"] == 1


def test_weights_that_are_no_numbers_give_scores_that_are_none(workshop: Workshop) -> None:
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    with torch.no_grad():
        backend.network.model.transformer.ln_f.weight.fill_(float("nan"))
    assert all(math.isnan(value) for value in backend.loglikelihood(REQUESTS).values)


def test_nothing_is_printed(workshop: Workshop, capfd: pytest.CaptureFixture[str]) -> None:
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    backend.loglikelihood([*REQUESTS, Continuation(LONG, " Yes")])
    backend.generate([Prompt((Message("user", LINES[0]),), max_new_tokens=2)])
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == ""


def test_options_of_lm_eval_are_passed_on(workshop: Workshop) -> None:
    folder = str(workshop("gpt2", "LMHeadModel"))
    shorter = hf(folder, max_length=20)
    assert shorter.loglikelihood([Continuation(LINES[0], " Yes")]).truncated == {0}
    assert shorter.network.max_length == 20
    assert hf(folder, add_bos_token=True).network.add_bos_token is True
    assert capabilities(shorter) == {"loglikelihood", "generate"}


def test_bad_requests_and_models_are_one_line(workshop: Workshop) -> None:
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    for continuation in ("", " "):
        with pytest.raises(ModelError, match="no token to score"):
            backend.loglikelihood([Continuation("It means", continuation)])
    with pytest.raises(ModelError, match="longer than the model takes"):
        backend.loglikelihood([Continuation("It means", LONG)])
    for kind, head, cure in (
        ("roberta", "ForMaskedLM", "masked"),
        ("bert", "ForSequenceClassification", "pairs"),
        ("mpnet", "Model", "encoder"),
    ):
        with pytest.raises(ModelError, match=f"use --model {cure}:"):
            hf(str(workshop(kind, head)))
    with pytest.raises(ModelError, match="float16 on a CPU"):
        hf(str(workshop("gpt2", "LMHeadModel")), dtype="float16", device="cpu")
