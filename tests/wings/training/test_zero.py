"""What DeepSpeed is told; that it trains alike is seen in test_processes.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from figeval import TrainError
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.sharding import Zero, zero_configuration


def config(**changes: Any) -> TrainConfig:
    return TrainConfig.model_validate({"task": "t", "model": "m", "output": Path("out"), **changes})


@pytest.mark.parametrize(("name", "stage", "independent"), [("zero2", 2, True), ("zero3", 3, False)])
def test_a_stage_by_name(name: str, stage: int, independent: bool) -> None:
    configuration = zero_configuration(config(deepspeed=name, clip=0.5))
    assert configuration["zero_optimization"] == {"stage": stage}
    assert configuration["gradient_clipping"] == 0.5
    assert configuration["gradient_accumulation_steps"] == 1, "the loop says when a step is whole"
    assert configuration["zero_allow_untested_optimizer"]
    assert not configuration["bf16"]["enabled"]
    assert not configuration["fp16"]["enabled"]
    assert Zero(configuration).independent is independent


def test_no_clipping_and_half_precision() -> None:
    configuration = zero_configuration(config(deepspeed="zero2", clip=None, mixed_precision="bf16"))
    assert configuration["gradient_clipping"] == 0.0
    assert configuration["bf16"]["enabled"]


def write_config(folder: Path, **values: Any) -> str:
    file = folder / "ds.json"
    file.write_text(json.dumps(values))
    return str(file)


def test_a_file_keeps_what_is_not_decided_here(tmp_path: Path) -> None:
    zero = {"stage": 1, "reduce_bucket_size": 1000}
    file = write_config(
        tmp_path, zero_optimization=zero, gradient_clipping=9.0, train_batch_size=512, wall_clock_breakdown=True
    )
    configuration = zero_configuration(config(deepspeed=file))
    assert configuration["zero_optimization"] == zero
    assert configuration["wall_clock_breakdown"] is True
    assert configuration["gradient_clipping"] == 1.0
    assert configuration["train_batch_size"] == "auto"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"zero_optimization": {"stage": 2}, "optimizer": {"type": "Adam"}},
            "'optimizer' is set by figeval; remove it",
        ),
        ({"zero_optimization": {"stage": 2}, "bf16": {"enabled": True}}, "turns on bf16; use --mixed_precision bf16"),
        ({}, "stage is not 1, 2 or 3"),
        ({"zero_optimization": {"stage": "two"}}, "stage is not 1, 2 or 3"),
        ({"zero_optimization": {"stage": 2}, "fp16": True}, "'fp16' of the DeepSpeed configuration must be an object"),
    ],
)
def test_a_file_that_decides_too_much_or_nothing(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    with pytest.raises(TrainError, match=message):
        zero_configuration(config(deepspeed=write_config(tmp_path, **values)))


def test_no_such_file_and_no_such_stage(tmp_path: Path) -> None:
    with pytest.raises(TrainError, match="--deepspeed takes zero2 or zero3, or"):
        zero_configuration(config(deepspeed="zero9"))
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(TrainError, match="is not a DeepSpeed configuration"):
        zero_configuration(config(deepspeed=str(tmp_path / "list.json")))
