"""The processes of a training, seen from one of them: accelerate behind a few words.

Data parallel, ZeRO and FSDP differ in who holds which part of weights and moments; nothing else knows of that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from figeval.errors import TrainError, near
from figeval.training.config import TrainConfig
from figeval.training.contract import Batch
from figeval.training.state import Replicated, gathered, load_moments, load_weights, read_state, write_state

if TYPE_CHECKING:
    from accelerate import Accelerator
    from accelerate.optimizer import AcceleratedOptimizer
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer


T = TypeVar("T")


class Crew:
    """One process among all that train together; `holding` knows who has which part of weights and moments."""

    def __init__(self, accelerator: Accelerator, holding: Replicated | None = None, *, compiled: bool = False) -> None:
        self.accelerator = accelerator
        self.holding = holding or Replicated()
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

    def told(self, value: T) -> T:
        """What the first process has, in every process."""
        if self.processes == 1:
            return value
        from accelerate.utils import broadcast_object_list

        values: list[T] = broadcast_object_list([value])
        return values[0]

    def pooled(self, values: list[T]) -> list[T]:
        """The lists of all processes as one, in the order of the processes."""
        if self.processes == 1:
            return values
        from accelerate.utils import gather_object

        return list(gather_object(values))

    def mean(self, value: Tensor) -> float:
        """The mean of a number over the processes."""
        return float(self.accelerator.reduce(value.detach().float(), reduction="mean"))

    def seed(self, seed: int, step: int) -> None:
        """Begin the random numbers of a step, from 1 on: other ones in every process.

        Step 0 is where the network is made: alike in all of them, for fresh weights must not differ.
        """
        import random

        from accelerate.utils import set_seed

        set_seed(random.Random(f"{seed} {step} {self.process if step else 'all'}").getrandbits(32))

    # ---- network and optimizer --------------------------------------------------------------------------------------

    def prepare(
        self, network: Module, optimizer_of: Callable[[Module], Optimizer], checkpoint: Path | None = None
    ) -> tuple[Module, AcceleratedOptimizer]:
        """A network and its optimizer on their devices, wrapped as the processes need it, as a checkpoint has them.

        Raises:
            TrainError: the checkpoint is of another network, or damaged.
        """
        tensors = {} if checkpoint is None else read_state(checkpoint / "state")
        if checkpoint is not None:
            load_weights(network, tensors)
        if self.compiled:
            network.compile(dynamic=True)
        network, optimizer = self.holding.prepare(self.accelerator, network, optimizer_of)
        if checkpoint is not None:
            load_moments(self.bare(network), optimizer.optimizer, tensors, self.holding)
        return network, optimizer

    def bare(self, network: Module) -> Module:
        """The network as the learner made it."""
        return self.accelerator.unwrap_model(network)

    def whole(self, network: Module, make: Callable[[], Module]) -> Module:
        """A network that can be asked anything, in evaluation mode; where weights are in parts, a copy (`make`)."""
        import torch

        bare = self.bare(network)
        if self.holding.alone:
            return bare
        copy = make().to(self.accelerator.device).requires_grad_(False).eval()
        places = copy.state_dict()
        with torch.no_grad():
            for name, weight in named_tensors(bare):
                places[name].copy_(self.holding.whole(weight))
        return copy

    def on_device(self, batch: Batch) -> Batch:
        """The tensors where the network is."""
        return {name: tensor.to(self.accelerator.device) for name, tensor in batch.items()}

    def numbers(self, values: Sequence[float], like: Tensor) -> Tensor:
        """Numbers as a tensor beside another one."""
        return like.new_tensor(values)

    @contextmanager
    def syncing(self, network: Module, last: bool) -> Iterator[None]:
        """Gradients are exchanged between processes with the last batch of a step, not before."""
        self.accelerator.sync_gradients = last
        if last or not hasattr(network, "no_sync"):
            yield
        else:
            with self.accelerator.no_sync(network):
                yield

    def backward(self, loss: Tensor) -> None:
        """Add to the gradients, within `syncing`."""
        self.accelerator.backward(loss)

    def update(self, network: Module, optimizer: AcceleratedOptimizer, clip: float | None) -> None:
        """Clip the whole gradient, follow it, forget it."""
        if clip is not None:
            self.accelerator.clip_grad_norm_(network.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()

    # ---- checkpoints ------------------------------------------------------------------------------------------------

    def weights(self, network: Module) -> Mapping[str, Tensor]:
        """The whole state dict on the CPU, weights that have two names once; empty but in the first process."""
        found: dict[int, Tensor | None] = {}
        names = dict(named_tensors(self.bare(network)))
        for weight in names.values():
            if id(weight) not in found:
                whole = self.holding.whole(weight)
                found[id(weight)] = whole.cpu() if self.first else None
        return {name: found[id(weight)] for name, weight in names.items()} if self.first else {}

    def state(self, network: Module, optimizer: AcceleratedOptimizer) -> dict[str, Tensor]:
        """Weights and moments to go on with, by name, on the CPU; empty but in the first process."""
        found = gathered(self.bare(network), optimizer.optimizer, self.holding)
        return {name: tensor.cpu() for name, tensor in found if self.first}

    def write(self, tensors: dict[str, Tensor], folder: Path) -> None:
        """Into a checkpoint."""
        write_state(tensors, folder)

    # ---- the rest ---------------------------------------------------------------------------------------------------

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Tell the trackers."""
        self.accelerator.log(dict(values), step=step)

    def close(self) -> None:
        """Let the trackers end, and part from the other processes."""
        self.accelerator.end_training()


def named_tensors(network: Module) -> Iterator[tuple[str, Tensor]]:
    """The state dict of a network with the weights themselves, as who shards them has marked them."""
    weights = dict(network.named_parameters(remove_duplicate=False))
    return ((name, weights.get(name, value)) for name, value in network.state_dict().items())


def holding_of(config: TrainConfig) -> Replicated:
    """Who holds which part of weights and moments."""
    if config.deepspeed:
        from figeval.training.zero import Zero, configuration

        return Zero(configuration(config))
    if config.fsdp:
        from figeval.training.sharded import Sharded

        return Sharded()
    return Replicated()


def crew_of(config: TrainConfig) -> Crew:
    """The processes that a launcher has started, or this one alone.

    Raises:
        TrainError: a device that is not there, half precision on a CPU, or a tracker that is not installed.
    """
    device = device_of(config.device)
    if config.mixed_precision != "no" and device != "cuda":
        what = f"--mixed_precision {config.mixed_precision}"
        raise TrainError(f"{what} on {device} is far slower than float32; leave it out")
    if device == "cpu":
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # or DeepSpeed, where it is installed, warns that it saw no GPU
    from accelerate import Accelerator

    check_trackers(config.trackers)
    holding = holding_of(config)
    accelerator = Accelerator(
        mixed_precision=config.mixed_precision,
        log_with=list(config.trackers) or None,
        project_dir=str(config.output / "training" / "runs"),
        **holding.options(device),
    )
    name = str(config.output)  # or W&B and MLflow make up one
    named = {"wandb": {"name": name}, "mlflow": {"run_name": name}}
    accelerator.init_trackers("figeval", config=flat(config), init_kwargs=named)
    holding.opened()
    return Crew(accelerator, holding, compiled=config.compile)


def check_trackers(asked: Sequence[str]) -> None:
    """Raise `TrainError` for a tracker that accelerate does not know, or that is not installed."""
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers

    known, installed = list(LOGGER_TYPE_TO_CLASS), {tracker.value for tracker in get_available_trackers()}
    for name in asked:
        if name not in known:
            raise TrainError(f"--trackers {name}: accelerate knows {', '.join(known)}{near(name, known)}")
        if name not in installed:
            raise TrainError(f"--trackers {name} needs its library; pip install {name}")


def device_of(asked: str | None) -> str:
    """The kind of device to train on. Raises `TrainError` for one that this machine does not have."""
    if asked == "cpu":
        return asked  # without torch, whose import takes seconds
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


def flat(config: TrainConfig) -> dict[str, int | float | str]:
    """The config as trackers take it: numbers and texts."""
    values = config.model_dump(mode="json")
    return {name: value if isinstance(value, int | float | str) else str(value) for name, value in values.items()}
