"""The parts of the measurement by name, each with the shapes that it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import encoding, generation, log_likelihoods, training
from .machine import Machine


@dataclass(frozen=True)
class Part:
    """A measurement, and the shape of its model: as a rule, and the tiny one that shows that it works."""

    name: str
    measure: Callable[[Machine, str], dict[str, Any]]
    shape: str
    quick: bool = True  # whether --quick includes it

    def figures(self, machine: Machine, *, tiny: bool) -> dict[str, Any]:
        shape = "tiny" if tiny else self.shape
        return {"shape": shape, "machine": machine.describe(), **self.measure(machine, shape)}


PARTS = (
    Part("log_likelihoods_1b", log_likelihoods.measure, "1b"),
    Part("encoding", encoding.measure, "large"),
    Part("training", training.measure, "large"),
    Part("training_ddp", training.measure_ddp, "large"),
    Part("generation", generation.measure, "1b"),
    Part("log_likelihoods_8b", log_likelihoods.measure, "8b", quick=False),
)
