"""What torchrun and DeepSpeed are told, and what is refused before they are asked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from figeval import FigevalError, TrainError
from figeval.wings.training import launcher
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.sharding import Zero, zero_configuration


def config(**changes: Any) -> TrainConfig:
    return TrainConfig.model_validate({"task": "t", "model": "m", "output": Path("out"), **changes})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"processes": 2}, True),
        ({"nodes": 2, "master": "a:1"}, True),
        ({"deepspeed": "zero2"}, True),
        ({"fsdp": True}, True),
    ],
)
def test_when_processes_are_started(changes: dict[str, Any], expected: bool) -> None:
    assert launcher.needs_launcher(config(**changes)) is expected


def test_on_one_machine_a_free_port_is_taken() -> None:
    assert launcher.torchrun_arguments(config(processes=3), Path("room"), "a.module", "order.json") == [
        "--nproc_per_node=3",
        "--standalone",
        "--local_addr=127.0.0.1",
        "--log_dir=room",
        "-m",
        "a.module",
        "order.json",
    ]


@pytest.mark.parametrize(
    ("master", "address", "port"),
    [("node7:123", "node7", "123"), ("node7", "node7", "29500"), ("[fe80::1]:9", "fe80::1", "9")],
)
def test_several_machines_meet_at_the_first(master: str, address: str, port: str) -> None:
    assert launcher.rendezvous_arguments(config(nodes=4, node_rank=2, master=master)) == [
        "--nnodes=4",
        "--node_rank=2",
        f"--master_addr={address}",
        f"--master_port={port}",
    ]


@pytest.mark.parametrize("master", ["node:port", ":123"])
def test_no_address(master: str) -> None:
    with pytest.raises(TrainError, match="is not an address; write the address of machine 0 as host:port"):
        launcher.rendezvous_arguments(config(nodes=2, master=master))


def test_torchrun_understands_it() -> None:
    from torch.distributed.run import parse_args

    for changes in ({"processes": 2}, {"nodes": 2, "node_rank": 1, "master": "node7:123"}):
        parsed = parse_args(launcher.torchrun_arguments(config(**changes), Path("room"), "a.module", "order.json"))
        assert (parsed.training_script, parsed.training_script_args) == ("a.module", ["order.json"])
        assert parsed.module


def test_what_libraries_are_told() -> None:
    safe = {"PYTHONSAFEPATH": "1"}
    assert launcher.process_environment(config(), "cuda") == safe
    assert launcher.process_environment(config(), "cpu") == safe | {"ACCELERATE_USE_CPU": "true"}
    zero = launcher.process_environment(config(deepspeed="zero2"), "cpu")
    assert zero == safe | {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.parametrize(
    ("changes", "device", "cards", "message"),
    [
        ({"processes": 4}, "cuda", 2, "--processes 4, but this machine has 2 GPUs; use --processes 2, and --nodes for"),
        ({"processes": 2}, "mps", 0, "mps is a single device for a single process; leave out --processes"),
        ({"fsdp": True, "optimizer": "adafactor"}, "cpu", 0, "shard them; use --optimizer adamw"),
        ({"fsdp": True, "mixed_precision": "fp16"}, "cuda", 1, "--fsdp cannot scale the gradients of fp16"),
    ],
)
def test_what_cannot_be(changes: dict[str, Any], device: str, cards: int, message: str) -> None:
    with pytest.raises(TrainError, match=message):
        launcher.check_resources(config(**changes), device, cards)


def test_deepspeed_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    with pytest.raises(FigevalError, match=r"--deepspeed needs deepspeed.*pip install 'figeval\[deepspeed\]'"):
        launcher.check_resources(config(deepspeed="zero2"), "cpu", 0)
    launcher.check_resources(config(processes=2), "cpu", 0)


def test_logs_of_machines_that_see_one_disk() -> None:
    assert launcher.log_name(config()) == "processes.log"
    assert launcher.log_name(config(nodes=2, node_rank=1, master="a:1")) == "processes-1.log"


# ---- DeepSpeed; that it trains alike is seen in test_processes.py --------------------------------------------------


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
