"""Fields of examples: the values that a task file may give them, with documentation, checks and a JSON Schema.

An example class declares its fields with `typing.Annotated`; a field with a default is optional in a task file:

    query: Annotated[str, TextField("The text that the question is about.")]
    gold: Annotated[int | None, IndexField("The right option; null if it is hidden.", of="options")]

For another kind of field, derive from `Field` and override `read`.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol, TypeVar, get_type_hints

from figeval.errors import DataError
from figeval.task_types.field_values import index, known_texts, text, texts
from figeval.types import JSON, NO_SPAN, Example, Span

E = TypeVar("E", bound=Example)
TEXT: JSON = {"type": "string"}
TEXTS: JSON = {"type": "array", "items": TEXT}
INDEX: JSON = {"type": "integer", "minimum": 0}


class Definition(Protocol):
    """Part of a task definition (`figeval.TaskSpec`) that a task type may use."""

    @property
    def name(self) -> str:
        """Name of the task."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the task in order, the positive one first."""

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages of the task, one or several."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """Expressions of a row, by field."""

    @property
    def prompt_fields(self) -> Mapping[str, Any]:
        """Expressions that prompts show instead of a field, by field."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings of routes by name."""

    @property
    def corpus(self) -> Any:
        """Source of the documents that all rows rank, or None."""


@dataclass(frozen=True, slots=True)
class CandidateCorpus:
    """Documents that all examples of a task rank: their texts, and their places by id."""

    texts: tuple[str, ...]
    places: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RowContext:
    """State of a row while it is read: its place, the values from the task file, and the fields read so far.

    Attributes:
        task: task that the row belongs to.
        where: description of the row for errors: task, number and source.
        values: unchecked values, by field.
        common: id, meta, cluster, group and language, which every example has.
        corpus: function that reads the documents of a task whose rows share them, or None.
        read: checked values, by field; fields are read in the order of the example class.
        field: field that is being read.
    """

    task: Definition
    where: str
    values: Mapping[str, Any]
    common: Mapping[str, Any]
    corpus: Callable[[], CandidateCorpus] | None = None
    read: Mapping[str, Any] = field(default_factory=dict)
    field: str = ""

    def error(self, message: str) -> DataError:
        """Return an error that names row and field, for the caller to raise."""
        return DataError(f"{self.where}, field {self.field!r}: {message}")

    def at(self, name: str) -> RowContext:
        """Return the same row at another field, or at a part of a field (`inputs.title`)."""
        return dataclasses.replace(self, field=name)


@dataclass(frozen=True, slots=True)
class Field(ABC):
    """Field of an example.

    Attributes:
        doc: meaning of the field, in a sentence.
        shown: whether prompts may show the field with another text (`prompt_fields`).
        of: name of the field that this one refers to, e.g. by indexes.
    """

    doc: str
    shown: bool = dataclasses.field(default=False, kw_only=True)
    of: str = dataclasses.field(default="", kw_only=True)

    @abstractmethod
    def read(self, value: Any, row: RowContext) -> Any:
        """Return the value for the example. Raises `DataError`, made by `row.error`, if it is invalid."""

    def problem(self, value: Any, example: Any) -> str:  # noqa: ARG002 - for fields that check something
        """Return what is wrong with the value in an example that was made in Python, or an empty text."""
        return ""

    def prompted(self, value: Any, read: Any, where: str) -> Any:
        """Return the value of a prompt field that replaces `read`.

        Both must have the same shape, so that an answer to one can be scored on the other. By default, the value must
        have the same type; only fields that are `shown` are asked.

        Raises:
            DataError: the value has another shape; the message begins with `where`.
        """
        if type(value) is not type(read):
            raise DataError(f"{where}: {value!r:.80} is not of the type of the field, {type(read).__name__}")
        return value

    def replaced(self, value: Any, text: str) -> Any:  # noqa: ARG002 - for fields with texts
        """Return the value with each of its texts replaced by `text`; a value without texts is returned unchanged."""
        return value

    def reordered(self, value: Any, order: Sequence[int]) -> Any:  # noqa: ARG002 - for lists, and fields `of` a list
        """Return the value after the list in this field, or in the field `of`, was put in another order.

        `order[p]` is the former place of what is at place p now.
        """
        return value

    def schema(self) -> JSON:
        """Return a JSON Schema of the values that `read` accepts."""
        return {}


@dataclass(frozen=True, slots=True)
class TextField(Field):
    """String. With `fixed_length`, the text in prompts must have the same length, so that positions stay valid."""

    shown: bool = dataclasses.field(default=True, kw_only=True)
    fixed_length: bool = dataclasses.field(default=False, kw_only=True)

    def problem(self, value: Any, _example: Any) -> str:  # noqa: D102
        return "" if isinstance(value, str) else f"{value!r:.80} is not a string"

    def read(self, value: Any, row: RowContext) -> str:  # noqa: D102
        return text(value, row)

    def prompted(self, value: Any, read: str, where: str) -> str:  # noqa: D102
        if not isinstance(value, str):
            raise DataError(f"{where}: {value!r:.80} is not a string")
        if self.fixed_length and len(value) != len(read):
            raise DataError(f"{where}: the text must be exactly as long as the field, or positions would not match")
        return value

    def replaced(self, value: str | None, text: str) -> str | None:  # noqa: D102
        return None if value is None else text

    def schema(self) -> JSON:  # noqa: D102
        return TEXT


@dataclass(frozen=True, slots=True)
class OptionalTextField(TextField):
    """String or null."""

    shown: bool = dataclasses.field(default=False, kw_only=True)

    def problem(self, value: Any, example: Any) -> str:  # noqa: D102
        return "" if value is None else super(OptionalTextField, self).problem(value, example)

    def read(self, value: Any, row: RowContext) -> str | None:  # type: ignore[override]  # noqa: D102
        return None if value is None else text(value, row)

    def schema(self) -> JSON:  # noqa: D102
        return {"type": ["string", "null"]}


@dataclass(frozen=True, slots=True)
class TextsField(Field):
    """List of strings.

    `empty` is the error message for an empty list, `blank` that for a text of white space; either is empty if allowed.
    """

    shown: bool = dataclasses.field(default=True, kw_only=True)
    empty: str = dataclasses.field(default="", kw_only=True)
    blank: str = dataclasses.field(default="", kw_only=True)

    def problem(self, value: Any, _example: Any) -> str:  # noqa: D102
        if isinstance(value, tuple | list) and all(isinstance(text, str) for text in value):
            return "" if value else self.empty
        return f"{value!r:.80} is not a tuple of strings"

    def read(self, value: Any, row: RowContext) -> tuple[str, ...]:  # noqa: D102
        read = texts(value, row)
        if self.empty and not read:
            raise row.error(self.empty)
        if self.blank and not all(text.strip() for text in read):
            raise row.error(self.blank)
        return read

    def prompted(self, value: Any, read: Sequence[str], where: str) -> tuple[str, ...]:  # noqa: D102
        if (
            isinstance(value, str)
            or not isinstance(value, Sequence)
            or not all(isinstance(text, str) for text in value)
        ):
            raise DataError(f"{where}: expected a list of texts, found {value!r:.80}")
        if len(value) != len(read):
            raise DataError(f"{where}: {len(value)} texts where the field has {len(read)}")
        return tuple(value)

    def replaced(self, value: Sequence[str], text: str) -> tuple[str, ...]:  # noqa: D102
        return (text,) * len(value)

    def reordered(self, value: Sequence[str], order: Sequence[int]) -> tuple[str, ...]:  # noqa: D102
        return tuple(value[index] for index in order)

    def schema(self) -> JSON:  # noqa: D102
        return {**TEXTS, "minItems": 1} if self.empty else TEXTS


@dataclass(frozen=True, slots=True)
class NamedTextsField(Field):
    """Mapping of names to texts or lists of texts."""

    shown: bool = dataclasses.field(default=True, kw_only=True)

    def read(self, value: Any, row: RowContext) -> Mapping[str, str | tuple[str, ...]]:  # noqa: D102
        if not isinstance(value, Mapping):
            raise row.error(f"expected a mapping of names to texts, found {value!r:.80}")
        at = ((name, part, row.at(f"{row.field}.{name}")) for name, part in value.items())
        return {name: part if isinstance(part, str) else texts(part, part_row) for name, part, part_row in at}

    def prompted(self, value: Any, read: Mapping[str, Any], where: str) -> Mapping[str, Any]:  # noqa: D102
        if not isinstance(value, Mapping) or set(value) != set(read):
            raise DataError(f"{where}: expected a mapping with the keys {', '.join(read)}, found {value!r:.80}")
        kinds = {key: TextField("") if isinstance(part, str) else TextsField("") for key, part in read.items()}
        return {key: kinds[key].prompted(value[key], part, f"{where}, key {key!r}") for key, part in read.items()}

    def replaced(self, value: Mapping[str, Any], text: str) -> Mapping[str, Any]:  # noqa: D102
        return {key: text if isinstance(part, str) else (text,) * len(part) for key, part in value.items()}

    def schema(self) -> JSON:  # noqa: D102
        return {"type": "object", "additionalProperties": {"anyOf": [TEXT, TEXTS]}}


@dataclass(frozen=True, slots=True)
class ColumnsField(Field):
    """List of mappings of names to values, one for each text of the field `of`; null values are dropped."""

    of: str = dataclasses.field(kw_only=True)

    def read(self, value: Any, row: RowContext) -> tuple[Mapping[str, str], ...]:  # noqa: D102
        if not isinstance(value, Sequence) or not all(isinstance(column, Mapping) for column in value):
            raise row.error(f"expected a list of mappings, found {value!r:.80}")
        if len(value) != len(row.read[self.of]):
            raise row.error(f"{len(value)} mappings for {len(row.read[self.of])} {self.of}")
        return tuple(known_texts(columns) for columns in value)

    def reordered(self, value: Sequence[Any], order: Sequence[int]) -> tuple[Any, ...]:  # noqa: D102
        return tuple(value[index] for index in order) if value else ()

    def schema(self) -> JSON:  # noqa: D102
        return {"type": "array", "items": {"type": "object"}}


def index_problem(value: Any, n: int, of: str) -> str:
    """Return what is wrong with an index into n values, or an empty text."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < n:
        return ""
    return f"{value!r:.80} is not an index of its {n} {of}"


@dataclass(frozen=True, slots=True)
class IndexField(Field):
    """Index into the field `of`, from 0, or null if the right one is hidden."""

    of: str = dataclasses.field(kw_only=True)

    def read(self, value: Any, row: RowContext) -> int | None:  # noqa: D102
        return None if value is None else index(value, self.of, row)

    def problem(self, value: Any, example: Any) -> str:  # noqa: D102
        return "" if value is None else index_problem(value, len(getattr(example, self.of)), self.of)

    def reordered(self, value: int | None, order: Sequence[int]) -> int | None:  # noqa: D102
        return None if value is None else order.index(value)

    def schema(self) -> JSON:  # noqa: D102
        return {"anyOf": [INDEX, {"type": "null"}]}


@dataclass(frozen=True, slots=True)
class IndexesField(Field):
    """List of indexes into the field `of`, from 0."""

    of: str = dataclasses.field(kw_only=True)

    def read(self, value: Any, row: RowContext) -> frozenset[int]:  # noqa: D102
        if isinstance(value, str) or not isinstance(value, Sequence | Set):
            raise row.error(f"expected a list of indexes, found {value!r:.80}")
        return frozenset(index(element, self.of, row) for element in value)

    def problem(self, value: Any, example: Any) -> str:  # noqa: D102
        return next(
            filter(None, (index_problem(index, len(getattr(example, self.of)), self.of) for index in value)), ""
        )

    def reordered(self, value: Set[int], order: Sequence[int]) -> frozenset[int]:  # noqa: D102
        return frozenset(map(order.index, value))

    def schema(self) -> JSON:  # noqa: D102
        return {"type": "array", "items": INDEX}


@dataclass(frozen=True, slots=True)
class LabelField(Field):
    """One of the task's labels, or null if the right one is hidden."""

    def read(self, value: Any, row: RowContext) -> str | None:  # noqa: D102
        if value is not None and value not in row.task.labels:
            cure = "; write `… | string`" if not isinstance(value, str) and str(value) in row.task.labels else ""
            raise row.error(f"{value!r:.200} is not among the labels {', '.join(row.task.labels)}{cure}")
        label: str | None = value
        return label

    def schema(self) -> JSON:  # noqa: D102
        return {"type": ["string", "null"]}


@dataclass(frozen=True, slots=True)
class SpanField(Field):
    """Span of the field `of`, given by its words (their first occurrence) or as [start, end] in characters.

    '' and [] mean that no span of the text is right, null means that the right one is hidden.
    """

    of: str = dataclasses.field(kw_only=True)

    def read(self, value: Any, row: RowContext) -> Span | None:  # noqa: D102
        if value is None:
            return None
        if value == "":
            return NO_SPAN
        text = row.read[self.of]
        if isinstance(value, str):
            start = text.find(value) if value.strip() else -1
            if start < 0:
                problem = "does not occur in the text" if value.strip() else "is blank; write [] if no span is right"
                raise row.error(f"{value!r:.80} {problem}")
            return Span(start, start + len(value))
        match value:
            case []:
                return NO_SPAN
            case [int(start), int(end)] if 0 <= start < end <= len(text):
                return Span(start, end)
        raise row.error(f"{value!r:.80} is not a span [start, end] of a text of {len(text)} characters")

    def schema(self) -> JSON:  # noqa: D102
        return {"anyOf": [{"type": ["string", "null"]}, {"type": "array", "items": INDEX, "maxItems": 2}]}


@dataclass(frozen=True, slots=True)
class PositiveField(Field):
    """Positive number."""

    def read(self, value: Any, row: RowContext) -> float:  # noqa: D102
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise row.error(f"{value!r:.200} is not a positive number")
        return float(value)

    def schema(self) -> JSON:  # noqa: D102
        return {"type": "number", "exclusiveMinimum": 0}


# ---- the fields of a class -------------------------------------------------------------------------------------------


@cache
def fields_of(example: Any) -> dict[str, Field]:
    """Return the fields that an example class declares, by name and in order."""
    hints = get_type_hints(example, include_extras=True)
    declared = (
        (field_of_class.name, getattr(hints[field_of_class.name], "__metadata__", ()))
        for field_of_class in dataclasses.fields(example)
    )
    return {name: kind for name, metadata in declared for kind in metadata if isinstance(kind, Field)}


@cache
def required_fields(example: Any) -> frozenset[str]:
    """Return the names of the declared fields that have no default."""
    missing = dataclasses.MISSING
    return frozenset(
        field_of_class.name
        for field_of_class in dataclasses.fields(example)
        if field_of_class.name in fields_of(example)
        and field_of_class.default is missing
        and field_of_class.default_factory is missing
    )


def read_fields(example: Any, row: RowContext) -> dict[str, Any]:
    """Return the checked values of the fields that the row has, by name.

    Raises:
        DataError: a value is invalid; the message names row and field.
    """
    read: dict[str, Any] = {}
    for name, kind in fields_of(example).items():
        if name in row.values:
            read[name] = kind.read(row.values[name], dataclasses.replace(row, read=read, field=name))
    return read


def reorder(example: E, name: str, order: Sequence[int]) -> E:
    """Return an example with the list in one of its fields in another order, and with the fields that refer to it.

    Args:
        example: example of any task type.
        name: field with a list.
        order: former places; `order[p]` is the former place of what is at place p now.
    """
    example_class: Any = type(example)
    affected = {key: kind for key, kind in fields_of(example_class).items() if name in (key, kind.of)}
    changes: dict[str, Any] = {key: kind.reordered(getattr(example, key), order) for key, kind in affected.items()}
    if example.prompted is not None:
        changes["prompted"] = reorder(example.prompted, name, order)
    return dataclasses.replace(example, **changes)
