"""An interval as files store it: its limits, and in words its method or the reason why there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetPydanticSchema, ValidationInfo, ValidatorFunctionWrapHandler
from pydantic_core import CoreSchema, core_schema

from figeval.types import Interval

# Reasons why there is no interval.
CHOSEN_ON_TEST = "chosen on test"  # of a maximum over checkpoints if its examples are unknown
UNEQUAL_ANSWERS = "not the same examples answered"  # of a mean over seeds


def _read(stored: object, read_words: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Interval:
    """Return the interval with the limits that were read before it."""
    low, high, stderr = (info.data.get(name) for name in ("low", "high", "stderr"))
    if isinstance(stored, Interval):
        return replace(stored, low=low, high=high, stderr=stderr)
    return Interval.of_words(read_words(stored), low, high, stderr)


def _schema(_source: type[Any], _handler: GetCoreSchemaHandler) -> CoreSchema:
    """Return the schema of words that are an `Interval` in Python."""
    words = core_schema.to_string_ser_schema(when_used="always")
    return core_schema.with_info_wrap_validator_function(_read, core_schema.str_schema(), serialization=words)


# A field of a record; its fields `low`, `high` and, if there is one, `stderr` stand before it.
StoredInterval = Annotated[Interval, GetPydanticSchema(_schema)]
