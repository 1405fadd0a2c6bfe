"""What torchrun is told, and what is refused before it is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from figeval import TrainError
from figeval.wings.training import launcher
from figeval.wings.training.config import TrainConfig


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
    monkeypatch.setattr(launcher, "find_spec", lambda name: None)
    with pytest.raises(TrainError, match=r"pip install 'figeval\[deepspeed\]'"):
        launcher.check_resources(config(deepspeed="zero2"), "cpu", 0)
    launcher.check_resources(config(processes=2), "cpu", 0)


def test_logs_of_machines_that_see_one_disk() -> None:
    assert launcher.log_name(config()) == "processes.log"
    assert launcher.log_name(config(nodes=2, node_rank=1, master="a:1")) == "processes-1.log"
