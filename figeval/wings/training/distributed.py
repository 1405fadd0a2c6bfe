"""The processes of a training, seen from one of them: a small interface to accelerate, and the state for resuming.

Data parallelism, ZeRO and FSDP differ only in their `sharding` of weights and moments.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from figeval import Batch, TrainError
from figeval.io.text import near
from figeval.models.devices import avoid_cudnn_attention, copy_to
from figeval.runs.trackers import check_trackers
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.pass_cost import Gauge, gauge_of
from figeval.wings.training.sharding import Replicated, Sharded

if TYPE_CHECKING:
    from accelerate import Accelerator
    from accelerate.optimizer import AcceleratedOptimizer
    from torch import Tensor
    from torch.nn import Module, Parameter
    from torch.optim import Optimizer

T = TypeVar("T")
STATE_FILE = "state.safetensors"
WEIGHT_KEY = "weight"


class Distributed:
    """One of the processes that train together.

    `sharding` knows which process holds which part of the weights. `gauge` measures what a pass costs on the device; it
    is None on a CPU, where this is not measured.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        sharding: Replicated | None = None,
        gauge: Gauge | None = None,
    ) -> None:
        self.accelerator = accelerator
        self.sharding = sharding or Replicated()
        self.gauge = gauge

    # ---- the processes -----------------------------------------------------------------------------------------------

    @property
    def process(self) -> int:
        """Number of this process, from 0."""
        return int(self.accelerator.process_index)

    @property
    def processes(self) -> int:
        """Number of processes on all machines."""
        return int(self.accelerator.num_processes)

    @property
    def is_main(self) -> bool:
        """True for process 0, which writes the files."""
        return bool(self.accelerator.is_main_process)

    @property
    def device(self) -> str:
        return str(self.accelerator.device)

    @property
    def repeatable(self) -> bool:
        """True if a step can be taken again after it failed: no other process or wrapper knows of its gradients."""
        return self.sharding.repeatable and self.accelerator.distributed_type.value == "NO"

    @property
    def hardware(self) -> str:
        """The devices, and how processes share the work: what a pass costs depends on these."""
        name = "" if self.gauge is None else self.gauge.name
        return self.broadcast(f"{name}, {self.processes} x {type(self.sharding).__name__}")

    def wait(self) -> None:
        """Wait for all processes (barrier)."""
        self.accelerator.wait_for_everyone()

    def broadcast(self, value: T) -> T:
        """Return the value of process 0 in every process."""
        if self.processes == 1:
            return value
        from accelerate.utils import broadcast_object_list

        values: list[T] = broadcast_object_list([value])
        return values[0]

    def gather(self, values: list[T]) -> list[T]:
        """Return the lists of all processes as one, in the order of the processes."""
        if self.processes == 1:
            return values
        from accelerate.utils import gather_object

        return list(gather_object(values))

    def mean(self, value: Tensor) -> float:
        """Return the mean of a number over the processes."""
        return float(self.accelerator.reduce(value.detach().float(), reduction="mean"))

    def seed(self, seed: int, step: int) -> None:
        """Seed the random numbers of a step, counted from 1, differently in every process.

        The network is made in step 0, where all processes share one seed because fresh weights must not differ.
        """
        import random

        from accelerate.utils import set_seed

        set_seed(random.Random(f"{seed} {step} {self.process if step else 'all'}").getrandbits(32))

    # ---- network and optimizer --------------------------------------------------------------------------------------

    def prepare(
        self, network: Module, optimizer_of: Callable[[Module], Optimizer], checkpoint: Path | None = None
    ) -> tuple[Module, AcceleratedOptimizer]:
        """Move a network and its optimizer to their devices, wrapped as the sharding requires.

        Weights and moments are those of the checkpoint, if there is one.

        Raises:
            TrainError: the checkpoint belongs to another network, or is damaged.
        """
        tensors = {} if checkpoint is None else _read_state(checkpoint / "state")
        if checkpoint is not None:
            _load_weights(network, tensors)
        network, optimizer = self.sharding.prepare(self.accelerator, network, optimizer_of)
        if checkpoint is not None:
            _load_moments(self.unwrapped(network), optimizer.optimizer, tensors, self.sharding)
        return network, optimizer

    def unwrapped(self, network: Module) -> Module:
        """Return the network as the learner made it."""
        return self.accelerator.unwrap_model(network)

    def runnable_network(self, network: Module, make: Callable[[], Module]) -> Module:
        """Return a network in evaluation mode that one process can run alone: a copy from `make` if it is sharded."""
        import torch

        network = self.unwrapped(network)
        if self.sharding.independent:
            return network
        copy = make().to(self.accelerator.device).requires_grad_(False).eval()
        tensors = copy.state_dict()
        with torch.no_grad():
            for name, weight in _named_tensors(network):
                tensors[name].copy_(self.sharding.gather(weight))
        return copy

    def move_batch(self, batch: Batch) -> Batch:
        """Move the tensors of a batch to the device of the network."""
        return {name: self._move(tensor) for name, tensor in batch.items()}

    def make_tensor(self, values: Sequence[float], like: Tensor) -> Tensor:
        """Return numbers as a tensor with the type of another one, on the device of the network."""
        import torch

        return self._move(torch.tensor(values, dtype=like.dtype))

    def _move(self, tensor: Tensor) -> Tensor:
        """Move a tensor to the device, with what a learner has attached to it, such as lengths that the host knows."""
        copy = copy_to(tensor, self.accelerator.device)
        if self.accelerator.device.type == "cuda":
            vars(copy).update(vars(tensor))
        return copy

    def shared_casts(self) -> AbstractContextManager[object]:
        """Return a context in which trained weights are cast to half precision once and not in every pass.

        Autocast keeps the casts of weights that need a gradient until its outermost context ends; frozen weights, such
        as those below adapters, are cast in every pass. This context is disabled, so that everything outside the
        forward passes, such as the backward passes, is computed as without it. Weights must not be updated within it.
        """
        import torch

        if self.accelerator.mixed_precision == "no":
            return nullcontext()
        context: AbstractContextManager[object] = torch.autocast(self.accelerator.device.type, enabled=False)
        return context

    @contextmanager
    def syncing(self, network: Module, last: bool) -> Iterator[None]:
        """Exchange gradients between processes only with the last batch of a step."""
        self.accelerator.sync_gradients = last
        if last or not hasattr(network, "no_sync"):
            yield
        else:
            with self.accelerator.no_sync(network):
                yield

    def backward(self, loss: Tensor) -> None:
        """Add to the gradients, within `syncing`."""
        self.accelerator.backward(loss)

    def discard_gradients(self, network: Module) -> None:
        """Throw gradients away; under ZeRO there are none without a whole step."""
        if self.sharding.disposable:
            network.zero_grad(set_to_none=True)

    def update(self, network: Module, optimizer: AcceleratedOptimizer, clip: float | None) -> None:
        """Clip the whole gradient, take a step, and reset the gradient."""
        if clip is not None:
            self.accelerator.clip_grad_norm_(network.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()

    # ---- checkpoints ------------------------------------------------------------------------------------------------

    def weights(self, network: Module, state: Mapping[str, Tensor] | None = None) -> Mapping[str, Tensor]:
        """Return the full state dict on the CPU; it is empty except in process 0.

        Tied weights are gathered once, and those in `state`, if it is given, are not gathered again.
        """
        network = self.unwrapped(network)
        names = dict(_named_tensors(network))
        tensors_by_id: dict[int, Tensor | None] = {}
        if state is not None:
            tensors_by_id = {
                id(weight): state.get(f"{name}/{WEIGHT_KEY}") for name, weight in _trained_weights(network)
            }
        for weight in names.values():
            if id(weight) not in tensors_by_id:
                tensor = self.sharding.gather(weight)
                tensors_by_id[id(weight)] = tensor.cpu() if self.is_main else None
        return {name: tensors_by_id[id(weight)] for name, weight in names.items()} if self.is_main else {}

    def state(self, network: Module, optimizer: AcceleratedOptimizer) -> dict[str, Tensor]:
        """Return the weights and moments for resuming, by name, on the CPU; empty except in process 0."""
        tensors = _state_tensors(self.unwrapped(network), optimizer.optimizer, self.sharding)
        return {name: tensor.cpu() for name, tensor in tensors if self.is_main}

    # ---- the rest ---------------------------------------------------------------------------------------------------

    def log(self, values: Mapping[str, float], step: int) -> None:
        self.accelerator.log(dict(values), step=step)

    def close(self) -> None:
        """Finish the trackers and disconnect from the other processes."""
        self.accelerator.end_training()


def _named_tensors(network: Module) -> Iterator[tuple[str, Tensor]]:
    """Yield a network's state dict with the parameters themselves, which carry their sharding."""
    weights = dict(network.named_parameters(remove_duplicate=False))
    return ((name, weights.get(name, value)) for name, value in network.state_dict().items())


def _sharding_of(config: TrainConfig) -> Replicated:
    """Return the sharding of weights and moments that the config asks for."""
    if config.deepspeed:
        from figeval.wings.training.sharding import Zero, zero_configuration

        return Zero(zero_configuration(config))
    if config.fsdp:
        return Sharded()
    return Replicated()


def connect(config: TrainConfig) -> Distributed:
    """Connect the processes that a launcher has started, or use this one alone.

    Raises:
        TrainError: the device does not exist, mixed precision is used without CUDA, or a tracker is not installed.
    """
    device = choose_device(config.device)
    if config.mixed_precision != "no" and device != "cuda":
        flag = f"--mixed_precision {config.mixed_precision}"
        raise TrainError(f"{flag} on {device} is far slower than float32; leave it out")
    if device == "cpu":
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # otherwise DeepSpeed, if installed, warns that it found no GPU
    from accelerate import Accelerator

    check_trackers(config.trackers)
    avoid_cudnn_attention()
    sharding = _sharding_of(config)
    accelerator = Accelerator(
        mixed_precision=config.mixed_precision,
        log_with=list(config.trackers) or None,
        project_dir=str(config.output / "training" / "runs"),
        **sharding.options(device),
    )
    name = str(config.output)  # otherwise W&B and MLflow make one up
    tracker_options = {"wandb": {"name": name}, "mlflow": {"run_name": name}}
    accelerator.init_trackers("figeval", config=_tracker_config(config), init_kwargs=tracker_options)
    sharding.on_initialized()
    return Distributed(accelerator, sharding, gauge_of(str(accelerator.device)))


def choose_device(name: str | None) -> str:
    """Return the kind of device to train on.

    Raises:
        TrainError: this machine has no such device.
    """
    if name == "cpu":
        return name  # without importing torch, which takes seconds
    import torch

    availability = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    kind = name or next(name for name, available in availability.items() if available)
    if kind not in availability:
        raise TrainError(
            f"--device {name} is not one of {', '.join(availability)}{near(kind, availability)}; "
            "choose GPUs with CUDA_VISIBLE_DEVICES"
        )
    if not availability[kind]:
        raise TrainError(f"--device {name} is not available on this machine; leave out --device, or use cpu")
    return kind


def _tracker_config(config: TrainConfig) -> dict[str, int | float | str]:
    """Return the config in the form that trackers accept: numbers and strings."""
    values = config.model_dump(mode="json")
    return {name: value if isinstance(value, int | float | str) else str(value) for name, value in values.items()}


# ---- the state for resuming ------------------------------------------------------------------------------------------


def write_state(tensors: dict[str, Tensor], folder: Path) -> None:
    """Write `NAME/weight`, `NAME/exp_avg` … to one file in a folder."""
    from safetensors.torch import save_file

    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / STATE_FILE)


def _read_state(folder: Path) -> dict[str, Tensor]:
    """Read the tensors of a checkpoint.

    Raises:
        TrainError: the file is missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(folder / STATE_FILE))
    except (OSError, SafetensorError) as error:
        raise TrainError(f"{folder / STATE_FILE} cannot be read ({error}); choose another --output") from error


def _trained_weights(network: Module) -> Iterator[tuple[str, Parameter]]:
    """Yield the trained weights by name; frozen ones come from the model that the training started from."""
    return ((name, weight) for name, weight in network.named_parameters() if weight.requires_grad)


def count_weights(network: Module) -> dict[str, int]:
    """Return the numbers of all (`total`) and of the trained weights (`trainable`), counting tied ones once."""
    trainable = sum(weight.numel() for _, weight in _trained_weights(network))
    return {"total": sum(weight.numel() for weight in network.parameters()), "trainable": trainable}


def _state_tensors(network: Module, optimizer: Optimizer, sharding: Replicated) -> Iterator[tuple[str, Tensor]]:
    """Yield the trained weights and their moments one by one."""
    for name, weight in _trained_weights(network):
        yield f"{name}/{WEIGHT_KEY}", sharding.gather(weight)
        for key, value in sharding.moments(optimizer, weight).items():
            yield f"{name}/{key}", value


def _load_weights(network: Module, tensors: Mapping[str, Tensor]) -> None:
    """Load weights into a network that is not wrapped yet.

    Raises:
        TrainError: the weights belong to another network.
    """
    import torch

    weights = dict(_trained_weights(network))
    if {name.rpartition("/")[0] for name in tensors} != set(weights):
        raise TrainError("the checkpoint is from a different network; choose another --output")
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(tensors[f"{name}/{WEIGHT_KEY}"])


def _load_moments(network: Module, optimizer: Optimizer, tensors: Mapping[str, Tensor], sharding: Replicated) -> None:
    """Load the moments, once network and optimizer are wrapped."""
    moments: dict[str, dict[str, Tensor]] = {name: {} for name, _ in _trained_weights(network)}
    for key_path, tensor in tensors.items():
        name, _, key = key_path.rpartition("/")
        if key != WEIGHT_KEY:
            moments[name][key] = tensor
    sharding.restore_moments(optimizer, [(weight, moments[name]) for name, weight in _trained_weights(network)])
