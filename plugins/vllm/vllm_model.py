"""The base of all models in vLLM: options, the checkpoint, the engine that is loaded on first use, and the record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from figeval.reasoning import Reasoning
from figeval.types import JSON, TextRole

from ..causal.decoding import check_sampling
from ..encoders.prompts import check_prompts
from ..torch_models.checkpoint import Checkpoint
from ..torch_models.loading import choose_dtype, load_tokenizer
from ..torch_models.settings import DTYPES, one_of
from .engine import VllmEngine

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


SCORINGS = ("auto", "rows", "cached", "tree")
# Options that change the speed of an answer, but not its content.
PACE = frozenset({"disable_log_stats", "enforce_eager", "gpu_memory_utilization", "max_num_seqs", "scoring"})

# Options of figeval that change it.
ANSWERING = ("dtype", "add_bos_token", "prefix_token_id", "enable_thinking", "temperature", "top_k", "top_p")


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmSettings:
    """Options of a model in vLLM.

    Attributes:
        model: folder or hub id.
        revision: branch, tag or commit of a model from the hub; None for its main branch.
        dtype: precision; "auto" is the stored one, or float32 on a CPU.
        trust_remote_code: whether code that comes with the checkpoint may be executed.
        apply_chat_template: whether conversations are rendered by the chat template; it must be True or False if the
            tokenizer has one.
        add_bos_token: whether contexts begin with the token that begins a text.
        prefix_token_id: token that stands for an empty context; None for the one that begins a text, or else ends it.
        enable_thinking: passed to chat templates that can switch thinking on and off; --reasoning does more.
        reasoning: whether and how long the model thinks (--reasoning); None for what its template does.
        query_prompt: prompt that an encoder reads before queries, as for the model `encoder`.
        document_prompt: the same before what queries are compared with.
        text_prompt: the same before texts that are compared with others of their kind.
        instruction: instruction of an encoder in the place of the declared one, as for the model `encoder`.
        temperature: divisor of the scores of tokens, of which one is drawn; 0 for the likeliest token, the default.
        top_k: number of the likeliest tokens from which one is drawn; None for all.
        top_p: share of the probability that the likeliest tokens must reach, from which one is drawn; None for all.
        seed: number that distinguishes samples; by default that of the run.
        generation: "checkpoint" to sample as its generation_config.json says, if it does; other options outrank it.
        scoring: way of computing log-likelihoods (see `scoring`), or "auto" for the fastest one that is right.
        engine: options of vLLM's `LLM`, such as tensor_parallel_size, max_model_len or quantization.

    Raises:
        ModelError: a value of the wrong kind.
    """

    model: str = ""
    revision: str | None = None
    dtype: str = "auto"
    trust_remote_code: bool = False
    apply_chat_template: bool | None = None
    add_bos_token: bool | None = None
    prefix_token_id: int | None = None
    enable_thinking: bool | None = None
    reasoning: Reasoning | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None
    text_prompt: str | None = None
    instruction: str | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0
    generation: str = "greedy"
    scoring: str = "auto"
    engine: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        one_of("dtype", self.dtype, DTYPES)
        one_of("scoring", self.scoring, SCORINGS)
        check_prompts(self.prompts, self.instruction)
        check_sampling(self)

    @property
    def prompts(self) -> dict[TextRole, str | None]:
        """The prompts of an encoder by the role of the texts that get them."""
        return {"query": self.query_prompt, "document": self.document_prompt, "": self.text_prompt}

    @property
    def answering(self) -> dict[str, object]:
        """The options that can change an answer beyond rounding."""
        options = {name: getattr(self, name) for name in ANSWERING}
        if options["temperature"] or self.generation != "greedy":
            options |= {"seed": self.seed, "generation": self.generation}
        engine = {name: value for name, value in self.engine.items() if name not in PACE}
        return {name: value for name, value in sorted((options | engine).items()) if value is not None}


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
