"""Types of what figeval reads back from a record: settings, flags, facts about a model and a run, and intervals.

A record has the limits of an interval, and in words its method or the reason why there is none.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import cache, partial
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    GetCoreSchemaHandler,
    GetPydanticSchema,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
)
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypedDict

from figeval.io.validation import first_problem
from figeval.types import Interval

# The settings of retrieved examples that figeval reads back.
_Retrieved = TypedDict(
    "_Retrieved", {"add": str, "from": str, "k": int, "retriever": str, "options": dict[str, Any]}, total=False
)


class _ShotSource(TypedDict, total=False):
    task: str
    labels: dict[str, str]


class _ReadAgain(TypedDict, total=False):
    """Settings of a task and flags of a run that figeval reads back from a record; there may be others."""

    augment: _Retrieved
    calibration: list[str]
    constrain: bool
    fewshot_from: str | _ShotSource  # likewise
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
    samples: int
    seed: int
    settings: dict[str, str | int | float]
    shots: str
    system_as_user: bool
    system_instruction: str
    tasks: list[str]
    signatures: dict[str, str]
    verbalizer: dict[str, list[str]]


class _Described(TypedDict, total=False):
    """Parts of what a model says about itself that figeval reads back; there may be others."""

    about: dict[str, Any] | None
    fell_back_because: str
    sampling: dict[str, Any] | None
    scoring: str
    warnings: list[str]


class _Origin(TypedDict, total=False):
    """Parts of a run's origin that figeval reads back; there may be others."""

    git: dict[str, Any] | None
    hardware: dict[str, Any] | None
    packages: dict[str, str | None] | None


@cache
def _adapter(mapping_type: Any) -> TypeAdapter[Any]:
    """Return the validator of a type, built when the first record is made or read."""
    return TypeAdapter(mapping_type)


def _check_values(stored: dict[str, Any], mapping_type: Hashable) -> dict[str, Any]:
    """Return a mapping unchanged. Raises `ValueError` if a key of `mapping_type` has a value of another type."""
    try:
        _adapter(mapping_type).validate_python(stored)
    except ValidationError as error:
        raise ValueError(first_problem(error)) from error
    return stored


def readable_description(described: dict[str, Any]) -> dict[str, Any]:
    """Return what a model says about itself, or a warning alone if no reader could take it back from a record."""
    try:
        return _check_values(described, _Described)
    except ValueError as error:
        return {"warnings": [f"the model's description is left out: {error}"]}


Settings = Annotated[dict[str, Any], AfterValidator(partial(_check_values, mapping_type=_ReadAgain))]
StoredDescription = Annotated[dict[str, Any], AfterValidator(partial(_check_values, mapping_type=_Described))]
StoredOrigin = Annotated[dict[str, Any], AfterValidator(partial(_check_values, mapping_type=_Origin))]


# Reasons why there is no interval.
CHOSEN_ON_TEST = "chosen on test"  # of a maximum over checkpoints if its examples are unknown
UNEQUAL_ANSWERS = "not the same examples answered"  # of a mean over seeds


def _read_interval(stored: object, read_words: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Interval:
    """Return the interval with the limits that were read before it."""
    low, high, stderr = (info.data.get(name) for name in ("low", "high", "stderr"))
    if isinstance(stored, Interval):
        return replace(stored, low=low, high=high, stderr=stderr)
    return Interval.of_words(read_words(stored), low, high, stderr)


def _interval_schema(_source: type[Any], _handler: GetCoreSchemaHandler) -> CoreSchema:
    """Return the schema of words that are an `Interval` in Python."""
    words = core_schema.to_string_ser_schema(when_used="always")
    return core_schema.with_info_wrap_validator_function(_read_interval, core_schema.str_schema(), serialization=words)


# A field of a record; its fields `low`, `high` and, if there is one, `stderr` stand before it.
StoredInterval = Annotated[Interval, GetPydanticSchema(_interval_schema)]
