"""The base class of models in vLLM: the checkpoint, the engine that is loaded on first use, and the record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from figeval.types import JSON

from ..torch_models.checkpoint import Checkpoint
from ..torch_models.loading import choose_dtype, load_tokenizer
from .engine import VllmEngine
from .settings import VllmSettings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class VllmModel(ABC):
    """A checkpoint in vLLM. Subclasses define its kind and what it answers."""

    runner: ClassVar[str]  # vLLM's word for generation or pooling

    def __init__(self, settings: VllmSettings, checkpoint: Checkpoint) -> None:
        self.settings = settings
        self.checkpoint = checkpoint

    @abstractmethod
    def details(self, engine: VllmEngine) -> JSON:
        """Return the record's details of a loaded engine."""

    @cached_property
    def dtype(self) -> str:
        """Precision to compute in. Raises `ModelError` for half precision on a CPU."""
        from vllm.platforms import current_platform

        return choose_dtype(self.settings.dtype, self.checkpoint, current_platform.device_type)

    @cached_property
    def engine(self) -> VllmEngine:
        """The engine, loaded on first use. Raises `ModelError`."""
        options: dict[str, Any] = {
            **self.settings.engine,
            "dtype": self.dtype,
            "runner": self.runner,
            "trust_remote_code": self.settings.trust_remote_code,
            "generation_config": "auto" if self.runner == "generate" else "vllm",
        }
        return VllmEngine.load(str(self.checkpoint.folder_here()), options)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Tokenizer, the same that `causal` and `encoder` use."""
        return load_tokenizer(self.checkpoint, trust=self.settings.trust_remote_code)

    @cached_property
    def _fingerprint(self) -> str:
        options = " ".join(f"{name}={value}" for name, value in self.settings.answering.items())
        return f"{self.checkpoint.fingerprint()} vllm {vllm_version()} {options}"

    def fingerprint(self) -> str:
        """Return a digest of weights, configuration and tokenizer, vLLM's release, and options that change answers."""
        return self._fingerprint

    def source(self) -> str:
        """Return the folder with the model's files, downloading them from the hub if necessary."""
        return str(self.checkpoint.folder_here())

    def describe(self) -> JSON:
        """Return the model's description for the record, which has more details once the engine is loaded."""
        description: JSON = {
            "library": f"vllm {vllm_version()}",
            "dtype": self.dtype,
            "engine": dict(self.settings.engine),
        }
        engine = vars(self).get("engine")
        if engine is None:
            return description
        return description | {"class": self.checkpoint.architecture, "max_length": engine.limit} | self.details(engine)

    def close(self) -> None:
        """End the engine; it is loaded again when needed."""
        engine = vars(self).pop("engine", None)
        if engine is not None:
            engine.close()


def vllm_version() -> str:
    """Return vLLM's release, under whichever name it is distributed."""
    import vllm

    return str(vllm.__version__)
