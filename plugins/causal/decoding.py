"""Options of sampling for models on this machine, and what records and tables say about it.

temperature=0.7,top_k=40,top_p=0.9,seed=1     texts are sampled; without a temperature, or with 0, they are not
generation=checkpoint                         as the checkpoint's generation_config.json says
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from figeval.errors import ModelError
from figeval.types import JSON

from ..torch_models.checkpoint import Checkpoint, load_json
from ..torch_models.settings import Settings, one_of, parse_integer, parse_number, positive
from .generation.sampling import Draws, Sampling

GENERATION = ("greedy", "checkpoint")
CONFIG = "generation_config.json"
LIBRARY_VALUES: JSON = {
    "temperature": 1.0,
    "top_k": 50,
    "top_p": 1.0,
}  # of transformers, where a config that samples has none
NEUTRAL: JSON = {"min_p": 0, "typical_p": 1, "epsilon_cutoff": 0, "eta_cutoff": 0, "top_h": 1, "num_beams": 1}


def parse_share(name: str, value: object) -> float:
    """Return a number above 0 and at most 1. Raises `ModelError` for anything else."""
    try:
        share = parse_number(name, value)
    except ModelError:
        share = math.nan
    if not 0 < share <= 1:
        raise ModelError(f"{name}={value!s:.80} is not a number above 0 and at most 1")
    return share


CHECKS = {"temperature": parse_number, "top_k": positive, "top_p": parse_share}


class SamplingOptions(Protocol):
    """Settings with the options of sampling."""

    @property
    def temperature(self) -> float | None:
        """Divisor of the scores of tokens; 0 for the likeliest token."""

    @property
    def top_k(self) -> int | None:
        """Number of the likeliest tokens from which one is drawn."""

    @property
    def top_p(self) -> float | None:
        """Share of the probability that the likeliest tokens must reach, from which one is drawn."""

    @property
    def seed(self) -> int:
        """Number that distinguishes samples."""

    @property
    def generation(self) -> str:
        """One of `GENERATION`."""


def check_sampling(options: SamplingOptions) -> None:
    """Turn options that are set into numbers. Raises `ModelError` for a value of the wrong kind."""
    one_of("generation", options.generation, GENERATION)
    object.__setattr__(options, "seed", parse_integer("seed", options.seed))
    check_filters(options)


def check_filters(options: object) -> None:
    """Turn a temperature, `top_k` and `top_p` into numbers. Raises `ModelError` for a value of the wrong kind."""
    for name, check in CHECKS.items():
        value = getattr(options, name)
        if value is not None:
            object.__setattr__(options, name, check(name, value))


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingSettings(Settings):
    """Settings of models that write.

    Attributes:
        temperature: divisor of the scores of tokens, of which one is drawn; 0 for the likeliest token, the default.
        top_k: number of the likeliest tokens from which one is drawn; None for all.
        top_p: share of the probability that the likeliest tokens must reach, from which one is drawn; None for all.
        seed: number that distinguishes samples; by default that of the run.
        generation: "checkpoint" to sample as its generation_config.json says, if it does; other options outrank it.

    Raises:
        ModelError: a value of the wrong kind.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0
    generation: str = "greedy"

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        check_sampling(self)


@dataclass(frozen=True, slots=True)
class Decoding:
    """The decoding of a model.

    Attributes:
        sampling: how texts are sampled; None if they are not.
        ignores_config: whether the checkpoint's generation config samples, and is not followed.
    """

    sampling: Sampling | None = None
    ignores_config: bool = False

    def draws(self, prompt: Sequence[int], sample: int = 0) -> Draws | None:
        """Return the draws of one of several texts after a prompt; None for the likeliest tokens."""
        return None if self.sampling is None else self.sampling.draws(prompt, sample)

    def record(self, dtype: str, device: str) -> JSON:
        """Return what a record says about the sampling of texts; `warnings` are lines below a table.

        Args:
            dtype: precision of the passes.
            device: where they were computed.
        """
        if self.sampling is not None:
            note = f"texts were sampled ({self.sampling})"
            if (dtype, device) != ("float32", "cpu"):
                note += f"; with {dtype} on {device}, other batches, resuming and workers may change some"
            return {"sampling": self.sampling.describe(), "warnings": [note]}
        hint = f"{CONFIG} asks for sampled texts, but none was sampled; --model_args generation=checkpoint follows it"
        return {"warnings": [hint]} if self.ignores_config else {}

    def add_to(self, opening: JSON, dtype: str, device: str) -> JSON:
        """Return what a record says about prompts, with the `record`; the warnings of both stay."""
        record = self.record(dtype, device)
        return opening | record | {"warnings": [*opening.get("warnings", ()), *record.get("warnings", ())]}


def decoding_of(options: SamplingOptions, checkpoint: Checkpoint, declared: SamplingOptions | None = None) -> Decoding:
    """Return how a model decodes.

    Args:
        options: those that the user has set.
        checkpoint: the model.
        declared: the same, with what the checkpoint declares where the user has set nothing.

    Raises:
        ModelError: `top_k` or `top_p` without a temperature, or a generation config that cannot be followed.
    """
    set_options = {name: getattr(options, name) for name in CHECKS if getattr(options, name) is not None}
    values = {name: getattr(declared or options, name) for name in CHECKS}
    values |= (of_config(checkpoint) if options.generation == "checkpoint" else {}) | set_options
    if values["temperature"]:
        return Decoding(Sampling(**values, seed=options.seed))
    refuse_filters(set_options)
    return Decoding(None, options.generation != "checkpoint" and samples(checkpoint))


def samples(checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint's generation config samples; transformers ignores one that it cannot read."""
    try:
        return bool((load_json(checkpoint.path(CONFIG)) or {}).get("do_sample"))
    except ModelError:
        return False


def of_config(checkpoint: Checkpoint) -> JSON:
    """Return the options with which a checkpoint's generation config samples; empty if it does not.

    Raises:
        ModelError: it cannot be read, samples in a way that is not here, or has an option of the wrong kind.
    """
    config = load_json(checkpoint.path(CONFIG)) or {}
    if not config.get("do_sample"):
        return {}
    if unsupported := [name for name, neutral in NEUTRAL.items() if config.get(name) not in (None, neutral)]:
        raise ModelError(
            f"{CONFIG} of {checkpoint.model!r} samples with {', '.join(unsupported)}, which figeval does not; "
            "give temperature=…, top_k=… and top_p=… instead of generation=checkpoint"
        )
    values = {name: value if config.get(name) is None else config[name] for name, value in LIBRARY_VALUES.items()}
    values["top_k"] = None if values["top_k"] == 0 else values["top_k"]  # 0 stands for all
    try:
        return {name: None if values[name] is None else check(name, values[name]) for name, check in CHECKS.items()}
    except ModelError as error:
        raise ModelError(f"{CONFIG} of {checkpoint.model!r}: {error}") from error


def refuse_filters(options: Collection[str]) -> None:
    """Raise `ModelError` if `top_k` or `top_p` is among the options of texts that are not sampled."""
    for name in ("top_k", "top_p"):
        if name in options:
            raise ModelError(f"{name} is for sampled texts; add temperature=…, such as 0.7, or leave {name} out")


def refuse_beams(num_beams: int | None) -> None:
    """Raise `ModelError` for a beam search where texts are sampled."""
    if num_beams is not None and num_beams > 1:
        raise ModelError(f"num_beams={num_beams} and sampling exclude each other; leave out one of them")
