"""LoRA: what is trained, and that a checkpoint is an ordinary one with the adapters folded in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import figeval
from figeval import FigevalError, GenerationExample, Setup, TrainError
from tests.learners import head
from tests.plugins.heads.small import examples_of, small
from tests.plugins.heads.test_generation import GENERATION_HEAD, SPREAD, TEXTS_TO_WRITE, tell
from tests.plugins.tiny import Workshop
from tests.trainings import optimizer_steps, train


def train_model(folder: Path, model: Path, **changes: Any) -> figeval.Training:
    options = {
        "output": folder / "out", "include_path": folder, "head": "causal", "lora": 4,
        "batch_size": 2, "epochs": 4, "lr": 2e-2, "select_on": "test", "patience": None, "evaluate": (),
    }  # fmt: skip
    return train("tell", model, **options | changes)


@pytest.mark.parametrize(
    ("kind", "architecture", "name", "targets", "changed_layers"),
    [
        ("t5", GENERATION_HEAD, "seq2seq", (), {"q", "v"}),
        ("gpt2", "LMHeadModel", "causal", ("c_proj", "c_fc"), {"c_proj", "c_fc"}),  # square ones among them
        ("llama", "ForCausalLM", "causal", (), {"q_proj", "v_proj"}),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                ("bart", GENERATION_HEAD, "seq2seq", ("q_proj", "fc1", "out_proj"), {"q_proj", "fc1", "out_proj"}),
                ("gpt2", "LMHeadModel", "causal", (), {"c_attn"}),
            ]
        ),
    ],
)
def test_a_checkpoint_writes_what_the_network_with_adapters_does(
    kind: str, architecture: str, name: str, targets: tuple[str, ...], changed_layers: set[str],
    workshop: Workshop, tmp_path: Path,
) -> None:  # fmt: skip
    """The loss of the last step's network is that of the checkpoint, whose adapters are folded in."""
    model = workshop(kind, architecture, **SPREAD.get(kind, {}))
    trained = train_model(
        tell(tmp_path),
        model,
        head=name,
        lora=3,
        lora_targets=targets,
        lr=0.1,
        warmup=0.0,
        select_by="loss",
        dropout=0.0,
    )
    before, after = (load_file(folder / "model.safetensors") for folder in (model, trained.path))
    assert set(after) == set(before)
    changed = {name for name in before if not after[name].equal(before[name])}
    assert changed == {name for name in before if name.endswith(tuple(f".{layer}.weight" for layer in changed_layers))}
    learner = head("generation", name)(Setup(model=str(trained.path)))
    rows = [
        GenerationExample(
            id=str(n), inputs={"saying": f"saying {n}", "keywords": (text.split()[-1],)}, references=(text,)
        )
        for n, text in enumerate(TEXTS_TO_WRITE)
    ]
    features = learner.features(rows)
    with torch.inference_mode():
        losses = learner.network().eval()([features.batch(range(4), 0)], [])
    loss = float(losses.sum()) / sum(features.weights)
    assert loss == pytest.approx(trained.best["loss"], rel=1e-4)
    assert abs(loss - trained.record.before["loss"]) > 1e-2


@pytest.mark.parametrize(
    ("task_type", "task", "name", "architecture", "new_weights"),
    [
        ("pairs", "mini_pairs", "cross", "Model", 16 * 2 + 2),
        ("pairs", "mini_pairs", "biencoder", "Model", 3 * 16 * 2 + 2),
        ("ranking", "mini_retrieval", "biencoder", "Model", 1),
        ("pairs", "mini_pairs", "mlm", "ForMaskedLM", 0),
    ],
)
def test_what_is_new_is_trained_whole_and_the_rest_is_frozen(
    task_type: str, task: str, name: str, architecture: str, new_weights: int, workshop: Workshop, tmp_path: Path
) -> None:
    """A head that predicts words came with its body; a classifier and a temperature did not."""
    options: dict[str, Any] = {"pooling": "mean"} if name == "biencoder" else {}
    if task_type == "ranking":
        options["learn_temperature"] = True
    ground = small(tmp_path, task_type, examples_of(task, 4))
    trained = ground.train(
        model=workshop("bert", architecture), head=name, head_args=options, lora=3, max_steps=1, select_on="none",
        evaluate=(),
    )  # fmt: skip
    adapters = 2 * 2 * (16 * 3 + 3 * 16)  # A and B of query and value in two layers
    assert trained.record.parameters.trainable == adapters + new_weights
    assert (trained.record.parameters.head or 0) == new_weights


def test_of_a_fresh_head_what_it_shares_with_the_body_is_frozen(workshop: Workshop, tmp_path: Path) -> None:
    ground = small(tmp_path, "pairs", examples_of("mini_pairs", 4))
    model = workshop("bert", "Model")
    trained = ground.train(model=model, head="mlm", lora=3, max_steps=1, select_on="none", evaluate=())
    weights = load_file(trained.path / "model.safetensors")
    fresh = {name: weight for name, weight in weights.items() if name.startswith("cls.") and "decoder.w" not in name}
    assert "cls.predictions.transform.dense.weight" in fresh
    body = load_file(model / "model.safetensors")
    assert weights["bert.embeddings.word_embeddings.weight"].equal(body["embeddings.word_embeddings.weight"])
    assert trained.record.parameters.trainable > 2 * 2 * (16 * 3 + 3 * 16) + 16 * 16


@pytest.mark.parametrize(
    ("kind", "architecture", "name", "targets", "words"),
    [
        ("gpt2", "LMHeadModel", "causal", ("nothing",), "--lora_targets.*nothing"),
        ("gpt2", "LMHeadModel", "causal", ("wte",), "not a separate linear layer"),
        ("gpt2", "LMHeadModel", "causal", ("lm_head",), "--lora_targets.*lm_head"),
        ("t5", GENERATION_HEAD, "seq2seq", ("lm_head",), "lm_head is not a separate linear layer"),
    ],
)
def test_wrong_targets_are_one_line(
    kind: str, architecture: str, name: str, targets: tuple[str, ...], words: str, workshop: Workshop, tmp_path: Path
) -> None:
    with pytest.raises(TrainError, match=words) as error:
        train_model(tell(tmp_path), workshop(kind, architecture), head=name, lora_targets=targets)
    assert "\n" not in str(error.value)


def test_without_peft_the_extra_is_named(workshop: Workshop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(FigevalError, match=r"pip install 'figeval\[lora\]'"):
        train_model(tell(tmp_path), workshop("gpt2", "LMHeadModel"))


@pytest.mark.slow
def test_only_adapters_are_kept_to_go_on_and_that_ends_where_one_training_does(
    tmp_path: Path, workshop: Workshop
) -> None:
    telling, model = tell(tmp_path), workshop("gpt2", "LMHeadModel")
    uninterrupted = train_model(telling, model)
    first, *_, last = uninterrupted.record.evaluations
    assert last.scores["loss"] < first.scores["loss"]
    cut = {"output": telling / "cut"}
    with optimizer_steps(5), pytest.raises(KeyboardInterrupt):
        train_model(telling, model, **cut)
    state = load_file(next((telling / "cut/training").glob("step-*/state/state.safetensors")))
    assert state and all(".lora_" in name for name in state)
    ends = [
        load_file(trained.path / "model.safetensors") for trained in (uninterrupted, train_model(telling, model, **cut))
    ]
    assert all(ends[0][name].equal(ends[1][name]) for name in ends[0])
