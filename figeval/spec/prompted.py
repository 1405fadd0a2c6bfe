"""The second face of an example: the texts that prompts show where these differ from what other models read.

Both faces must have the same shape (as many options, a text of the same length), so that an answer to the one can be
scored on the other: the index of an option and the place of a span mean the same in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from figeval.errors import DataError
from figeval.types import Example, JointExample, SpanExample


def with_prompted(example: Example, values: Mapping[str, Any], where: str) -> Example:
    """Return the example with `prompted` set to a copy whose fields have these values.

    Raises:
        DataError: a value is no text or list of texts, or has another shape than the field in whose place it stands.
    """
    changes = {
        name: _alike(getattr(example, name), value, f"{where}, prompt field {name!r}")
        for name, value in values.items()
        if name != "parts"
    }
    if isinstance(example, SpanExample) and len(changes.get("text", example.text)) != len(example.text):
        raise DataError(f"{where}, prompt field 'text': it is not as long as the field, so places would be others")
    if isinstance(example, JointExample):
        parts = _parts(example, changes.get("query", example.query), values.get("parts"), where)
        changes["parts"] = tuple(part.prompted for part in parts)
        example = replace(example, parts=parts)
    return replace(example, prompted=replace(example, **changes))


def _alike(field: Any, value: Any, where: str) -> Any:
    """Return the value as the field's type holds it."""
    if isinstance(field, str):
        if not isinstance(value, str):
            raise DataError(f"{where}: {value!r:.80} is not a string")
        return value
    if isinstance(field, Mapping):
        if not isinstance(value, Mapping) or set(value) != set(field):
            raise DataError(f"{where}: expected a mapping with the keys {', '.join(field)}, found {value!r:.80}")
        return {key: _alike(field[key], value[key], f"{where}, key {key!r}") for key in field}
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(one, str) for one in value):
        raise DataError(f"{where}: expected a list of texts, found {value!r:.80}")
    if len(value) != len(field):
        raise DataError(f"{where}: {len(value)} texts where the field has {len(field)}")
    return tuple(value)


def _parts(example: JointExample, query: str, values: Any, where: str) -> tuple[SpanExample, ...]:
    """Return the parts of a joint example, each with its second face."""
    texts: Sequence[Any] = [{} for _ in example.parts] if values is None else values
    mappings = isinstance(texts, Sequence) and all(isinstance(text, Mapping) for text in texts)
    if not mappings or len(texts) != len(example.parts):
        raise DataError(f"{where}, prompt field 'parts': expected {len(example.parts)} mappings, found {values!r:.80}")
    made = []
    for part, changed in zip(example.parts, texts, strict=True):
        given = {name: changed[name] for name in ("given", "known") if name in changed}
        face = with_prompted(part, {"text": query, **given}, where)
        assert isinstance(face, SpanExample)
        made.append(face)
    return tuple(made)
