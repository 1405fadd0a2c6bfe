"""The processes of a training, seen from one of them: accelerate behind a few words.

Data parallel, ZeRO and FSDP differ in who holds which part of weights and moments; nothing else knows of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from figeval.errors import TrainError, near
from figeval.training.config import TrainConfig
from figeval.training.contract import Batch, Learner
from figeval.training.state import gathered, read_state, restored, write_state


class Crew:
    """One process among all that train together."""

    def __init__(self, accelerator: Any, *, compiled: bool = False) -> None:
        self.accelerator = accelerator
        self.compiled = compiled

    # ---- who we are -------------------------------------------------------------------------------------------------

    @property
    def process(self) -> int:
        """The number of this process, from 0."""
        return int(self.accelerator.process_index)

    @property
    def processes(self) -> int:
        """How many there are, on all machines."""
        return int(self.accelerator.num_processes)

    @property
    def first(self) -> bool:
        """Whether this one writes files."""
        return bool(self.accelerator.is_main_process)

    @property
    def device(self) -> str:
        """Where this process computes."""
        return str(self.accelerator.device)

    def wait(self) -> None:
        """Until all are here."""
        self.accelerator.wait_for_everyone()

    def told(self, value: Any) -> Any:
        """What the first process has, in every process."""
        if self.processes == 1:
            return value
        from accelerate.utils import broadcast_object_list

        return broadcast_object_list([value])[0]

    def pooled(self, values: list[Any]) -> list[Any]:
        """The lists of all processes as one, in the order of the processes."""
        if self.processes == 1:
            return values
        from accelerate.utils import gather_object

        return list(gather_object(values))

    def mean(self, value: Any) -> float:
        """The mean of a number over the processes."""
        return float(self.accelerator.reduce(value.detach().float(), reduction="mean"))

    def seed(self, seed: int, step: int) -> None:
        """Begin the random numbers of a step, other ones in every process."""
        import random

        from accelerate.utils import set_seed

        set_seed(random.Random(f"{seed} {step} {self.process}").getrandbits(32))

    # ---- network and optimizer --------------------------------------------------------------------------------------

    def prepare(self, network: Any, optimizer: Any) -> tuple[Any, Any]:
        """Both on their devices, wrapped as the processes need it."""
        if self.compiled:
            network.compile(dynamic=True)
        network, optimizer = self.accelerator.prepare(network, optimizer)
        return network, optimizer

    def bare(self, network: Any) -> Any:
        """The network as the learner made it."""
        return self.accelerator.unwrap_model(network)

    def whole(self, network: Any, learner: Learner) -> Any:  # noqa: ARG002 - sharded weights need it
        """A network that can be asked anything, with all weights."""
        return self.bare(network)

    def on_device(self, batch: Batch) -> Batch:
        """The tensors where the network is."""
        return {name: tensor.to(self.accelerator.device) for name, tensor in batch.items()}

    def numbers(self, values: Sequence[float], like: Any) -> Any:
        """Numbers as a tensor beside another one."""
        return like.new_tensor(values)

    @contextmanager
    def syncing(self, network: Any, last: bool) -> Iterator[None]:
        """Gradients are exchanged between processes with the last batch of a step, not before."""
        self.accelerator.sync_gradients = last
        if last or not hasattr(network, "no_sync"):
            yield
        else:
            with self.accelerator.no_sync(network):
                yield

    def backward(self, loss: Any) -> None:
        """Add to the gradients, within `syncing`."""
        self.accelerator.backward(loss)

    def update(self, network: Any, optimizer: Any, clip: float | None) -> None:
        """Clip the whole gradient, follow it, forget it."""
        if clip is not None:
            self.accelerator.clip_grad_norm_(network.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()

    # ---- checkpoints ------------------------------------------------------------------------------------------------

    def weights(self, network: Any) -> Mapping[str, Any]:
        """The whole state dict on the CPU; complete in the first process only."""
        found = self.accelerator.get_state_dict(network)
        return {name: tensor.detach().cpu() for name, tensor in (found or {}).items()}

    def state(self, network: Any, optimizer: Any) -> dict[str, Any]:
        """Weights and moments to go on with, by name; complete in the first process only."""
        return gathered(self.bare(network), optimizer.optimizer)

    def write(self, tensors: dict[str, Any], folder: Path) -> None:
        """Into a checkpoint."""
        write_state(tensors, folder)

    def restore(self, network: Any, optimizer: Any, checkpoint: Path) -> None:
        """Go on from a checkpoint. Raises `TrainError` for one that does not fit."""
        restored(self.bare(network), optimizer.optimizer, read_state(checkpoint / "state"))

    # ---- the rest ---------------------------------------------------------------------------------------------------

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Tell the trackers."""
        self.accelerator.log(dict(values), step=step)

    def close(self) -> None:
        """Let the trackers end."""
        self.accelerator.end_training()


def crew_of(config: TrainConfig) -> Crew:
    """The processes that a launcher has started, or this one alone.

    Raises:
        TrainError: a device that is not there, half precision on a CPU, or a tracker that is not installed.
    """
    device = device_of(config.device)
    if config.mixed_precision != "no" and device != "cuda":
        what = f"--mixed_precision {config.mixed_precision}"
        raise TrainError(f"{what} on {device} is far slower than float32; leave it out")
    from accelerate import Accelerator

    try:
        accelerator = Accelerator(
            cpu=device == "cpu",
            mixed_precision=config.mixed_precision,
            log_with=list(config.trackers) or None,
            project_dir=str(config.output / "training" / "runs"),
        )
        accelerator.init_trackers("figeval", config=flat(config))
    except ValueError as error:
        raise TrainError(f"--trackers {','.join(config.trackers)}: {error}") from error
    return Crew(accelerator, compiled=config.compile)


def device_of(asked: str | None) -> str:
    """The kind of device to train on. Raises `TrainError` for one that this machine does not have."""
    import torch

    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    kind = asked or next(name for name, available in there.items() if available)
    if kind not in there:
        raise TrainError(
            f"--device {asked} is none of {', '.join(there)}{near(kind, there)}; choose cards by CUDA_VISIBLE_DEVICES"
        )
    if not there[kind]:
        raise TrainError(f"--device {asked} is not there on this machine; leave --device out, or use cpu")
    return kind


def flat(config: TrainConfig) -> dict[str, Any]:
    """The config as trackers take it: numbers and texts."""
    values = config.model_dump(mode="json")
    return {name: value if isinstance(value, int | float | str) else str(value) for name, value in values.items()}
