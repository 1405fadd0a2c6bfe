"""Types of the settings, flags and facts about the origin of a run that figeval reads back from a record."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from figeval.io.validation import first_problem

# The settings of retrieved examples that figeval reads back.
_Retrieved = TypedDict("_Retrieved", {"add": str, "from": str, "k": int, "retriever": str}, total=False)


class _ReadAgain(TypedDict, total=False):
    """Settings of a task and flags of a run that figeval reads back from a record; there may be others."""

    augment: _Retrieved
    calibration: list[str]
    constrain: bool
    fewshot_sampler: str | _Retrieved  # a run stores the flag, a task the settings
    labels: list[str]
    language: str
    languages: list[str]
    metric_arguments: dict[str, dict[str, Any]]
    metrics: list[str]
    num_fewshot: int
    orders: str
    reasoning: str
    remark: str
    routes: dict[str, str]
    seed: int
    shots: str
    system_instruction: str
    tasks: list[str]
    verbalizer: dict[str, list[str]]


@lru_cache(maxsize=1)
def _read_again() -> TypeAdapter[_ReadAgain]:
    """Return the validator for these settings, built when the first record is made or read."""
    return TypeAdapter(_ReadAgain)


def _readable(stored: dict[str, Any]) -> dict[str, Any]:
    """Return settings or flags unchanged. Raises `ValueError` if one that figeval reads back has another type."""
    try:
        _read_again().validate_python(stored)
    except ValidationError as error:
        raise ValueError(first_problem(error)) from error
    return stored


class _Origin(TypedDict, total=False):
    """Parts of a run's origin that figeval reads back; there may be others."""

    git: dict[str, Any] | None
    hardware: dict[str, Any] | None
    packages: dict[str, Any] | None


@lru_cache(maxsize=1)
def _origin() -> TypeAdapter[_Origin]:
    """Return the validator for the origin, built when the first record is made or read."""
    return TypeAdapter(_Origin)


def known_origin(stored: dict[str, Any]) -> dict[str, Any]:
    """Return a run's origin unchanged. Raises `ValueError` if a part that figeval reads back has another type."""
    try:
        _origin().validate_python(stored)
    except ValidationError as error:
        raise ValueError(first_problem(error)) from error
    return stored


Settings = Annotated[dict[str, Any], AfterValidator(_readable)]
