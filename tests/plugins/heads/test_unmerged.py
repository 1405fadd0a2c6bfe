"""`--lora_unmerged`: the folder of an adapter answers as the whole model that the same training saves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

import figeval
from figeval import TrainError
from tests.plugins.heads.small import examples_of, small
from tests.plugins.heads.test_adapters import train_model
from tests.plugins.heads.test_generation import GENERATION_HEAD, SPREAD, tell
from tests.plugins.tiny import Workshop

LEARNERS = [
    ("pairs", "cross", "mini_pairs"),
    ("pairs", "biencoder", "mini_pairs"),
    ("choice", "biencoder", "mini_fables"),
    ("choice", "marker", "mini_fables"),
    ("ranking", "cross", "mini_retrieval"),
    ("spans", "span", "mini_alignment"),
    ("joint", "joint", "mini_joint"),
]


def rows_of(trained: figeval.Training) -> list[Any]:
    (run,) = [trained.run]
    assert run is not None
    return [{**row, "seconds": None} for task in run.tasks for row in run.rows(task)]


@pytest.mark.slow
@pytest.mark.parametrize(("task_type", "name", "task"), LEARNERS)
def test_an_adapter_answers_as_the_whole_model(task_type: str, name: str, task: str, tmp_path: Path) -> None:
    ground = small(tmp_path, task_type, examples_of(task, 6))
    options = {"pooling": "mean"} if name in ("biencoder", "joint") else {}
    common: dict[str, Any] = {
        "head": name,
        "head_args": options,
        "lora": 3,
        "lr": 0.05,
        "max_steps": 3,
        "select_on": "none",
    }
    merged_training = ground.train(**common)
    alone = ground.train(**common, lora_unmerged=True, output=tmp_path / "adapter")
    assert not (alone.path / "model.safetensors").exists()
    assert (alone.path / "adapter_model.safetensors").stat().st_size < (
        merged_training.path / "model.safetensors"
    ).stat().st_size
    assert rows_of(alone) == rows_of(merged_training)


@pytest.mark.slow
def test_an_adapter_of_a_sentence_encoder_has_the_pooling_of_its_head(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    ground = small(tmp_path, "choice", examples_of("mini_fables", 4))
    sentence_folder = tmp_path / "sentence"
    SentenceTransformer(str(ground.model), device="cpu").save_pretrained(str(sentence_folder), create_model_card=False)
    common: dict[str, Any] = {"head": "biencoder", "lora": 2, "lr": 0.05, "max_steps": 2, "select_on": "none"}
    merged_training = ground.train(model=sentence_folder, **common)
    alone = ground.train(model=sentence_folder, **common, lora_unmerged=True, output=tmp_path / "adapter")
    assert rows_of(alone) == rows_of(merged_training)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of peft
@pytest.mark.parametrize(
    ("kind", "architecture", "name"),
    [
        pytest.param("t5", GENERATION_HEAD, "seq2seq", marks=pytest.mark.slow),
        ("gpt2", "LMHeadModel", "causal"),
        pytest.param("llama", "ForCausalLM", "causal", marks=pytest.mark.slow),
    ],
)
def test_peft_reads_what_was_trained(
    kind: str, architecture: str, name: str, workshop: Workshop, tmp_path: Path
) -> None:
    import transformers
    from peft import PeftModel

    base = workshop(kind, architecture, **SPREAD.get(kind, {}))
    options = {"head": name, "lora": 3, "lr": 0.1, "warmup": 0.0, "dropout": 0.0}
    merged_training = train_model(tell(tmp_path), base, **options)
    alone = train_model(tmp_path, base, **options, lora_unmerged=True, output=tmp_path / "adapter")
    auto = transformers.AutoModelForSeq2SeqLM if kind == "t5" else transformers.AutoModelForCausalLM
    merged = PeftModel.from_pretrained(auto.from_pretrained(base), alone.path).merge_and_unload().state_dict()
    weights = load_file(merged_training.path / "model.safetensors")
    assert all(merged[name].equal(weight) for name, weight in weights.items())


def test_an_adapter_needs_a_rank_and_a_whole_base(tmp_path: Path) -> None:
    ground = small(tmp_path, "pairs", examples_of("mini_pairs", 4))
    with pytest.raises(TrainError, match="rank"):
        ground.train(lora_unmerged=True)
    common: dict[str, Any] = {"lora": 2, "max_steps": 1, "select_on": "none", "evaluate": ()}
    alone = ground.train(**common, lora_unmerged=True)
    with pytest.raises(TrainError, match="adapter itself"):
        ground.train(model=alone.path, **common, lora_unmerged=True, output=tmp_path / "again")
    again = ground.train(model=alone.path, **common, output=tmp_path / "again")
    assert (again.path / "model.safetensors").exists()
