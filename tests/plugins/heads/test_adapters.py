"""LoRA: what is trained, and that a checkpoint is an ordinary one with the adapters folded in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from figeval import Harness, Setup, TrainError
from figeval.builtin.plugins.heads.biencoder import ranking
from figeval.builtin.plugins.heads.cross_encoder import pairs
from figeval.builtin.plugins.heads.posttraining import mlm
from figeval.builtin.plugins.heads.writing import causal, seq2seq
from figeval.wings.training.adapters import add_adapters
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.task_training import train_in_process
from tests.plugins.heads.test_generation import EXAMPLES, GENERATION_HEAD, SPREAD, tell
from tests.plugins.tiny import Workshop
from tests.trainings import read_evaluations
from tests.wings.training.linear import Heard


def config(**changes: Any) -> TrainConfig:
    return TrainConfig(**{"task": "t", "model": "m", "output": Path("o"), "lora": 3, **changes})


def setup(folder: Path, **changes: Any) -> Setup:
    return Setup(model=str(folder), **changes)


def enlarge_adapters(network: Any, **changes: Any) -> Any:
    """The adapters of a network, grown large: fresh ones change nothing."""
    adapters = add_adapters(network, config(**changes))
    torch.manual_seed(3)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if ".lora_" in name:
                weight.normal_(0, 0.3)
    return adapters


@pytest.mark.parametrize(
    ("kind", "head", "factory", "targets"),
    [
        ("t5", GENERATION_HEAD, seq2seq, ()),
        ("bart", GENERATION_HEAD, seq2seq, ("q_proj", "fc1", "out_proj")),
        ("gpt2", "LMHeadModel", causal, ()),
        ("gpt2", "LMHeadModel", causal, ("c_proj", "c_fc")),  # square ones among them
        ("llama", "ForCausalLM", causal, ()),
    ],
)
def test_a_checkpoint_writes_what_the_network_with_adapters_does(
    kind: str, head: str, factory: Any, targets: tuple[str, ...], workshop: Workshop, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    learner = factory(setup(workshop(kind, head, **SPREAD.get(kind, {}))))
    features, network = learner.features(EXAMPLES), learner.network().eval()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    batch = features.batch([0, 3], 0)
    with torch.inference_mode():
        plain = network([batch], [])
    adapters = enlarge_adapters(network, lora_targets=targets)
    merged = adapters.merge(network.state_dict())
    assert set(merged) == set(before)
    changed = {name for name in before if not merged[name].equal(before[name])}
    assert changed == {f"{module}.weight" for module in adapters.modules}
    learner.save(network, merged, tmp_path)
    auto = AutoModelForSeq2SeqLM if factory is seq2seq else AutoModelForCausalLM
    saved, report = auto.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    with torch.inference_mode():
        losses = network([batch], [])
        assert not torch.allclose(losses, plain, atol=1e-2)
        network.model = saved.eval()
        torch.testing.assert_close(network([batch], []), losses, rtol=1e-4, atol=1e-4)


def trainable_names(network: Any) -> set[str]:
    return {name for name, weight in network.named_parameters() if weight.requires_grad}


def test_what_is_new_is_trained_whole_and_the_rest_is_frozen(workshop: Workshop) -> None:
    """A head that predicts words came with its body; a classifier and a temperature did not."""
    network = pairs(setup(workshop("bert", "Model"), labels=("yes", "no"))).network()
    add_adapters(network, config())
    heads = {name for name in trainable_names(network) if ".lora_" not in name}
    assert heads == {"model.classifier.weight", "model.classifier.bias"}
    assert len(trainable_names(network)) == 2 + 2 * 2 * 2  # A and B of query and value in two layers

    options = {"pooling": "mean", "learn_temperature": True}
    network = ranking(setup(workshop("bert", "Model"), options=options)).network()
    add_adapters(network, config())
    assert {name for name in trainable_names(network) if ".lora_" not in name} == {"log_temperature"}

    network = mlm(setup(workshop("bert"))).network()
    add_adapters(network, config())
    assert all(".lora_" in name for name in trainable_names(network))

    network = mlm(setup(workshop("bert", "Model"))).network()
    add_adapters(network, config())
    fresh = {name for name in trainable_names(network) if ".lora_" not in name}
    assert "model.cls.predictions.transform.dense.weight" in fresh
    assert not any("embeddings" in name for name in fresh), "the head shares them with the body"


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        (("nothing",), "--lora_targets.*nothing"),
        (("wte",), "not a separate linear layer"),
        (("lm_head",), "--lora_targets.*lm_head"),
    ],
)
def test_wrong_targets_are_one_line(targets: tuple[str, ...], words: str, workshop: Workshop) -> None:
    network = causal(setup(workshop("gpt2", "LMHeadModel"))).network()
    with pytest.raises(TrainError, match=words) as error:
        add_adapters(network, config(lora_targets=targets))
    assert "\n" not in str(error.value)


def test_the_matrix_of_the_words_gets_none(workshop: Workshop) -> None:
    network = seq2seq(setup(workshop("t5", GENERATION_HEAD))).network()
    with pytest.raises(TrainError, match="lm_head is not a separate linear layer"):
        add_adapters(network, config(lora_targets=("lm_head",)))


def test_without_peft_the_extra_is_named(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    network = causal(setup(workshop("gpt2", "LMHeadModel"))).network()
    with pytest.raises(TrainError, match=r"pip install 'figeval\[lora\]'"):
        add_adapters(network, config())


def test_a_network_without_a_pretrained_model_has_no_place_for_adapters() -> None:
    with pytest.raises(TrainError, match="no transformers model"):
        add_adapters(torch.nn.Linear(2, 2), config())


# ---- a whole training ----------------------------------------------------------------------------------------------


def train_model(folder: Path, name: str, model: Path, heard: Heard) -> Path:
    config = TrainConfig(
        task="tell", model=str(model), output=folder / name, include_path=(folder,), head="causal", device="cpu",
        lora=4, batch_size=2, epochs=4, lr=2e-2, select_on="test", patience=None,
    )  # fmt: skip
    train_in_process(config, Harness(include=(folder,)), heard)
    return config.output


def test_only_adapters_are_kept_to_go_on_and_that_ends_where_one_training_does(
    tmp_path: Path, workshop: Workshop
) -> None:
    telling = tell(tmp_path)
    model = workshop("gpt2", "LMHeadModel")
    uninterrupted = train_model(telling, "whole", model, Heard())
    first, *_, last = read_evaluations(uninterrupted)
    assert last["loss"] < first["loss"]
    with pytest.raises(KeyboardInterrupt):
        train_model(telling, "cut", model, Heard(cut=5))
    state = load_file(next((telling / "cut/training").glob("step-*/state/state.safetensors")))
    assert state and all(".lora_" in name for name in state)
    cut = train_model(telling, "cut", model, Heard())
    ends = [load_file(folder / "model.safetensors") for folder in (uninterrupted, cut)]
    before = load_file(model / "model.safetensors")
    assert set(ends[0]) == set(ends[1]) == set(before)
    assert all(ends[0][name].equal(ends[1][name]) for name in before)
    changed = {name.rpartition(".attn.")[2] for name in before if not ends[0][name].equal(before[name])}
    assert changed == {"c_attn.weight"}
