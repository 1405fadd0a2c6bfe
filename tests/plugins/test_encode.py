"""Token ids by lm-eval's rules: whatever the texts, what `TemplateLM._encode_pair` says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from figeval import TaskError
from figeval.builtin.plugins.causal.language_model import hf
from figeval.builtin.plugins.causal.lm_eval_requests import encode_pairs, fit_request, is_cut
from tests.plugins.tiny import LINES, Workshop

KINDS = (("gpt2", "LMHeadModel"), ("llama", "ForCausalLM"), ("t5", "ForConditionalGeneration"))
pieces = st.sampled_from(["", " ", "  ", "\n", " \n", "a", " yes", "</s>", "<|endoftext|>", "é", "🙂", *LINES[:2]])
blanks = st.lists(pieces, max_size=3).map("".join)
texts = st.tuples(blanks, st.sampled_from(["a", " yes", "é", LINES[2]]), blanks).map("".join)


@pytest.fixture(scope="session")
def models(workshop: Workshop) -> dict[str, Any]:
    networks = {kind: hf(str(workshop(kind, head))).network for kind, head in KINDS}
    return {**networks, "llama, bos": hf(str(workshop("llama", "ForCausalLM")), add_bos_token=True).network}


@pytest.mark.parametrize("kind", [*(kind for kind, _ in KINDS), "llama, bos"])
@given(pairs=st.lists(st.tuples(texts, texts), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_as_lm_eval_encodes(kind: str, pairs: list[tuple[str, str]], models: dict[str, Any]) -> None:
    lm = models[kind]
    expected = [lm._encode_pair(*pair) for pair in pairs]
    assume(all(after for _, after in expected))
    assert encode_pairs(lm, pairs) == [(list(before), list(after)) for before, after in expected]


def test_an_empty_context_is_what_opens_a_text(models: dict[str, Any]) -> None:
    lm = models["gpt2"]
    opening = lm.tokenizer.eos_token_id
    for context in ("", " ", "\n"):
        ((before, after),) = encode_pairs(lm, [(context, "Empty vessels")])
        assert before == [opening]
        assert lm.tokenizer.decode(after) == context + "Empty vessels"
    ((before, after),) = encode_pairs(lm, [("", "<|endoftext|>Yes")])
    assert (before, lm.tokenizer.decode(after)) == ([opening], "Yes")  # it is not put there twice


def test_nothing_to_score_is_an_error(models: dict[str, Any]) -> None:
    for pair in (("It means", ""), ("It means", " "), ("", "")):
        for kind in ("gpt2", "t5"):
            with pytest.raises(TaskError, match=r"no token to score in .*; is it empty"):
                encode_pairs(models[kind], [pair])


def test_what_does_not_fit_loses_its_beginning() -> None:
    context, after = list(range(10)), [100, 101]
    assert fit_request("causal", context, after, 11).ids == (*context, *after)  # the last token is never read
    assert not is_cut("causal", context, after, 11)
    assert fit_request("causal", context, after, 8).ids == (*context[3:], *after)
    assert is_cut("causal", context, after, 10)
    assert fit_request("seq2seq", context, after, 8).ids == (*context[2:], *after)
    assert not is_cut("seq2seq", context, after, 10)
    assert fit_request("causal", context, after, 2).ids == (9, 100, 101)
    with pytest.raises(TaskError, match="an option of 2 tokens is longer than the model takes"):
        fit_request("causal", context, after, 1)
