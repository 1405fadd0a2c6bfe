"""When a training needs processes of its own, and how torchrun is told to start them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from figeval.errors import TrainError
from figeval.training.config import TrainConfig

PORT = "29500"  # torchrun's own, where --master names none


def apart(config: TrainConfig) -> bool:
    """Whether a launcher starts the processes that train; else the process that was asked trains."""
    return config.processes > 1 or config.nodes > 1 or bool(config.deepspeed) or config.fsdp


def check(config: TrainConfig, device: str, cards: int) -> None:
    """Raise `TrainError` for what this machine, with so many GPUs, or the libraries on it cannot do."""
    if device == "mps":
        raise TrainError("mps is one device for one process; leave --processes, --deepspeed and --fsdp out")
    if device == "cuda" and config.processes > cards:
        raise TrainError(
            f"--processes {config.processes}, but there are {cards} GPUs here; use --processes {cards}, "
            "and --nodes for more machines"
        )
    if config.deepspeed and find_spec("deepspeed") is None:
        raise TrainError("--deepspeed needs the library deepspeed; pip install 'figeval[deepspeed]'")
    if config.optimizer == "adafactor" and (config.deepspeed or config.fsdp):
        raise TrainError("adafactor keeps sums over whole matrices, which are cut here; use --optimizer adamw")
    if config.fsdp and config.mixed_precision == "fp16":
        raise TrainError("--fsdp goes with --mixed_precision bf16, whose gradients need no scaling, or no")
    if config.deepspeed:
        from figeval.training.zero import configuration

        configuration(config)


def torchrun(config: TrainConfig, room: Path, module: str, *arguments: str) -> list[str]:
    """The arguments of torchrun: how many processes, where they meet, and the module that each of them runs.

    `room` is a folder for what torchrun itself writes.

    Raises:
        TrainError: --master is no address.
    """
    return [f"--nproc_per_node={config.processes}", *meeting(config), f"--log_dir={room}", "-m", module, *arguments]


def meeting(config: TrainConfig) -> list[str]:
    """Where processes find each other: a free port of this machine, or --master."""
    if config.nodes == 1:
        return ["--standalone", "--local_addr=127.0.0.1"]
    host, colon, port = (config.master or "").rpartition(":")
    host, port = (host, port) if colon else (port, PORT)
    if not host or not port.isdecimal():
        raise TrainError(f"--master {config.master} is no address; say host:port of machine 0")
    return [
        f"--nnodes={config.nodes}",
        f"--node_rank={config.node_rank}",
        f"--master_addr={host.strip('[]')}",
        f"--master_port={port}",
    ]


def surroundings(config: TrainConfig, device: str) -> dict[str, str]:
    """What Python and the libraries in the processes read from their environment.

    Safe path: no module of the current folder gets in that this process would not import.
    """
    safe = {"PYTHONSAFEPATH": "1"}
    if device != "cpu":
        return safe
    if config.deepspeed:  # which is not asked if accelerate is told to use a CPU, so it must find no GPU
        return safe | {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    return safe | {"ACCELERATE_USE_CPU": "true"}


def log_name(config: TrainConfig) -> str:
    """What the processes of this machine print, beside the others' where all see one disk."""
    return "processes.log" if config.nodes == 1 else f"processes-{config.node_rank}.log"
