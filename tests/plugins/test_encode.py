"""Token ids by lm-eval's rules: whatever the texts, the log-likelihoods are those of lm-eval's own `hf`."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from figeval import Continuation
from tests.plugins.lm_eval_numbers import lm_eval_loglikelihoods
from tests.plugins.tiny import LONG_TEXT, Workshop

HEADS = {"gpt2": "LMHeadModel", "llama": "ForCausalLM", "t5": "ForConditionalGeneration"}
PIECES = ["", " ", "  ", "\n", " \n", "a", " yes", "</s>", "<|endoftext|>", "é", "🙂", "A stitch", "The roof"]
Open = Callable[..., Any]


def random_requests() -> list[Continuation]:
    """Return pairs of texts with blanks and special tokens anywhere."""
    dice = random.Random(0)

    def text() -> str:
        before, after = ("".join(dice.choices(PIECES, k=dice.randrange(3))) for _ in range(2))
        return before + dice.choice(["a", " yes", "é", "Does it follow?"]) + after

    return [Continuation(text(), text()) for _ in range(120)]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("gpt2", {}),
        ("llama", {"add_bos_token": True}),
        pytest.param("llama", {"add_bos_token": False}, marks=pytest.mark.slow),
        pytest.param("t5", {}, marks=pytest.mark.slow),
    ],
)
def test_as_lm_eval_encodes(kind: str, options: dict[str, Any], workshop: Workshop, open_model: Open) -> None:
    folder = str(workshop(kind, HEADS[kind]))
    requests = random_requests()
    expected = lm_eval_loglikelihoods(folder, requests, batch_size=1, **options)
    assert list(open_model("hf", folder, **options).loglikelihood(requests).values) == pytest.approx(expected, abs=1e-3)
    assert max(expected) - min(expected) > 1


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("max_length", [24, 25, 40])
def test_what_does_not_fit_loses_its_beginning_as_in_lm_eval(
    max_length: int, kind: str, workshop: Workshop, open_model: Open
) -> None:
    folder = str(workshop(kind, HEADS[kind]))
    requests = [Continuation(LONG_TEXT[start:], after) for start in range(4) for after in (" Yes", " No, it does not.")]
    output = open_model("hf", folder, max_length=max_length, add_bos_token=False).loglikelihood(requests)
    expected = lm_eval_loglikelihoods(folder, requests, batch_size=1, max_length=max_length, add_bos_token=False)
    assert list(output.values) == pytest.approx(expected, abs=1e-3)
    assert output.truncated == set(range(len(requests)))


def test_an_empty_context_is_what_opens_a_text(workshop: Workshop, open_model: Open) -> None:
    pairs = [("<|endoftext|>", "Yes"), ("", "Yes"), ("", "<|endoftext|>Yes")]
    pairs += [("\n", "Empty vessels"), ("", "\nEmpty vessels")]
    backend = open_model("hf", workshop("gpt2", HEADS["gpt2"]))
    opened, empty, twice, blank, joined = backend.loglikelihood([Continuation(*pair) for pair in pairs]).values
    assert opened == pytest.approx(empty, abs=1e-4)
    assert twice == pytest.approx(empty, abs=1e-4)  # it is not put there twice
    assert blank == pytest.approx(joined, abs=1e-4)


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_nothing_to_score_has_no_score(kind: str, workshop: Workshop, open_model: Open) -> None:
    backend = open_model("hf", workshop(kind, HEADS[kind]))
    requests = [Continuation("It means", ""), Continuation("It means", " "), Continuation("", "")]
    values = backend.loglikelihood(requests).values
    assert all(map(math.isnan, values))
    (warning,) = backend.describe()["warnings"]
    assert warning.startswith("3 options without a token in this tokenizer (is it empty?)")
