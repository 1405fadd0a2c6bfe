"""Sampling: a text depends on its prompt and the seed alone, and tokens have the probabilities of the options."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from figeval import AnswerFormat, ModelError, Prompt
from figeval.builtin.plugins.causal.generation.sampling import Sampling
from tests.plugins.test_generation import copy_with_options, prompts
from tests.plugins.tiny import Workshop

HEADS = {
    "gpt2": "LMHeadModel",
    "llama": "ForCausalLM",
    "t5": "ForConditionalGeneration",
    "bart": "ForConditionalGeneration",
}
OPTIONS = {"temperature": 1.0, "top_k": 40, "top_p": 0.95}


def texts(model: Any, requests: list[Prompt] | None = None) -> list[str]:
    return [reply.text for reply in model.generate(requests or prompts()).values]


# ---- draws -----------------------------------------------------------------------------------------------------------


def warped(scores: torch.Tensor, temperature: float, top_k: int | None, top_p: float | None) -> torch.Tensor:
    """The scores that transformers leaves, in doubles."""
    warpers = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    warpers.extend([TopKLogitsWarper(top_k)] if top_k else [])
    warpers.extend([TopPLogitsWarper(top_p)] if top_p else [])
    return warpers(None, scores.double())


@given(
    st.lists(st.integers(-64, 64), min_size=2, max_size=12, unique=True),  # ties may come in any order
    st.floats(0.2, 3),
    st.none() | st.integers(1, 14),
    st.none() | st.floats(0.05, 1),
)
def test_tokens_are_drawn_from_those_that_transformers_leaves(
    eighths: list[int], temperature: float, top_k: int | None, top_p: float | None
) -> None:
    row = torch.tensor([eighths]) / 8
    expected = Sampling(1.0).draw(warped(row, temperature, top_k, top_p).expand(50, -1), range(50))
    assert Sampling(temperature, top_k, top_p).draw(row.expand(50, -1), range(50)).equal(expected)


@pytest.mark.parametrize("spread", [0.1, 1, 6])
@pytest.mark.parametrize(("top_k", "top_p"), [(None, 0.9), (None, 1.0), (700, 0.95), (50, 0.9)])
def test_so_are_those_of_a_large_vocabulary(spread: float, top_k: int | None, top_p: float) -> None:
    scores = torch.randn(60, 5_000, generator=torch.Generator().manual_seed(2)) * spread
    expected = Sampling(1.0).draw(warped(scores, 0.7, top_k, top_p), range(60))
    assert Sampling(0.7, top_k, top_p).draw(scores, range(60)).equal(expected)


def test_tokens_have_their_probabilities_and_places_are_independent() -> None:
    row = torch.tensor([[0.0, 1.0, 2.0, -1.0, 0.5]])
    draws, n = Sampling(0.7, seed=3).draws([5, 6]), 40_000
    tokens = draws.sampling.draw(row.expand(n, -1), [draws.key(step) for step in range(n)]).tolist()
    expected = (row[0] / 0.7).softmax(-1)
    for token, share in enumerate(expected.tolist()):
        assert abs(Counter(tokens)[token] / n - share) < 5 * math.sqrt(share * (1 - share) / n)
    pairs = Counter(pairwise(tokens))
    for (first, second), count in pairs.items():
        share = float(expected[first] * expected[second])
        assert abs(count / n - share) < 6 * math.sqrt(share / n)


@pytest.mark.slow
def test_noise_of_rounding_hardly_ever_changes_a_token_of_a_large_vocabulary() -> None:
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(200, 20_000, generator=generator) * 3
    noise = torch.randn(200, 20_000, generator=generator) * 1e-6
    sampling = Sampling(1.0)
    assert sampling.draw(scores, range(200)).equal(sampling.draw(scores + noise, range(200)))


def test_seed_sample_prompt_and_place_make_other_draws() -> None:
    draws = [Sampling(1.0, seed=seed).draws(prompt, n) for seed in (0, 1) for n in (0, 1) for prompt in ([1, 2], [12])]
    keys = [draw.key(step) for draw in draws for step in range(3)]
    assert len(set(keys)) == len(keys)


# ---- models ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["gpt2", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("t5", "llama", "bart"))]
)
def test_a_text_depends_on_the_seed_and_on_no_other_request(kind: str, workshop: Workshop, open_model: Any) -> None:
    folder = workshop(kind, HEADS[kind])
    together = open_model("hf", folder, **OPTIONS)
    sampled = texts(together)
    assert sampled == texts(open_model("hf", folder, batch_size=1, **OPTIONS))
    assert sampled[::-1] == texts(together, prompts()[::-1])
    assert sampled[3:4] == texts(together, prompts()[3:4])
    assert sampled != texts(open_model("hf", folder, seed=1, **OPTIONS))
    assert sampled != texts(open_model("hf", folder))
    if kind != "bart":  # whose texts are forced to begin alike
        assert len({text[:3] for text in sampled}) > 3


@pytest.mark.parametrize("way", ["generate", "static"])
def test_every_way_of_writing_draws_the_same_tokens(way: str, gpt2: Path, open_model: Any) -> None:
    expected = texts(open_model("hf", gpt2, **OPTIONS))
    model = open_model("hf", gpt2, writing=way, **OPTIONS)
    assert texts(model) == expected
    ways = model.describe()["writing"]["ways"]
    assert ways[way]["tokens"] > 0
    assert "dropped" not in ways[way]


@pytest.mark.slow
def test_a_temperature_near_zero_is_greedy_and_zero_is(gpt2: Path, open_model: Any) -> None:
    greedy = texts(open_model("hf", gpt2))
    for options in ({"temperature": 0}, {"temperature": 1e-9}, {"temperature": 2, "top_k": 1}, {"temperature": 1e-300}):
        assert texts(open_model("hf", gpt2, **options)) == greedy


def test_sampled_answers_keep_to_their_formats(gpt2: Path, workshop: Workshop, open_model: Any) -> None:
    words = ("Yes", "No", "Maybe")
    requests = [replace(prompt, answer=AnswerFormat(choices=words)) for prompt in prompts()]
    for folder in (gpt2, workshop("t5", HEADS["t5"])):
        answers = {text.strip() for text in texts(open_model("hf", folder, temperature=3), requests)}
        assert 1 < len(answers) <= len(words)
        assert answers <= set(words)


# ---- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"temperature": "nan"}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": 1, "top_k": -1}, "top_k"),
        ({"temperature": 1, "top_k": 0}, "top_k"),
        ({"temperature": 1, "top_p": 0}, "top_p"),
        ({"temperature": 1, "top_p": 1.5}, "top_p"),
        ({"temperature": 1, "seed": "x"}, "seed"),
        ({"top_k": 40}, "temperature"),
        ({"top_p": 0.9, "temperature": 0}, "temperature"),
        ({"generation": "paper"}, "generation"),
        ({"temperature": 1, "writing": "continuous"}, "continuous"),
    ],
)
def test_a_wrong_option_is_refused_before_weights_are_loaded(
    options: dict[str, Any], word: str, gpt2: Path, open_model: Any
) -> None:
    with pytest.raises(ModelError, match=word) as refusal:
        open_model("causal", gpt2, **options)
    assert "\n" not in str(refusal.value)


@pytest.mark.slow
def test_a_generation_config_that_samples_is_followed_on_request_only(
    gpt2: Path, tmp_path: Path, open_model: Any
) -> None:
    folder = copy_with_options(gpt2, tmp_path / "m", do_sample=True, temperature=0.7, top_k=5)
    greedy = open_model("causal", folder)
    assert texts(greedy) == texts(open_model("causal", gpt2))
    assert "generation=checkpoint" in greedy.describe()["warnings"][0]
    follower = open_model("causal", folder, generation="checkpoint")
    assert texts(follower) == texts(open_model("causal", gpt2, temperature=0.7, top_k=5))
    assert follower.describe()["sampling"] == {"temperature": 0.7, "top_k": 5, "top_p": 1.0, "seed": 0}
    warmer = open_model("causal", folder, generation="checkpoint", temperature=2, seed=4)
    assert texts(warmer) == texts(open_model("causal", gpt2, temperature=2, top_k=5, seed=4))
    assert texts(open_model("causal", gpt2, generation="checkpoint")) == texts(greedy)


def test_a_generation_config_that_cannot_be_read_matters_only_if_it_is_to_be_followed(
    gpt2: Path, tmp_path: Path, open_model: Any
) -> None:
    folder = Path(copy_with_options(gpt2, tmp_path / "m"))
    (folder / "generation_config.json").write_text("{")
    model = open_model("causal", folder)
    assert texts(model) == texts(open_model("causal", gpt2))
    assert model.describe()["writing"]
    with pytest.raises(ModelError, match="generation_config"):
        open_model("causal", folder, generation="checkpoint")


@pytest.mark.parametrize("option", [{"min_p": 0.1}, {"top_k": -3}, {"num_beams": 4}, {"temperature": "warm"}])
def test_a_generation_config_that_cannot_be_followed_says_so(
    option: dict[str, Any], gpt2: Path, tmp_path: Path, open_model: Any
) -> None:
    folder = copy_with_options(gpt2, tmp_path / "m", do_sample=True, **option)
    with pytest.raises(ModelError, match=next(iter(option))):
        open_model("causal", folder, generation="checkpoint")


# ---- runs ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(gpt2: Path, cli: Any) -> Callable[..., Any]:
    """Return a function that lets a tiny model write narratives into a folder."""

    def write_narratives(folder: Path, *arguments: str, seed: int = 1) -> Any:
        model = ("--model", f"causal:{gpt2}", "--model_args", f"temperature=1,top_k=40,seed={seed}")
        portion = ("--tasks", "mini_narrative", "--limit", "12", "--max_new_tokens", "12", "-s")
        return cli("run", *model, *portion, "--output_path", folder, *arguments)

    return write_narratives


def rows_file(folder: Path) -> Path:
    return folder / "predictions" / "mini_narrative.jsonl"


@pytest.mark.slow
def test_a_resumed_run_has_the_texts_of_a_whole_one_and_another_seed_is_another_run(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    run(tmp_path / "m")
    record_file, rows = tmp_path / "m" / "run.json", rows_file(tmp_path / "m").read_text()
    record = json.loads(record_file.read_text())
    assert record["model"]["description"]["sampling"] == {"temperature": 1.0, "top_k": 40, "seed": 1}
    record["tasks"][0].update(scores=[], predictions_sha256=None)
    record_file.write_text(json.dumps(record))
    rows_file(tmp_path / "m").write_text("".join(rows.splitlines(keepends=True)[:5]))
    assert "5 of 12" in run(tmp_path / "m").err
    assert rows_file(tmp_path / "m").read_text() == rows
    refused = run(tmp_path / "m", seed=2)
    assert refused.code == 2
    assert "seed was 1, is 2" in refused.err
    run(tmp_path / "n", seed=2)
    assert rows_file(tmp_path / "n").read_text() != rows


@pytest.mark.slow
def test_an_export_to_inspect_says_how_texts_were_sampled(
    run: Callable[..., Any], tmp_path: Path, cli: Callable[..., Any]
) -> None:
    run(tmp_path / "m")
    cli("export", tmp_path / "m", "--to", "inspect", "-o", tmp_path / "out")
    (log,) = (tmp_path / "out").rglob("*.json")
    settings = json.loads(log.read_text())["eval"]["model_generate_config"]
    assert settings == {"max_tokens": 12, "temperature": 1.0, "top_k": 40, "seed": 1}
