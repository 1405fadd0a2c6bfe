"""Survey of a task's examples in one pass before any model is loaded: count, fingerprint, ids, and which are used."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from figeval.errors import DataError
from figeval.spec.subset import WHOLE, Drawing, Portion, Subset, short_digest
from figeval.types import FINGERPRINTED_AS, Example


@dataclass(frozen=True, slots=True)
class Survey:
    """Result of the first pass over all examples of a task."""

    n: int
    first: Example
    subset: Subset  # the examples that are used
    sha256: str  # of ids, texts and labels in order, without the texts that only prompts show
    meta_keys: tuple[str, ...]
    languages: tuple[str, ...]  # of the rows, in the order of their first row
    prompted_sha256: str = ""  # of the examples that prompts show, if they differ
    most_options: int = 0  # that an example has


def survey(
    task: str,
    examples: Callable[[], Iterable[Example]],
    portion: Portion = WHOLE,
    annotations: Collection[str] = (),
) -> Survey:
    """Count and fingerprint the examples, and determine which of them a run of this portion uses.

    Memory is 17 bytes per example, and what `Drawing` needs.

    Args:
        task: name of the task.
        examples: yields the examples anew with each call.
        portion: which of them a run uses.
        annotations: keys of `meta` that the fingerprint leaves out.

    Raises:
        DataError: two examples have the same id, perhaps in characters of another width, or there are no examples.
    """
    digest, shown = hashlib.sha256(), hashlib.sha256()
    differs = False
    seen = array("Q")
    canonical = _Canonical(frozenset(annotations))
    meta_keys: dict[str, None] = {}
    languages: dict[str, None] = {}
    most_options = 0
    first: Example | None = None
    drawing = Drawing(portion)
    for example in examples():
        first = first or example
        digest.update(canonical(example))
        if example.prompted is not None:
            differs = True
            shown.update(canonical(example.prompted))
        drawing.add(example)
        seen.append(short_digest(without_width(example.id)))
        meta_keys.update(dict.fromkeys(example.meta))
        languages[example.language] = None
        most_options = max(most_options, len(getattr(example, "options", ())))
    if first is None:
        raise DataError(f"{task}: there are no examples")
    _refuse_duplicates(task, seen, examples)
    prompted = shown.hexdigest() if differs else ""
    languages.pop("", None)
    return Survey(
        n=len(seen),
        first=first,
        subset=drawing.subset(),
        sha256=digest.hexdigest(),
        meta_keys=tuple(meta_keys),
        languages=tuple(languages),
        prompted_sha256=prompted,
        most_options=most_options,
    )


def _refuse_duplicates(task: str, seen: array[int], examples: Callable[[], Iterable[Example]]) -> None:
    import numpy as np

    ranked = np.sort(np.frombuffer(seen, dtype=np.uint64))
    suspects = set(ranked[1:][ranked[1:] == ranked[:-1]].tolist())
    if not suspects:
        return
    first: dict[str, tuple[int, str]] = {}
    for number, example in enumerate(examples(), start=1):
        key, row = without_width(example.id), (number, example.id)
        if short_digest(key) in suspects and first.setdefault(key, row) != row:
            raise DataError(f"{task}: {repeated_id(first[key], row)}")


def without_width(name: str) -> str:
    """Return an id with full-width and other compatible characters in their usual form (NFKC)."""
    return name if name.isascii() else unicodedata.normalize("NFKC", name)


def repeated_id(first: tuple[int, str], second: tuple[int, str]) -> str:
    """Return what is wrong with two rows, given by number and id, whose ids are the same without their width."""
    rows = f"rows {first[0]} and {second[0]} have the"
    if first[1] == second[1]:
        return f"{rows} same id {first[1]!r}"
    ids = f"{first[1]!r} ({ascii(first[1])[1:-1]}) and {second[1]!r} ({ascii(second[1])[1:-1]})"
    return f"{rows} ids {ids}, which differ only in the width or the Unicode form of characters; rename one"


class _Canonical:
    """Serializer of examples to bytes. A candidate tuple that examples share is hashed once."""

    def __init__(self, annotations: frozenset[str] = frozenset()) -> None:
        self._annotations = annotations
        self._tuples: dict[int, tuple[Any, str]] = {}

    def __call__(self, example: Example) -> bytes:
        values = {name: self._value(value) for name, value in _fingerprinted_fields(example).items()}
        if self._annotations:
            values["meta"] = {key: text for key, text in example.meta.items() if key not in self._annotations}
        return json.dumps(values, sort_keys=True, ensure_ascii=True, default=_plain).encode()

    def _value(self, value: Any) -> Any:
        if isinstance(value, tuple) and len(value) > 16:
            return self._shared(value)
        return sorted(value) if isinstance(value, frozenset) else value

    def _shared(self, value: tuple[Any, ...]) -> str:
        cached = self._tuples.get(id(value))
        if cached is None:
            text = json.dumps(value, ensure_ascii=True)
            cached = (value, hashlib.sha256(text.encode()).hexdigest())  # holding the tuple keeps its id taken
            if len(self._tuples) < 64:
                self._tuples[id(value)] = cached
        return cached[1]


def _plain(value: Any) -> Any:
    """Return a span, a part or a mapping as a value that JSON can represent."""
    if isinstance(value, Mapping):
        return dict(value)
    return _fingerprinted_fields(value)


def _fingerprinted_fields(value: Any) -> dict[str, Any]:
    """Return the fields that are part of a fingerprint.

    Texts that only prompts show are left out, and so are fields that were added after the first fingerprints while they
    are empty or have their default. Renamed fields keep their first name, and fields that a class no longer has keep
    their value.
    """
    values = dict(value.removed_fields) if isinstance(value, Example) else {}
    for field in fields(value):
        content = getattr(value, field.name)
        if field.name != "prompted" and ("later" not in field.metadata or (content and content != field.default)):
            values[field.metadata.get(FINGERPRINTED_AS, field.name)] = content
    return values
