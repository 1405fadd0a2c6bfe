"""Causal and encoder-decoder models on this machine, against plain forwards and lm-eval's own `hf`."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from figeval import Continuation, Message, ModelError, Prompt, TaskError
from figeval.testing import capabilities
from tests.plugins.lm_eval_numbers import lm_eval_loglikelihoods
from tests.plugins.tiny import LINES, LONG_TEXT, POSITIONS, Workshop

REQUESTS = [
    *(Continuation(line, f" {other}") for line in LINES[:3] for other in ("Yes", "No, it does not.")),
    Continuation("Does it follow? ", "Yes"),
    Continuation("", "Empty vessels"),
    Continuation(" ", "Empty vessels"),
]

Open = Callable[..., Any]


@pytest.fixture
def hf(open_model: Open) -> Open:
    return lambda folder, **options: open_model(f"hf:{folder}", **options)


def naive(folder: Path, request: Continuation) -> float:
    """Σ log P of the continuation's tokens, one text at a time."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    context = request.context.rstrip()
    all_ids = tokenizer(request.context + request.continuation)["input_ids"]
    begin = len(tokenizer(context)["input_ids"])
    if not context:
        all_ids, begin = [tokenizer.eos_token_id, *all_ids], 1
    with torch.inference_mode():
        table = model(input_ids=torch.tensor([all_ids])).logits[0].double().log_softmax(-1)
    return sum(float(table[position - 1, all_ids[position]]) for position in range(begin, len(all_ids)))


def test_loglikelihood_is_the_naive_sum_in_any_batch(workshop: Workshop, hf: Open) -> None:
    folder = workshop("gpt2", "LMHeadModel")
    expected = [naive(folder, request) for request in REQUESTS]
    for size in (1, 64, "auto"):
        output = hf(str(folder), batch_size=size).loglikelihood(REQUESTS)
        np.testing.assert_allclose(output.values, expected, rtol=1e-4, err_msg=f"{size}")
        assert output.truncated == set()
    assert max(expected) - min(expected) > 1


def test_a_long_context_loses_its_beginning_and_is_reported(workshop: Workshop, hf: Open) -> None:
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    output = backend.loglikelihood([Continuation(LONG_TEXT, " Yes"), REQUESTS[0]])
    assert output.truncated == {0}
    assert all(math.isfinite(value) for value in output.values)
    assert backend.describe()["max_length"] == POSITIONS


def test_the_limit_is_exact(workshop: Workshop, hf: Open) -> None:
    """The last token is only predicted: a text of `max_length` + 1 tokens still fits."""
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    encode = backend.network.tok_encode
    words = " a" * (POSITIONS + 5)
    context = words[: 2 * (POSITIONS)]
    assert len(encode(context + " a")) == POSITIONS + 1
    assert backend.loglikelihood([Continuation(context, " a")]).truncated == set()
    assert backend.loglikelihood([Continuation(context + " a", " a")]).truncated == {0}


def test_generation_stops_where_it_is_told(workshop: Workshop, hf: Open) -> None:
    folder = workshop("gpt2", "LMHeadModel")
    backend = hf(str(folder))
    prompts = [Prompt((Message("user", line),), max_new_tokens=6) for line in LINES[:3]]
    texts = [reply.text for reply in backend.generate(prompts).values]
    assert texts == [reply.text for reply in hf(str(folder), batch_size=1).generate(prompts).values]
    assert all(texts)
    stop = texts[0][2:4]
    (stopped,) = backend.generate([Prompt((Message("user", LINES[0]),), stop=(stop,), max_new_tokens=6)]).values
    assert stopped.text == texts[0].partition(stop)[0]
    assert backend.generate([Prompt((Message("user", LONG_TEXT),), max_new_tokens=4)]).truncated == {0}
    with pytest.raises(TaskError, match=f"no room for a prompt: the model takes {POSITIONS} tokens"):
        backend.generate([Prompt((Message("user", "Yes"),), max_new_tokens=POSITIONS)])


@pytest.mark.parametrize(("kind", "head"), [("llama", "ForCausalLM"), ("t5", "ForConditionalGeneration")])
def test_other_kinds(kind: str, head: str, workshop: Workshop, hf: Open) -> None:
    folder = str(workshop(kind, head))
    alone, many = (hf(folder, batch_size=size).loglikelihood(REQUESTS[:6]).values for size in (1, 64))
    np.testing.assert_allclose(alone, many, rtol=1e-4)
    backend = hf(folder)
    assert len(backend.generate([Prompt((Message("user", LINES[0]),), max_new_tokens=3)]).values) == 1
    assert backend.describe()["kind"] == ("seq2seq" if kind == "t5" else "causal")


def test_memory_that_runs_out_once_halves_the_budget(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, hf: Open
) -> None:
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    requests = [Continuation(f"{n} {line}", " Yes") for line in LINES for n in range(4)]
    expected = backend.loglikelihood(requests).values
    original, failed = backend.network.model.forward, []

    def forward(*args: Any, **kwargs: Any) -> Any:
        if not failed:
            failed.append(True)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(*args, **kwargs)

    monkeypatch.setattr(backend.network.model, "forward", forward)
    np.testing.assert_allclose(backend.loglikelihood(requests).values, expected, rtol=1e-4)
    assert backend.describe()["halved"] == 1


def test_weights_that_are_no_numbers_give_scores_that_are_none(workshop: Workshop, hf: Open) -> None:
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    with torch.no_grad():
        backend.network.model.transformer.ln_f.weight.fill_(float("nan"))
    assert all(math.isnan(value) for value in backend.loglikelihood(REQUESTS).values)


def test_nothing_is_printed(workshop: Workshop, capfd: pytest.CaptureFixture[str], hf: Open) -> None:
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    backend.loglikelihood([*REQUESTS, Continuation(LONG_TEXT, " Yes")])
    backend.generate([Prompt((Message("user", LINES[0]),), max_new_tokens=2)])
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == ""


def test_options_of_lm_eval_are_passed_on(workshop: Workshop, hf: Open) -> None:
    folder = str(workshop("gpt2", "LMHeadModel"))
    shorter = hf(folder, max_length=20)
    assert shorter.loglikelihood([Continuation(LINES[0], " Yes")]).truncated == {0}
    assert shorter.network.max_length == 20
    assert hf(folder, add_bos_token=True).network.add_bos_token is True
    assert capabilities(shorter) == {"loglikelihood", "generate", "score_words"}


def test_an_option_that_cannot_be_scored_costs_no_other_one_its_score(workshop: Workshop, hf: Open) -> None:
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    good = backend.loglikelihood(REQUESTS).values
    bad = [Continuation("It means", option) for option in ("", " ", LONG_TEXT)]
    values = backend.loglikelihood([bad[0], *REQUESTS[:2], bad[1], bad[2], *REQUESTS[2:]]).values
    assert [math.isnan(value) for value in values] == [True, False, False, True, True, *[False] * len(REQUESTS[2:])]
    np.testing.assert_allclose([value for value in values if not math.isnan(value)], good, rtol=1e-5)
    assert all(math.isnan(value) for value in backend.loglikelihood(bad).values)
    assert backend.describe()["warnings"] == [
        "4 options without a token in this tokenizer (is it empty?): NaN, not a score",
        "2 options longer than the model takes: NaN, not a score",
    ]


def test_bad_models_are_one_line(workshop: Workshop, hf: Open) -> None:
    for kind, head, cure in (
        ("roberta", "ForMaskedLM", "masked"),
        ("bert", "ForSequenceClassification", "pairs"),
        ("mpnet", "Model", "encoder"),
    ):
        with pytest.raises(ModelError, match=f"use --model {cure}:"):
            hf(str(workshop(kind, head)))
    with pytest.raises(ModelError, match=r"float16 .* on a CPU"):
        hf(str(workshop("gpt2", "LMHeadModel")), dtype="float16", device="cpu")


# ---- the numbers of lm-eval ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "head", "scoring"),
    [
        ("gpt2", "LMHeadModel", "packed trees"),
        ("llama", "ForCausalLM", "packed trees"),
        ("mistral", "ForCausalLM", "packed trees, sliding window"),
        ("mamba", "ForCausalLM", "plain rows"),
    ],
)
def test_the_numbers_of_lm_eval(kind: str, head: str, scoring: str, workshop: Workshop, hf: Open) -> None:
    """Of a tokenizer that would put a token after every text, lm-eval would score that one instead of the first."""
    folder = str(workshop(kind, head))
    requests = [*REQUESTS[:-1], *(Continuation(LONG_TEXT, f" {word}") for word in ("Yes", "No, it does not."))]
    backend = hf(folder, max_length=POSITIONS, add_bos_token=False)
    output = backend.loglikelihood(requests)
    expected = lm_eval_loglikelihoods(folder, requests, max_length=POSITIONS, add_bos_token=False)
    assert list(output.values) == pytest.approx(expected, abs=1e-3, rel=1e-5)
    assert output.truncated == {len(requests) - 2, len(requests) - 1}
    described = backend.describe()
    assert described["scoring"] == scoring
    assert ("fell_back_because" in described) == (scoring == "plain rows")


def test_how_a_prompt_began_is_in_the_record(workshop: Workshop, hf: Open) -> None:
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    backend.loglikelihood(REQUESTS)
    described = backend.describe()
    assert backend.network.tokenizer.decode(described["first_prompt_ids"]) == REQUESTS[0].context
    assert described["chat_template"] is False
    assert described["warnings"] == []  # what ends GPT-2's texts need not open them


# ---- chat templates --------------------------------------------------------------------------------------------------

TEMPLATE = (
    "{{ bos_token }}{% for turn in messages %}{% if turn.role == 'system' and refuse is defined %}"
    "{{ raise_exception('no system role') }}{% endif %}[{{ turn.role }}] {{ turn.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def chatty(workshop: Workshop, folder: Path, template: str = TEMPLATE, **marks: Any) -> str:
    """A copy of a tiny Llama whose tokenizer has a chat template and tokens that open and close a text."""
    import shutil

    from transformers import AutoTokenizer

    shutil.copytree(workshop("llama", "ForCausalLM"), folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = template
    tokenizer.add_special_tokens({"bos_token": "<unk>", **marks})
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_a_chat_template_wants_a_decision(workshop: Workshop, tmp_path: Path, hf: Open) -> None:
    folder = chatty(workshop, tmp_path / "chat")
    with pytest.raises(ModelError, match="has a chat template; use --apply_chat_template or --no_chat_template"):
        hf(folder)
    assert not hasattr(hf(folder, apply_chat_template=False), "chat")
    turns = (Message("system", "Be brief."), Message("user", "Yes or no?"), Message("assistant", " No"))
    backend = hf(folder, apply_chat_template=True)
    assert backend.chat([*turns, Message("user", "Why?")]) == (
        "<unk>[system] Be brief.\n[user] Yes or no?\n[assistant] No\n[user] Why?\n[assistant]"
    )
    assert "network" not in vars(backend)  # prompts can be looked at without weights
    (reply,) = backend.generate([Prompt(turns[:2], max_new_tokens=3)]).values
    described = backend.describe()
    assert described["chat_template"] is True
    assert backend.tokenizer.decode(described["first_prompt_ids"]) == backend.chat(turns[:2])
    assert described["warnings"] == []
    assert reply.finish in ("stop", "length")
    with pytest.raises(ModelError, match="has no chat template; leave --apply_chat_template out"):
        hf(str(workshop("llama", "ForCausalLM")), apply_chat_template=True)


def test_a_template_that_knows_no_system_role_says_so(workshop: Workshop, tmp_path: Path, hf: Open) -> None:
    template = TEMPLATE.replace("and refuse is defined", "")
    backend = hf(chatty(workshop, tmp_path / "chat", template), apply_chat_template=True)
    with pytest.raises(TaskError, match=r"refuses these turns \(no system role\); add --system_as_user"):
        backend.generate([Prompt((Message("system", "Be brief."), Message("user", "Yes or no?")))])


def test_a_template_that_passes_over_the_system_message_is_refused(
    workshop: Workshop, tmp_path: Path, hf: Open
) -> None:
    template = "{% for turn in messages if turn.role != 'system' %}[{{ turn.role }}] {{ turn.content }}\n{% endfor %}"
    backend = hf(chatty(workshop, tmp_path / "chat", template), apply_chat_template=True)
    question = Message("user", "Yes or no?")
    with pytest.raises(TaskError, match="leaves out the system message; add --system_as_user"):
        backend.generate([Prompt((Message("system", "Be brief."), question))])
    assert backend.chat([question]) == "[user] Yes or no?\n"


def test_none_or_two_opening_tokens_are_warned_of(workshop: Workshop, tmp_path: Path, hf: Open) -> None:
    twice = hf(chatty(workshop, tmp_path / "twice", "{{ bos_token }}" + TEMPLATE), apply_chat_template=True)
    twice.generate([Prompt((Message("user", "Yes or no?"),), max_new_tokens=2)])
    assert twice.describe()["warnings"] == [
        "prompts begin with 2 '<unk>' tokens instead of 1; try --model_args add_bos_token=false"
    ]
    never = hf(chatty(workshop, tmp_path / "never"), apply_chat_template=False)
    never.loglikelihood(REQUESTS[:2])
    assert never.describe()["warnings"][0] == (
        "prompts begin with 0 '<unk>' tokens instead of 1; try --model_args add_bos_token=true"
    )


def test_an_answer_of_all_the_tokens_it_may_have_was_cut_off(workshop: Workshop, hf: Open) -> None:
    backend = hf(str(workshop("gpt2", "LMHeadModel")))
    (reply,) = backend.generate([Prompt((Message("user", LINES[0]),), max_new_tokens=4)]).values
    assert reply.finish == "length"
    (reply,) = backend.generate([Prompt((Message("user", LINES[0]),), (reply.text[0],), max_new_tokens=4)]).values
    assert reply.finish == "stop"


def test_the_probability_of_every_token(workshop: Workshop, hf: Open, open_model: Open) -> None:
    """A causal model's own probabilities, and those of its log-likelihoods."""
    model = open_model(f"causal:{workshop('gpt2', 'LMHeadModel')}", device="cpu")
    texts = ["A stitch in time saves nine", "Yes"]
    scores = model.token_scores(texts)
    sums = model.loglikelihood([Continuation("", text) for text in texts]).values
    assert [token_scores[:, 0].sum() for token_scores in scores.values] == pytest.approx(list(sums), rel=1e-4)
    assert all((token_scores[:, 1] < 0).all() and (token_scores[:, 2] > 0).all() for token_scores in scores.values)
    assert model.token_scores(["word " * 400]).truncated == {0}
    assert "token_scores" not in capabilities(hf(workshop("t5", "ForConditionalGeneration")))


def test_options_of_the_engine_are_options_of_lm_evals_model(workshop: Workshop, open_model: Open) -> None:
    """Of `figeval-hf`, which lm-eval makes from its own --model_args."""
    options = {"pretrained": str(workshop("llama", "ForCausalLM")), "device": "cpu"}
    lm = open_model("lm_eval:figeval-hf", **options, scoring="rows", writing="generate").lm
    assert (lm.scoring, lm.way) == ("rows", "generate")
    assert lm.engine.describe()["scoring"] == "plain rows"
    with pytest.raises(ModelError, match="scoring=tree is not one of"):
        open_model("lm_eval:figeval-hf", **options, scoring="tree").loglikelihood(REQUESTS)
