"""Options of sampling for models on this machine, and what records and tables say about it.

temperature=0.7,top_k=40,top_p=0.9,seed=1     texts are sampled; without a temperature, or with 0, they are not
generation=checkpoint                         as the checkpoint's generation_config.json says
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from figeval.errors import ModelError
from figeval.types import JSON

from ..torch_models.checkpoint import Checkpoint, load_json
from ..torch_models.settings import Settings, one_of, parse_integer, parse_number, positive
from .generation.sampling import Sampling

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


def sampling_of(
    options: SamplingOptions, checkpoint: Checkpoint, declared: SamplingOptions | None = None
) -> Sampling | None:
    """Return how a model samples; None if it does not.

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
        return Sampling(**values, seed=options.seed)
    for name in ("top_k", "top_p"):
        if name in set_options:
            raise ModelError(f"{name} is for sampled texts; add temperature=…, such as 0.7, or leave {name} out")
    return None


def of_config(checkpoint: Checkpoint) -> JSON:
    """Return the options with which a checkpoint's generation config samples; empty if it does not.

    Raises:
        ModelError: it samples in a way that is not here, or an option is none.
    """
    config = load_json(checkpoint.path(CONFIG)) or {}
    if not config.get("do_sample"):
        return {}
    if unsupported := [name for name, neutral in NEUTRAL.items() if config.get(name) not in (None, neutral)]:
        raise ModelError(
            f"{CONFIG} of {checkpoint.model!r} samples with {', '.join(unsupported)}, which figeval does not; "
            "give temperature=…, top_k=… and top_p=… instead of generation=checkpoint"
        )
    values = {name: usual if config.get(name) is None else config[name] for name, usual in LIBRARY_VALUES.items()}
    values["top_k"] = values["top_k"] or None  # 0 stands for all
    try:
        return {name: None if values[name] is None else check(name, values[name]) for name, check in CHECKS.items()}
    except ModelError as error:
        raise ModelError(f"{CONFIG} of {checkpoint.model!r}: {error}") from error


def refuse_beams(num_beams: int | None) -> None:
    """Raise `ModelError` for a beam search where texts are sampled."""
    if num_beams is not None and num_beams > 1:
        raise ModelError(f"num_beams={num_beams} and sampling exclude each other; leave out one of them")


def rounding_of(dtype: str, device: str) -> str:
    """Return a precision and a device whose scores depend on the batch; "" if they do so in the last bits only."""
    return "" if (dtype, device) == ("float32", "cpu") else f"{dtype} on {device}"


def sampling_record(sampling: Sampling | None, checkpoint: Checkpoint, rounding: str) -> JSON:
    """Return what a record says about the sampling of texts; `warnings` are the lines below a table.

    Args:
        sampling: how texts were sampled; None if they were not.
        checkpoint: the model.
        rounding: precision and device if scores depend on the batch, such as "bfloat16 on cuda"; "" otherwise.
    """
    if sampling is not None:
        varies = f"; with {rounding}, other batches, resuming and workers may change some" if rounding else ""
        return {"sampling": sampling.describe(), "warnings": [f"texts were sampled ({sampling}){varies}"]}
    config = load_json(checkpoint.path(CONFIG)) or {}
    hint = f"{CONFIG} asks for sampled texts, but none was sampled; --model_args generation=checkpoint follows it"
    return {"warnings": [hint]} if config.get("do_sample") else {}
