"""What all backends with weights share: they are loaded when first needed, described, fingerprinted and forgotten."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from figeval.types import JSON

from ._batching import Budget, release_memory
from ._checkpoint import Checkpoint
from ._loading import choose_device, choose_dtype, parameters
from ._settings import Settings

ABOUT = "about"  # of figeval.json

S = TypeVar("S", bound=Settings)
N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class Setup(Generic[S]):
    """What is settled before weights are touched."""

    settings: S
    checkpoint: Checkpoint
    device: str
    dtype: str


def prepare(settings: S, checkpoint: Checkpoint) -> Setup[S]:
    """Settle device and precision.

    Raises:
        ModelError: the device is not there, or half precision was asked of a CPU.
    """
    device = choose_device(settings.device)
    return Setup(settings, checkpoint, device, choose_dtype(settings.dtype, checkpoint, device))


class Neural(ABC, Generic[S, N]):
    """A backend on torch. A subclass says how its network is loaded and what of it goes into the record."""

    def __init__(self, setup: Setup[S]) -> None:
        self.setup = setup
        self.budget = Budget.on(setup.device.partition(":")[0], setup.settings.rows)

    @abstractmethod
    def load(self) -> N:
        """The network, its weights on the device."""

    @abstractmethod
    def details(self, network: N) -> JSON:
        """What the record says of a loaded network."""

    @cached_property
    def network(self) -> N:
        """The network, loaded on first use."""
        return self.load()

    @cached_property
    def _fingerprint(self) -> str:
        return self.setup.checkpoint.fingerprint()

    def fingerprint(self) -> str:
        """Digest of weights, configuration and tokenizer."""
        return self._fingerprint

    def source(self) -> str:
        """The folder with its files, fetched from the hub first where need be."""
        return str(self.setup.checkpoint.folder_here())

    def describe(self) -> JSON:
        """What the record says; the class, size and limit of the model are known once it is loaded. A model that
        figeval trained says how that came about.
        """
        setup = self.setup
        known: JSON = {"device": setup.device, "dtype": setup.dtype}
        loaded = self.details(self.network) if "network" in vars(self) else {}
        told = {name: value for name, value in setup.checkpoint.declared.items() if name == ABOUT}
        return known | loaded | self.budget.describe() | told

    def close(self) -> None:
        """Forget the weights; they are loaded again if need be."""
        vars(self).pop("network", None)
        release_memory()


def measures(model: Any, limit: int | None) -> JSON:
    """Class, number of weights and longest input of a model."""
    return {"class": type(model).__name__, "parameters": parameters(model), "max_length": limit}
