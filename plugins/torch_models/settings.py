"""Options of models from `--model_args`, checked before anything heavy is imported or loaded.

`Settings` holds the options that all torch models share. `Configured` turns a settings class into a backend factory.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, SupportsFloat, TypeVar

from figeval.errors import ModelError
from figeval.io.text import near, whole_number

DTYPES = ("float32", "float16", "bfloat16", "auto")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options that all torch models share.

    Attributes:
        revision: branch, tag or commit of a model from the hub; None for its main branch.
        base: folder or hub id of the model that an adapter belongs to; None for the one that the adapter names.
        max_length: longest input in tokens, including special ones; None for what the checkpoint declares.
        dtype: precision of the loaded weights; "auto" is the stored one, or float32 on a CPU.
        device: device to use; None for the first available of cuda, mps and cpu.
        batch_size: rows per forward pass, or "auto" for as many as fit a token budget.
        trust_remote_code: whether code that comes with the checkpoint may be executed.

    Raises:
        ModelError: a value of the wrong kind.
    """

    model: str = ""
    revision: str | None = None
    base: str | None = None
    max_length: int | None = None
    dtype: str = "float32"
    device: str | None = None
    batch_size: int | str = "auto"
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        one_of("dtype", self.dtype, DTYPES)
        if self.max_length is not None:
            object.__setattr__(self, "max_length", positive("max_length", self.max_length))
        if self.batch_size != "auto":
            object.__setattr__(self, "batch_size", positive("batch_size", self.batch_size))

    @property
    def rows(self) -> int | None:
        """Fixed number of rows per forward pass, or None if a token budget decides."""
        return None if self.batch_size == "auto" else int(self.batch_size)


def positive(name: str, value: object) -> int:
    """Return a positive integer, given as a number or in digits. Raises `ModelError` for anything else."""
    number = whole_number(str(value))
    if not number:
        raise ModelError(f"{name}={value!s:.80} is not a positive integer")
    return number


def parse_number(name: str, value: object) -> float:
    """Return a finite number of at least 0. Raises `ModelError` for anything else."""
    try:
        number = float(value) if isinstance(value, SupportsFloat | str) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not 0 <= number < math.inf:
        raise ModelError(f"{name}={value} is not a number of at least 0")
    return number


def parse_positive(name: str, value: object) -> float:
    """Return a finite number above 0. Raises `ModelError` for anything else."""
    number = parse_number(name, value)
    if not number:
        raise ModelError(f"{name}={value} is not above 0")
    return number


def parse_integer(name: str, value: object) -> int:
    """Return an integer of at least 0. Raises `ModelError` for anything else."""
    return 0 if str(value) == "0" else positive(name, value)


def one_of(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise `ModelError` unless `value` is one of the allowed words, which may include "" for a default."""
    if value not in choices:
        words = tuple(filter(None, choices))
        raise ModelError(f"{name}={value} is not one of {', '.join(words)}{near(str(value), words)}")


S = TypeVar("S")
B = TypeVar("B")


class Configured(Generic[S, B]):
    """A backend factory whose options are the fields of a settings class, e.g. `Configured(PairSettings, open_pairs)`.

    It is called as `factory(model, **options)`; its signature names every option, so that an unknown one is rejected by
    name. `constrains_answers` and `answers_in_parallel` are attributes that a factory declares
    (`figeval.models.capabilities.Generates`).
    """

    def __init__(
        self,
        settings: Callable[..., S],
        build: Callable[[S], B],
        *,
        constrains_answers: bool = False,
        answers_in_parallel: bool = False,
    ) -> None:
        self.settings = settings
        self.build = build
        self.constrains_answers = constrains_answers
        self.answers_in_parallel = answers_in_parallel
        self.__name__ = build.__name__
        self.__doc__ = build.__doc__
        # The signature of `__call__`: first the model, then keyword options in place of `**options`.
        options = [
            parameter for parameter in inspect.signature(settings).parameters.values() if parameter.name != "model"
        ]
        model = inspect.Parameter("model", inspect.Parameter.POSITIONAL_OR_KEYWORD, default="")
        by_name = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in options]
        self.__signature__ = inspect.Signature([model, *by_name])

    def __call__(self, model: str = "", **options: Any) -> B:
        return self.build(self.settings(model=model, **options))
