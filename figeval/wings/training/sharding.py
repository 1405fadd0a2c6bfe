"""The sharding of weights and optimizer moments over processes: each holds everything, or a shard.

`Replicated` is a single process or data parallelism; `Sharded` is PyTorch's FSDP2; `Zero` is DeepSpeed's ZeRO. Nothing
else in a training depends on the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from figeval import TrainError
from figeval.io.json_files import JSONObject, read_json
from figeval.wings.training.config import TrainConfig

if TYPE_CHECKING:
    from accelerate import Accelerator
    from accelerate.optimizer import AcceleratedOptimizer
    from deepspeed.runtime.base_optimizer import ZeROOptimizer
    from torch import Tensor
    from torch.distributed.tensor import DTensor
    from torch.nn import Module
    from torch.optim import Optimizer

STEP = "step"  # the optimizer's step counter; its other state has the shape of a weight
STAGES = {"zero2": 2, "zero3": 3}
RESERVED_SECTIONS = ("optimizer", "scheduler")  # sections of a DeepSpeed configuration that figeval sets itself


Moments: TypeAlias = "Mapping[str, Tensor]"  # exp_avg, exp_avg_sq …


class Replicated:
    """Every process holds all weights and moments: a single process, or data parallelism.

    Subclasses shard them. Methods return whole tensors, so all processes must call them together.
    """

    independent = True  # one process can run the network while the others do not
    repeatable = True  # after a failed pass, nothing but the gradients remains of a step
    disposable = True  # gradients can be thrown away, since a backward pass does not update weights

    def options(self, device: str) -> dict[str, object]:
        """Return the arguments of `Accelerator`.

        `find_unused_parameters` allows for weights without a gradient, e.g. those of an unused pooler.
        """
        from accelerate import DistributedDataParallelKwargs

        return {
            "cpu": device == "cpu",
            "kwargs_handlers": [DistributedDataParallelKwargs(find_unused_parameters=True)],
        }

    def on_initialized(self) -> None:
        """Do what is necessary once accelerate is initialized; nothing by default."""

    def prepare(
        self, accelerator: Accelerator, network: Module, optimizer_of: Callable[[Module], Optimizer]
    ) -> tuple[Module, AcceleratedOptimizer]:
        """Move the network and its optimizer to their devices, wrapped as the processes need them."""
        network, optimizer = accelerator.prepare(network, optimizer_of(network))
        return network, optimizer

    def gather(self, tensor: Tensor) -> Tensor:
        """Return the whole of a weight or moment, in float32 if it is trained."""
        return tensor.detach()

    def shard(self, tensor: Tensor, weight: Tensor) -> Tensor:
        """Return the part of a whole moment that this process holds."""
        return tensor.to(weight.device)

    def moments(self, optimizer: Optimizer, weight: Tensor) -> dict[str, Tensor]:
        """Return the optimizer's state for a weight."""
        import torch

        state = optimizer.state.get(weight, {}).items()
        return {key: self.gather(torch.as_tensor(value)) for key, value in state if value is not None}

    def restore_moments(self, optimizer: Optimizer, states: Sequence[tuple[Tensor, Moments]]) -> None:
        """Restore the optimizer's state for weights."""
        for weight, moments in states:
            for key, tensor in moments.items():
                value = _step_counter(tensor, optimizer, weight) if key == STEP else self.shard(tensor, weight)
                optimizer.state[weight][key] = value


def _step_counter(tensor: Tensor, optimizer: Optimizer, weight: Tensor) -> Tensor | int | float:
    """Return a step counter as its optimizer keeps it.

    Adafactor keeps a number; AdamW a tensor, on the CPU or, if it is fused, on the device of the weights.
    """
    if not tensor.is_floating_point():
        number: int | float = tensor.item()
        return number
    return tensor.to(weight.device) if optimizer.param_groups[0].get("fused") else tensor


class Sharded(Replicated):
    """Every process holds a shard of each tensor, cut along its first axis: PyTorch's FSDP2 (`fully_shard`).

    PyTorch is called directly, since accelerate supports FSDP2 only on GPUs. The tensors are DTensors.
    """

    independent = False
    repeatable = False

    def options(self, device: str) -> dict[str, object]:
        """Return the arguments of `Accelerator`, which only connects the processes."""
        return {"cpu": device == "cpu"}

    def prepare(
        self, accelerator: Accelerator, network: Module, optimizer_of: Callable[[Module], Optimizer]
    ) -> tuple[Module, AcceleratedOptimizer]:
        """Shard the network layer by layer, so that one layer at a time is whole, and then make its optimizer."""
        import torch
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        precision = torch.bfloat16 if accelerator.mixed_precision == "bf16" else None
        policy = MixedPrecisionPolicy(param_dtype=precision, reduce_dtype=torch.float32)
        network.to(accelerator.device)
        for module in [*_layers(network), network]:
            fully_shard(module, mp_policy=policy)
        return network, accelerator.prepare(optimizer_of(network))

    def gather(self, tensor: Tensor) -> Tensor:
        return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach()

    def shard(self, tensor: Tensor, weight: DTensor) -> Tensor:
        from torch.distributed.tensor import distribute_tensor

        return distribute_tensor(tensor.to(weight.device), weight.device_mesh, weight.placements)


def _layers(network: Module) -> Iterator[Module]:
    """Yield the layers of the transformers models in a network; such models name the classes of their layers."""
    layer_classes = {name for module in network.modules() for name in getattr(module, "_no_split_modules", None) or ()}
    return (module for module in network.modules() if type(module).__name__ in layer_classes)


# ---- DeepSpeed -------------------------------------------------------------------------------------------------------


class Zero(Replicated):
    """DeepSpeed's ZeRO; in stage 3 weights are sharded as well, so no process can run the network alone."""

    repeatable = False
    disposable = False

    def __init__(self, configuration: JSONObject) -> None:
        self.configuration = configuration
        self.independent = _stage(configuration) < 3

    def options(self, device: str) -> dict[str, object]:
        """Return the arguments of `Accelerator`: DeepSpeed's plugin, and on a CPU the gloo backend.

        With `cpu=True` accelerate would not use DeepSpeed.
        """
        from accelerate import DeepSpeedPlugin, InitProcessGroupKwargs

        plugin = DeepSpeedPlugin(hf_ds_config=self.configuration, zero3_init_flag=False)
        if device != "cpu":
            return {"deepspeed_plugin": plugin}
        _use_gloo_alone()
        return {"deepspeed_plugin": plugin, "kwargs_handlers": [InitProcessGroupKwargs(backend="gloo")]}

    def on_initialized(self) -> None:
        """Keep transformers from sharding networks as they are made: their shapes are needed first."""
        from transformers.integrations import unset_hf_deepspeed_config

        unset_hf_deepspeed_config()

    def gather(self, tensor: Tensor) -> Tensor:
        """Gather a tensor in every process; for a weight in half precision, gather its float32 master copy."""
        from deepspeed.runtime.zero import GatheredParameters
        from deepspeed.utils import safe_get_full_fp32_param

        if tensor.requires_grad:
            return safe_get_full_fp32_param(tensor).detach()
        if not hasattr(tensor, "ds_id"):
            return tensor.detach()
        with GatheredParameters([tensor]):
            return tensor.detach().clone()

    def moments(self, optimizer: ZeROOptimizer, weight: Tensor) -> dict[str, Tensor]:
        """Gather the moments in every process; all shards step together, so the first one's counter holds for all."""
        import torch
        from deepspeed.utils import safe_get_full_optimizer_state

        mapping = getattr(weight, "_hp_mapping", None)  # missing in stage 3, and if this process holds no part of it
        if mapping is not None and not mapping.optim_fragment:
            _link_moments(optimizer)
        shard = next(_partitions(optimizer))
        state = optimizer.optimizer.state[shard]
        names = [key for key, value in state.items() if torch.is_tensor(value) and value.shape == shard.shape]
        whole_moments = {key: safe_get_full_optimizer_state(weight, key).detach() for key in names}
        return whole_moments | ({STEP: torch.as_tensor(state[STEP]).clone()} if STEP in state else {})

    def restore_moments(self, optimizer: ZeROOptimizer, states: Sequence[tuple[Tensor, Moments]]) -> None:
        """Allocate the moments of every shard and fill them weight by weight."""
        from deepspeed.utils import safe_set_full_optimizer_state

        self._allocate(optimizer, {key: tensor for _, moments in states for key, tensor in moments.items()})
        for weight, moments in states:
            for key, tensor in moments.items():
                if key != STEP:
                    safe_set_full_optimizer_state(weight, tensor.to(weight.device), key)

    def _allocate(self, optimizer: ZeROOptimizer, moments: Moments) -> None:
        """Allocate the optimizer's state, which would otherwise be created in its first step."""
        import torch

        state = optimizer.optimizer.state
        for shard in _partitions(optimizer):
            state[shard] = {
                key: _step_counter(tensor.clone(), optimizer.optimizer, shard)
                if key == STEP
                else torch.zeros_like(shard)
                for key, tensor in moments.items()
            }
        if self.independent:
            _link_moments(optimizer)


def _use_gloo_alone() -> None:
    """Keep DeepSpeed from compiling its shared-memory kernel.

    That takes a minute or more, and fails without a compiler.
    """
    from deepspeed import ops

    ops.__compatible_ops__["deepspeed_shm_comm"] = False


def _link_moments(optimizer: ZeROOptimizer) -> None:
    """Link weights to their moments, in stages 1 and 2.

    DeepSpeed (0.19) links them after the first step of the first group, when the other groups have no moments yet.
    """
    from deepspeed.utils import lazy_init_hp_params_optimizer_state

    for weights, shard in zip(optimizer.bit16_groups, _partitions(optimizer), strict=True):
        lazy_init_hp_params_optimizer_state(weights, shard, optimizer.optimizer.state)


def _partitions(optimizer: ZeROOptimizer) -> Iterator[Tensor]:
    """Yield this process's shard of every group of weights, each as one float32 vector."""
    vectors = getattr(optimizer, "single_partition_of_fp32_groups", None)
    yield from optimizer.fp32_partitioned_groups_flat if vectors is None else vectors


def zero_configuration(config: TrainConfig) -> JSONObject:
    """Return the DeepSpeed configuration: that of a stage or a file, with the settings of the training loop.

    Batch sizes have no effect, since the loop itself decides when a step is complete.

    Raises:
        TrainError: the file cannot be read, or sets what figeval sets itself.
    """
    name = config.deepspeed or ""
    by_name: JSONObject = {"zero_optimization": {"stage": STAGES[name]}} if name in STAGES else {}
    base = by_name or _read_configuration(Path(name), config)
    return {
        **base,
        "train_micro_batch_size_per_gpu": 1,
        "train_batch_size": "auto",
        "gradient_accumulation_steps": 1,
        "gradient_clipping": config.clip or 0.0,
        "zero_allow_untested_optimizer": True,
        "bf16": {"enabled": config.mixed_precision == "bf16"},
        "fp16": {**_section(base, "fp16"), "enabled": config.mixed_precision == "fp16"},
    }


def _read_configuration(file: Path, config: TrainConfig) -> JSONObject:
    """Read a DeepSpeed configuration file.

    Raises:
        TrainError: it is not a configuration, or sets what figeval sets itself.
    """
    settings = read_json(file, TrainError, cure=f"--deepspeed takes {' or '.join(STAGES)}, or a JSON file of DeepSpeed")
    if not isinstance(settings, dict):
        raise TrainError(f"{file} is not a DeepSpeed configuration; it must be an object")
    for name in RESERVED_SECTIONS:
        if name in settings:
            raise TrainError(f"{file}: {name!r} is set by figeval; remove it and use --{name}, --lr …")
    for precision in ("bf16", "fp16"):
        if _section(settings, precision).get("enabled") is True and config.mixed_precision != precision:
            raise TrainError(f"{file} turns on {precision}; use --mixed_precision {precision}, or remove it")
    if _stage(settings) < 1:
        raise TrainError(f"{file}: zero_optimization.stage is not 1, 2 or 3; without it leave --deepspeed out")
    return settings


def _stage(configuration: JSONObject) -> int:
    """Return the stage of ZeRO: 1 shards moments, 2 also gradients, 3 also weights; 0 if none is set."""
    number = _section(configuration, "zero_optimization").get("stage", 0)
    return int(str(number)) if str(number).isdecimal() else 0


def _section(configuration: JSONObject, name: str) -> JSONObject:
    """Return a section of a DeepSpeed configuration, empty if it does not exist.

    Raises:
        TrainError: the section is not an object.
    """
    settings = configuration.get(name, {})
    if not isinstance(settings, dict):
        raise TrainError(f"{name!r} of the DeepSpeed configuration must be an object")
    return settings
