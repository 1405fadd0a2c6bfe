"""The self-test of the packed engine: right ways pass whatever the rounding, and planted wrong masks never do."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from figeval import Continuation, ModelError
from figeval.builtin.plugins.causal.engine import self_test
from figeval.builtin.plugins.causal.engine.judgement import distance
from figeval.builtin.plugins.causal.engine.packed import PackedEngine
from figeval.builtin.plugins.causal.engine.reading_plan import RowShape
from figeval.builtin.plugins.causal.engine.self_test import EngineReader, SelfTest, settle
from figeval.builtin.plugins.causal.engine.separable import separable_parts
from figeval.builtin.plugins.causal.engine.small_copy import WINDOW_TOKENS, layers_of, small_copy
from figeval.builtin.plugins.causal.engine.views import ReadStrategy, strategies_for
from figeval.builtin.plugins.torch_models.batching import TokenBudget
from figeval.builtin.plugins.torch_models.precision import computing_in
from tests.plugins.architectures import CONFIGS, MIXING, PACKED_CONFIGS, PLAIN_CONFIGS, build, quick_if_in
from tests.plugins.tiny import Workshop

CPU = torch.device("cpu")
LOUD_CONFIGS = {
    "Cohere": {"logit_scale": 1.0}
}  # its scores are otherwise so small that rounding of .1 nats hides everything
NATS = 0.1  # per token
QUICK_NAMES = ("GPT2", "Gemma3Text", "GptOss")


def bare(model: Any) -> PackedEngine:
    """An engine that has not been tested."""
    engine = PackedEngine(model, CPU, TokenBudget.on("cpu"))
    engine.body, engine.last = separable_parts(model, CPU)
    return engine


def settle_engine(model: Any, scoring: str = "auto") -> PackedEngine:
    return settle(PackedEngine(model, CPU, TokenBudget.on("cpu")), scoring)


def strategy_of(name: str, model: Any) -> ReadStrategy:
    """The strategy that an architecture supports."""
    strategies = list(strategies_for(model.config, RowShape.on("cpu")))
    return strategies[0] if name in PACKED_CONFIGS else strategies[-1]


def add_noise(engine: PackedEngine, seed: int) -> None:
    """Add noise to what a model computes in half precision that depends on the shape of a batch: .1 nats per token."""
    level = 0.0

    def noisy(_module: Any, _inputs: Any, output: Any) -> Any:
        states = output.last_hidden_state
        if level and states.dtype == torch.bfloat16:
            rows, columns, _ = states.shape
            generator = torch.Generator().manual_seed(seed + 1_000 * rows + columns)
            output.last_hidden_state = states + level * torch.randn(states.shape, generator=generator).to(states)
        return output

    assert engine.body is not None
    engine.body.register_forward_hook(noisy)
    truth = SelfTest(engine).truth
    level = 0.1
    for _ in range(2):  # states and scores are nearly proportional
        level *= NATS / distance(SelfTest(engine).rows[0], truth)


def small(strategy: ReadStrategy) -> ReadStrategy:
    """The strategy with rows as short as the texts of the self-test."""
    return replace(strategy, shape=replace(strategy.shape, branches=12, width=24))


def plant_fault(strategy: ReadStrategy) -> ReadStrategy:
    return strategy.with_fault()


@pytest.mark.parametrize("name", quick_if_in(QUICK_NAMES))
def test_every_architecture_passes_in_bfloat16_and_with_a_planted_fault_none(name: str) -> None:
    model = build(name).to(torch.bfloat16)
    test, strategy = SelfTest(bare(model)), strategy_of(name, model)
    right, wrong = test.examine(strategy), test.examine(plant_fault(strategy))
    assert right.failure == ""
    assert right.reach is None
    assert wrong.failure
    evidence = right.evidence
    assert evidence is not None
    assert evidence.gap < self_test.TOLERANCE
    assert evidence.planted_gap > 0.1
    assert evidence.error < 1.5 * evidence.rounding < evidence.planted


@pytest.mark.parametrize("name", ["GPT2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("Gemma2", "Mpt"))])
def test_rounding_that_depends_on_the_shape_of_a_batch_hides_no_fault(name: str) -> None:
    """The second question tells them apart without the first one, which is asked in single precision."""
    engine = bare(build(name, **LOUD_CONFIGS.get(name, {})).to(torch.bfloat16))
    add_noise(engine, seed=1)
    trial = SelfTest(engine).trial(small(strategy_of(name, engine.model)))
    rounding = trial.evidence(0, 0).rounding
    assert rounding is not None
    assert 0.05 < rounding < 0.2
    assert trial.failure("bfloat16") == ""
    assert replace(trial, way=trial.planted).failure("bfloat16")


@pytest.mark.parametrize("name", [*PLAIN_CONFIGS, *MIXING])
def test_what_supports_no_strategy_is_read_in_rows_in_either_precision(name: str) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        engine = settle_engine(build(name).to(dtype))
        assert engine.describe()["scoring"] == "plain rows"
        assert "packed trees" in engine.describe()["fell_back_because"]
        assert engine.describe()["cure"] == "no option changes that"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "layers"), [("Llama", 32), ("Mixtral", 24)])
def test_deep_models_whose_rounding_is_large_are_read_in_trees(name: str, layers: int) -> None:
    """Their trees differ from plain rows by .06 to .15 nats per token, which once made figeval read plain rows."""
    engine = bare(build(name, num_hidden_layers=layers).to(torch.bfloat16))
    test, strategy = SelfTest(engine), strategy_of(name, engine.model)
    result = test.examine(strategy)
    assert result.failure == ""
    assert result.evidence is not None
    assert result.evidence.rounding > 0.1
    assert test.examine(plant_fault(strategy)).failure


@pytest.mark.slow
def test_a_kernel_that_ignores_masks_in_half_precision_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The architecture is right, and what is wrong is how this device computes it."""
    attention = torch.nn.functional.scaled_dot_product_attention

    def careless(query: Any, key: Any, value: Any, attn_mask: Any = None, **options: Any) -> Any:
        if query.dtype == torch.bfloat16 and attn_mask is not None and attn_mask.is_floating_point():  # ours
            attn_mask = torch.zeros_like(attn_mask)
        return attention(query, key, value, attn_mask=attn_mask, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", careless)
    engine = settle_engine(build("Llama").to(torch.bfloat16))
    described = engine.describe()
    assert described["scoring"] != "packed trees"
    assert described["cure"] == "--model_args dtype=float32 rounds less"
    with pytest.raises(ModelError, match="scoring=packed"):
        settle_engine(build("Llama").to(torch.bfloat16), "packed")
    assert described["self_test"]["packed trees"]["error"] > 3 * described["self_test"]["packed trees"]["rounding"]


# ---- small copies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*CONFIGS, *MIXING])
def test_a_copy_has_the_kinds_of_layers_of_its_model(name: str) -> None:
    model = build(name).to(torch.bfloat16)
    state = torch.random.get_rng_state()
    copy = small_copy(model, CPU)
    assert torch.equal(state, torch.random.get_rng_state())
    assert copy is not None
    assert type(copy) is type(model)
    assert {parameter.dtype for parameter in copy.parameters()} == {torch.float32}
    assert {type(layer) for layer in layers_of(copy)} == {type(layer) for layer in layers_of(model)}


def test_a_copy_keeps_the_pattern_of_a_large_model_and_shortens_its_windows() -> None:
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    with torch.device("meta"):
        model = Gemma3ForCausalLM(Gemma3TextConfig())
    copy = small_copy(model, CPU)
    assert copy is not None
    assert copy.config.layer_types == model.config.layer_types[:6]
    assert copy.config.sliding_window == WINDOW_TOKENS
    assert copy.config.head_dim == model.config.head_dim
    assert sum(weight.numel() for weight in copy.parameters()) < 50e6
    assert model.config.sliding_window > 500  # the model's own config is as it was


def test_no_copy_of_a_model_whose_class_rejects_a_small_config(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the model itself answers in single precision."""
    model = build("Llama").to(torch.bfloat16)

    class Picky(type(model)):  # type: ignore[misc]
        def __init__(self, config: Any) -> None:
            raise ValueError("hidden_size must be 4096")

    model.__class__ = Picky
    assert small_copy(model, CPU) is None
    result = SelfTest(bare(model)).examine(strategy_of("Llama", model))
    assert result.failure == ""


# ---- verdicts and settings -----------------------------------------------------------------------------------------


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("FIGEVAL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def count_trials(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """The number of strategies that were tested."""
    tests: list[Any] = []
    examine = SelfTest.examine

    def noted(test: SelfTest, *arguments: Any, **options: Any) -> Any:
        tests.append(test)
        return examine(test, *arguments, **options)

    monkeypatch.setattr(SelfTest, "examine", noted)
    return lambda: len(tests)


def test_a_verdict_is_kept_for_the_same_model_only(home: Path, count_trials: Callable[[], int]) -> None:
    first = settle_engine(build("Llama").to(torch.bfloat16))
    tests = count_trials()
    again = settle_engine(build("Llama").to(torch.bfloat16))
    assert count_trials() == tests
    assert again.describe() == first.describe()
    assert again.strategy.name == first.strategy.name == "packed trees"
    other = build("Llama").to(torch.bfloat16)
    with torch.no_grad():
        other.lm_head.weight[0, 0] += 1
    for model in (other, build("Llama"), build("Qwen2").to(torch.bfloat16)):
        tests = count_trials()
        settle_engine(model)
        assert count_trials() > tests
    files = list((home / "self_tests").glob("*.json"))
    assert len(files) == 4
    assert all(json.loads(file.read_text())["strategy"].startswith("packed") for file in files)


def test_a_damaged_verdict_is_made_again(home: Path, count_trials: Callable[[], int]) -> None:
    settle_engine(build("Llama"))
    (file,) = (home / "self_tests").glob("*.json")
    for content in ("{", "[]", '{"strategy": 3}', '{"strategy": "packed trees", "reach": "far"}', '{"surprise": 1}'):
        file.write_text(content)
        tests = count_trials()
        assert settle_engine(build("Llama")).strategy.name == "packed trees"
        assert count_trials() > tests


def test_a_home_that_cannot_be_written_costs_only_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FIGEVAL_HOME", str(tmp_path / "file"))
    assert settle_engine(build("Llama")).strategy.name == "packed trees"


def test_rows_are_read_if_the_user_wants_them(count_trials: Callable[[], int]) -> None:
    engine = settle_engine(build("Llama"), "rows")
    assert engine.describe()["scoring"] == "plain rows"
    assert "fell_back_because" not in engine.describe()
    assert count_trials() == 0


@pytest.mark.slow
def test_packed_trees_are_read_if_the_user_wants_them_and_the_architecture_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(self_test.ScoreTrial, "failure", lambda *_: "it rounds too much")
    described = settle_engine(build("Llama").to(torch.bfloat16)).describe()
    assert described["scoring"] == "plain rows"
    assert "scoring=packed" in described["cure"]
    assert settle_engine(build("Llama").to(torch.bfloat16), "packed").describe()["scoring"] == "packed trees"
    for name in ("Mamba", "Bloom"):
        with pytest.raises(ModelError, match=r"scoring=packed: .*use rows"):
            settle_engine(build(name), "packed")


def test_scoring_is_an_option_of_causal_models(workshop: Workshop, open_model: Callable[..., Any]) -> None:
    folder = workshop("llama", "ForCausalLM")
    requests = [Continuation("The early bird catches", option) for option in (" the worm", " a cold", " the bus")]
    ways = {}
    for scoring in ("auto", "packed", "rows"):
        backend = open_model("causal", folder, scoring=scoring)
        ways[backend.describe().get("scoring", scoring)] = backend.loglikelihood(requests).values
        ways[scoring] = backend.loglikelihood(requests).values
        assert backend.describe()["scoring"] == ("plain rows" if scoring == "rows" else "packed trees")
    assert list(ways["rows"]) == pytest.approx(list(ways["packed"]), abs=1e-4)
    with pytest.raises(ModelError, match="scoring=tree is not one of auto, packed, rows"):
        open_model("causal", folder, scoring="tree")
    with pytest.raises(ModelError, match="scoring=rows is for causal models"):
        open_model("seq2seq", workshop("t5", "ForConditionalGeneration"), scoring="rows")


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        *(("Granite", 0), ("Llama", 0)),
        *(
            pytest.param(name, layers, marks=pytest.mark.slow)
            for name, layers in [("Gemma4Text", 12), ("DeepseekV3", 0), ("Helium", 0), ("Qwen3Moe", 0)]
        ),
    ],
)
def test_a_copy_answers_for_architectures_of_full_size(name: str, layers: int) -> None:
    """No weights of the model itself are needed: their sizes and options are those of its default config."""
    import transformers

    with torch.device("meta"):
        config = getattr(transformers, f"{name}Config")(**({"num_hidden_layers": layers} if layers else {}))
        model = transformers.AutoModelForCausalLM.from_config(config).to(torch.bfloat16)
    copy = small_copy(model, CPU)
    assert copy is not None
    reader, strategy = EngineReader(bare(copy), None), next(strategies_for(copy.config, RowShape.on("cpu")))
    gap, planted_gap = reader.gaps(small(strategy))
    assert gap <= max(self_test.TOLERANCE, reader.tolerance(planted_gap))
    assert planted_gap > 0.1


def test_an_attention_that_is_exchanged_is_tested_anew(home: Path, count_trials: Callable[[], int]) -> None:
    settle_engine(build("Llama"))
    tests = count_trials()
    settle_engine(build("Llama", attn_implementation="eager"))
    assert count_trials() > tests
    assert len(list((home / "self_tests").iterdir())) == 2


def exhaust(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let memory run out in single precision."""
    attention = torch.nn.functional.scaled_dot_product_attention

    def hungry(query: Any, *arguments: Any, **options: Any) -> Any:
        if query.dtype == torch.float32:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return attention(query, *arguments, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", hungry)


def test_too_little_memory_for_the_test_is_no_verdict(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as cramped:
        exhaust(cramped)
        engine = settle_engine(build("Llama").to(torch.bfloat16))
        assert engine.describe()["scoring"] == "plain rows"
        assert not (home / "self_tests").exists()
    assert settle_engine(build("Llama").to(torch.bfloat16)).describe()["scoring"] == "packed trees"


@pytest.mark.slow
def test_weights_that_cannot_be_cast_are_judged_by_rows_in_another_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of 8 bits, which have scales of their own."""
    engine = bare(build("Llama").to(torch.bfloat16))
    add_noise(engine, seed=1)

    def refuse(_model: Any, _dtype: Any) -> Any:
        raise RuntimeError("weights of less than 16 bits")

    monkeypatch.setattr(self_test, "computing_in", refuse)
    test, strategy = SelfTest(engine), strategy_of("Llama", engine.model)
    assert test.examine(strategy).failure == ""
    trial = test.trial(small(strategy))
    assert replace(trial, way=trial.planted).failure("bfloat16")


def test_weights_of_8_bits_are_not_cast_without_their_scales() -> None:
    layer = torch.nn.Linear(4, 4)
    layer.weight.data = layer.weight.data.to(torch.float8_e4m3fn)
    with computing_in(layer, torch.float32), pytest.raises(RuntimeError, match="scales of their own"):
        layer(torch.ones(1, 4))
    assert layer.weight.dtype == torch.float8_e4m3fn


def test_a_module_that_calls_itself_gets_its_weights_back() -> None:
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))

        def forward(self, values: Any, again: bool = True) -> Any:
            return self(values, again=False) * self.weight if again else values * self.weight

    module = Twice()
    with computing_in(module, torch.float32):
        assert module(torch.ones(2)).dtype == torch.float32
    assert module.weight.dtype == torch.bfloat16
