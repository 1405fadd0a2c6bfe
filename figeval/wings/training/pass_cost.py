"""Cost of a pass in time and memory, measured on an accelerator with the longest rows before the first step.

The time of a forward and backward pass is nearly a fixed part, in which the host starts its kernels, and a part in
proportion to its tokens. Both are measured; there is no table of devices. Also what to do if a pass does not fit in
memory all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from figeval import TrainError
from figeval.wings.training.batch_plans import BatchPlan, CheapestPasses, fewest_passes

if TYPE_CHECKING:
    from torch.optim import Optimizer

REPEATS = 3  # measurements of each plan
PASSES_PER_LARGEST = 4  # the second plan cuts the largest pass of the first into so many
MIN_SIZE_RATIO = 2  # a pass has so many times the tokens of another at least, if its memory is to tell more than noise
MEMORY_SHARE = 0.5  # of the free memory for the activations of a pass
BYTES_OF_MOMENTS = 8  # per trained weight, until the optimizer has made its moments: two in float32
# Weights, gradients and moments have the same size in every pass, so smaller passes are no cure.
LESS_TO_UPDATE = "use --fsdp with more --processes, or another --output with --lora or --optimizer adafactor"


Seconds = Annotated[float, Field(ge=0)]


class PassCost(BaseModel):
    """Cost of a pass, as measured at the start of a training and kept with its progress.

    Attributes:
        seconds_per_pass: the part that does not depend on the tokens.
        seconds_per_token: the part per token, padding included.
        tokens: tokens of a pass that fit in memory, padding included.
        device: devices and processes that it was measured on.
        padding: whether padding takes time; False if the network reads rows without it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds_per_pass: Seconds
    seconds_per_token: Seconds
    tokens: PositiveInt
    device: str = ""
    padding: bool = True

    def plan(self, tokens: int) -> BatchPlan:
        """Return the plan that is cheapest, of those whose passes have at most so many tokens, padding included."""
        if not self.padding:
            return fewest_passes(tokens)
        return CheapestPasses(tokens, self.seconds_per_pass, self.seconds_per_token)


@dataclass(frozen=True, slots=True)
class StepWork:
    """Work of one process in a step.

    Attributes:
        passes: passes of batches through the network.
        tokens: tokens of all of them, padding included.
        at_once: tokens whose activations are in memory at once.
    """

    passes: int
    tokens: int
    peak_tokens: int


@dataclass(frozen=True, slots=True)
class StepMeasurement:
    """The work of a step, the seconds that it took, and the bytes of its activations; None if they are not known."""

    work: StepWork
    seconds: float
    activations: int | None = None


class Gauge(Protocol):
    """Clock and memory of a device."""

    @property
    def name(self) -> str: ...

    def measure(self, run: Callable[[], StepWork]) -> StepMeasurement:
        """Run a step and measure it, from the moment when the device is idle until it is idle again."""
        ...

    def free_memory(self) -> int | None:
        """Return the bytes that are free, also those that torch keeps for later; None if the device does not say."""
        ...


@dataclass(frozen=True, slots=True)
class DeviceGauge:
    """Clock and memory of an accelerator; only CUDA's memory is known."""

    name: str
    device: str

    def measure(self, run: Callable[[], StepWork]) -> StepMeasurement:
        """Run a step and measure it between two synchronisations of the device."""
        import torch

        backend: Any = getattr(torch, self.device.partition(":")[0])
        memory = backend if self.device.startswith("cuda") else None
        backend.synchronize()
        if memory is not None:
            memory.reset_peak_memory_stats(self.device)
        allocated = memory.memory_allocated(self.device) if memory else 0
        start = time.perf_counter()
        work = run()
        backend.synchronize()
        seconds = time.perf_counter() - start
        return StepMeasurement(work, seconds, memory.max_memory_allocated(self.device) - allocated if memory else None)

    def free_memory(self) -> int | None:
        """Return the free bytes of a CUDA device, and those that torch holds without using them."""
        import torch

        if not self.device.startswith("cuda"):
            return None
        spare = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return int(torch.cuda.mem_get_info(self.device)[0] + spare)


def gauge_of(device: str) -> Gauge | None:
    """Return the gauge of an accelerator; None for a CPU, on which padding costs and a pass does not."""
    kind = device.partition(":")[0]
    if kind == "cpu":
        return None
    import torch

    return DeviceGauge(torch.cuda.get_device_name(device) if kind == "cuda" else kind, device)


def measure_steps(
    gauge: Gauge, run: Callable[[BatchPlan], StepWork], tokens: int, largest: int
) -> list[StepMeasurement]:
    """Measure a step in as few passes as possible and in about four times as many, which tells the two costs apart.

    Both plans first warm up: libraries choose their kernels, and gradients are allocated.

    Args:
        gauge: clock and memory.
        run: takes the step by a plan, without updating weights.
        tokens: most tokens of a pass.
        largest: tokens of all rows if they were in one pass.
    """
    plans = (fewest_passes(tokens), fewest_passes(max(1, min(tokens, largest) // PASSES_PER_LARGEST)))
    for plan in plans:
        run(plan)
    return [gauge.measure(lambda plan=plan: run(plan)) for _ in range(REPEATS) for plan in plans]  # type: ignore[misc]


def fit_costs(measurements: Iterable[StepMeasurement]) -> tuple[float, float]:
    """Return the seconds per pass and per token by least squares; neither is negative.

    Steps that all have the same work, because each row is a pass of its own, leave no choice: their time is that of
    their passes.
    """
    import numpy as np

    rows = [(step.work.passes, step.work.tokens, step.seconds) for step in measurements]
    passes, tokens, seconds = np.array(rows, dtype=float).T
    determinant = (passes @ passes) * (tokens @ tokens) - (passes @ tokens) ** 2
    single_fits = float(passes @ seconds / (passes @ passes)), float(tokens @ seconds / (tokens @ tokens))
    if determinant <= 1e-9 * (passes @ passes) * (tokens @ tokens):
        return single_fits[0], 0.0
    per_pass = ((tokens @ tokens) * (passes @ seconds) - (passes @ tokens) * (tokens @ seconds)) / determinant
    per_token = ((passes @ passes) * (tokens @ seconds) - (passes @ tokens) * (passes @ seconds)) / determinant
    if per_pass < 0:
        return 0.0, single_fits[1]
    return (float(per_pass), float(per_token)) if per_token >= 0 else (single_fits[0], 0.0)


def tokens_in_memory(measurements: Sequence[StepMeasurement], free: int | None, longest: int, default: int) -> int:
    """Return how many tokens of a pass fit in a share of the free memory; at least the longest row.

    Args:
        measurements: steps with the longest rows.
        free: bytes; None if they are not known.
        longest: tokens of the longest row.
        default: the answer if memory is not known.
    """
    fixed, per_token = _bytes_of_pass(measurements)
    return max(1, longest, int((MEMORY_SHARE * free - fixed) / per_token)) if free and per_token else default


def _bytes_of_pass(measurements: Iterable[StepMeasurement]) -> tuple[float, float]:
    """Return the bytes of a pass that do not depend on its tokens, such as casts of weights, and those per token.

    Both come from the largest and the smallest pass. If these are not much different, or neither part would be
    positive, all bytes count as per token. Unknown memory is 0.
    """
    peaks: dict[int, int] = {}
    for step in measurements:
        peaks[step.work.peak_tokens] = max(peaks.get(step.work.peak_tokens, 0), step.activations or 0)
    small, large = min(peaks), max(peaks)
    if large >= MIN_SIZE_RATIO * small:
        per_token = (peaks[large] - peaks[small]) / (large - small)
        fixed = peaks[small] - per_token * small
        if per_token > 0 and fixed > 0:
            return fixed, per_token
    return 0.0, max(peak / tokens for tokens, peak in peaks.items())


def bytes_of_moments(optimizer: Optimizer) -> int:
    """Return the memory of the moments that AdamW makes in its first step; 0 if it has made them.

    Those of Adafactor are sums of rows and columns, which are small.
    """
    if optimizer.state:
        return 0
    weights = (weight for group in optimizer.param_groups if "betas" in group for weight in group["params"])
    local = (weight.to_local() if hasattr(weight, "to_local") else weight for weight in weights)
    return BYTES_OF_MOMENTS * sum(int(weight.numel()) for weight in local)


# ---- too little memory ----------------------------------------------------------------------------------------------
def halve_tokens(tokens: int, longest: int, *, repeatable: bool, learning: bool = True) -> int:
    """Return half of the tokens of a pass that did not fit.

    Args:
        tokens: tokens of the pass, padding included.
        longest: tokens of its longest row.
        repeatable: whether the step can be taken again with smaller passes.
        learning: whether the pass computed a gradient.

    Raises:
        TrainError: the step cannot be taken again, or a single row does not fit.
    """
    half = tokens // 2
    if half < longest:
        cure = "use --gradient_checkpointing, or a smaller" if learning else "use a smaller"
        cure += " --max_length or --batch_size"
    elif repeatable:
        return half
    else:
        cure = f"use --tokens_per_batch {half}"
    raise TrainError(f"memory ran out in a pass of {tokens} tokens; {cure}")
