"""Encoder-decoders: the numbers of lm-eval's `hf`, each context encoded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from figeval import Continuation, Message, ModelError, Prompt
from tests.plugins.lm_eval_numbers import lm_eval_loglikelihoods
from tests.plugins.tiny import LINES, Workshop, change_config

REQUESTS = [Continuation(line, after) for line in LINES[:4] for after in (" Yes", " No, it does not.", LINES[5])]

Open = Callable[..., Any]


@pytest.fixture
def seq2seq(open_model: Open) -> Open:
    return lambda folder, **options: open_model(f"seq2seq:{folder}", **options)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["t5", "bart"])
@pytest.mark.parametrize("rows", [1, 3, "auto"])
def test_the_numbers_of_lm_eval(kind: str, rows: Any, workshop: Workshop, seq2seq: Open) -> None:
    folder = str(workshop(kind, "ForConditionalGeneration"))
    backend = seq2seq(folder, batch_size=rows)
    values = backend.loglikelihood(REQUESTS).values
    # lm-eval pads stories of a batch without hiding the padding from BART's encoder: one at a time it is exact.
    expected = lm_eval_loglikelihoods(folder, REQUESTS, batch_size=1)
    assert list(values) == pytest.approx(expected, rel=2e-5)
    assert max(expected) - min(expected) > 1


def test_a_story_is_encoded_once_for_all_its_choices(workshop: Workshop, seq2seq: Open) -> None:
    backend = seq2seq(str(workshop("t5", "ForConditionalGeneration")))
    seen = []
    encoder = backend.network.model.get_encoder()
    encoder.register_forward_hook(lambda _m, _a, kwargs, _o: seen.append(kwargs["input_ids"].shape), with_kwargs=True)
    backend.loglikelihood(REQUESTS)
    assert sum(rows for rows, _ in seen) == 4
    tokens = backend.describe()["tokens"]
    assert tokens["read"] < tokens["one_row_per_continuation"]
    assert backend.describe()["scoring"] == "contexts encoded once"


@pytest.mark.parametrize("n", [1, 8])
def test_a_text_has_as_many_tokens_as_were_asked_for_whatever_else_is_asked(
    n: int, workshop: Workshop, seq2seq: Open
) -> None:
    """lm-eval adds the length of the longest context, which an encoder-decoder does not write after."""
    backend = seq2seq(str(workshop("t5", "ForConditionalGeneration")))
    prompts = [Prompt((Message("user", text),), max_new_tokens=n) for text in ("A crow.", "A crow sat there. " * 9)]
    alone, together = backend.generate(prompts[:1]).values, backend.generate(prompts).values
    assert alone[0] == together[0]
    lengths = [len(backend.tokenizer.tokenize(reply.text)) for reply in together]
    assert all(0 < length <= n + 1 for length in lengths), lengths  # 1: the blank that a tokenizer puts before a text
    assert together[0].finish == "length"


def test_a_decoder_that_does_not_know_how_to_begin(workshop: Workshop, tmp_path: Any, seq2seq: Open) -> None:
    folder = workshop("t5", "ForConditionalGeneration")
    broken = change_config(folder, tmp_path / "broken", decoder_start_token_id=None)
    with pytest.raises(ModelError, match="no decoder_start_token_id; add it"):
        seq2seq(str(broken)).loglikelihood(REQUESTS)
