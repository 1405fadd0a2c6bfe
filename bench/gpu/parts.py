"""The parts of the measurement by name, each with the shapes that it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import encoding, generation, log_likelihoods, training
from .machine import Machine


@dataclass(frozen=True)
class GpuPart:
    """A measurement, and the shape of its model: as a rule, and the tiny one that shows that it works.

    Attributes:
        name: name of the part.
        measure: function of a machine and a shape that returns the figures.
        shape: shape of the model.
        seconds: how long it takes on an H100, about, with everything that it imports and loads.
        quick: whether --quick includes it.
    """

    name: str
    measure: Callable[[Machine, str], dict[str, Any]]
    shape: str
    seconds: int
    quick: bool = True

    def figures(self, machine: Machine, *, tiny: bool) -> dict[str, Any]:
        shape = "tiny" if tiny else self.shape
        return {"shape": shape, "machine": machine.describe(), **self.measure(machine, shape)}


PARTS = (
    GpuPart("log_likelihoods_1b", log_likelihoods.measure, "1b", 50),
    GpuPart("log_likelihoods_8b", log_likelihoods.measure, "8b", 80, quick=False),
    GpuPart("encoding", encoding.measure, "large", 60),
    GpuPart("training", training.measure, "large", 60),
    GpuPart("training_ddp", training.measure_ddp, "large", 30),
    GpuPart("generation", generation.measure, "1b", 75),
)
