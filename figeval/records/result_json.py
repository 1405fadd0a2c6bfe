"""Results of several parts as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from figeval.records.schema import ScoreRecord
from figeval.types import Score


def to_json(value: Any) -> Any:
    """Return dataclasses as mappings, as `asdict` does, with the interval of a score as files have it."""
    if isinstance(value, Score):
        return ScoreRecord.of(value).model_dump(exclude={"sd", "seen"})
    if to_dict := getattr(value, "to_dict", None):
        return to_dict()
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return type(value)(map(to_json, value))
    return {key: to_json(item) for key, item in value.items()} if isinstance(value, Mapping) else value
