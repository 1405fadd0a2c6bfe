"""The examples of a task that a run uses, and the survey of them in one pass before any model is loaded.

A run uses all examples, the first ones (`--limit`), or a random sample (`--sample`). Their survey has their number,
their fingerprint, their ids, and what is known of all of them.

A random sample depends only on the seed and on the ids, groups and strata of the examples. All models, prompts and
probes therefore get the same examples, and so does every later run with the same seed; a smaller sample is part of a
larger one. Examples are ordered by a digest of the seed and their id, and the first N are drawn. Minimal pairs are
drawn as a whole, i.e. by the digest of their group, so at most one is cut in two.

In a stratified sample, each stratum has its proportional share, rounded up or down: the r-th of the m examples of a
stratum, in random order, comes at (r + u) / m, where u is a random number of the stratum.
"""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import partial
from itertools import compress
from typing import Any

from figeval.errors import DataError
from figeval.io.flag_types import Size
from figeval.types import FINGERPRINTED_AS, Example

CLUSTER, LANGUAGE = "cluster", "language"  # what an example can be stratified by besides its meta columns


def short_digest(text: str) -> int:
    """Return a digest of 64 bits."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def examples_in(size: Size, n: int) -> int:
    """Return how many of n examples a size means. A share is rounded up, as by lm-eval."""
    return min(n, size if isinstance(size, int) else math.ceil(Fraction(str(size)) * n))  # 0.07 of 100 is 7, not 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """The portion of every task that a run asks for; by default all examples.

    Attributes:
        limit: number or share of examples from the beginning; None for no limit.
        sample: number or share of examples to draw at random; None for no sample.
        stratify: `cluster`, `language` or a meta column, of which every value is to be in the sample in proportion.
        seed: random seed.
    """

    limit: Size | None = None
    sample: Size | None = None
    stratify: str = ""
    seed: int = 0

    @property
    def is_whole(self) -> bool:
        """True if all examples are used."""
        return self.limit is None and self.sample is None

    def stratum(self, example: Example) -> str | None:
        """Return the stratum of an example; None if it is one of its own."""
        if self.stratify == CLUSTER:
            return example.cluster
        return example.meta.get(self.stratify) or (example.language if self.stratify == LANGUAGE else None)


ALL_EXAMPLES = Portion()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subset:
    """The examples of one task that are used.

    Attributes:
        n: number of examples.
        hidden: number of those whose gold answer is hidden.
        mask: a byte for each example up to the last one that is used, 1 if it is; None if all are.
        cut: groups that have members inside and outside.
        sample_sha256: SHA-256 of the digests of the ids in order, if the examples are a random sample.
        is_stratified: True if at least one example of the task has a value of the column of `Portion.stratify`.
    """

    n: int
    hidden: int
    mask: bytes | None = None
    cut: frozenset[str] = frozenset()
    sample_sha256: str | None = None
    is_stratified: bool = False

    def of(self, examples: Iterable[Example]) -> Iterator[Example]:
        """Yield those of a task's examples that are used.

        A member of a minimal pair that is cut in two loses its group; otherwise the pair would count as right whenever
        this member is.
        """
        used = examples if self.mask is None else compress(examples, self.mask)
        if not self.cut:
            yield from used
            return
        for example in used:
            yield replace(example, group=None) if example.group in self.cut else example


@dataclass(slots=True)
class Drawing:
    """Determines the subset for a portion in one pass over the examples, with up to 25 bytes of memory for each.

    The members of a group share a unit, any other example is a unit of its own.
    """

    portion: Portion
    _hidden: bytearray = field(default_factory=bytearray)
    _ids: array[int] = field(default_factory=partial(array, "Q"))
    _units: array[int] = field(default_factory=partial(array, "Q"))
    _strata: array[int] = field(default_factory=partial(array, "Q"))
    _groups: dict[int, str] = field(default_factory=dict)  # by unit
    _is_stratified: bool = False

    def add(self, example: Example) -> None:
        """Take note of the next example of the task."""
        self._hidden.append(example.hidden)
        if self.portion.is_whole:
            return
        name = f"example {example.id}" if example.group is None else f"group {example.group}"
        unit = self._draw(name)
        self._units.append(unit)
        if example.group is not None:
            self._groups[unit] = example.group
        if self.portion.sample is not None:
            self._ids.append(short_digest(example.id))
        if self.portion.stratify:
            stratum = self.portion.stratum(example)
            self._is_stratified |= stratum is not None
            self._strata.append(self._draw(name if stratum is None else f"stratum {stratum}"))

    def _draw(self, text: str) -> int:
        """Return a random number for a text, from 0 to 2**64 - 1."""
        return short_digest(f"{self.portion.seed} {text}")

    def subset(self) -> Subset:
        """Return the subset of the examples that were added."""
        n, portion = len(self._hidden), self.portion
        size = portion.limit if portion.sample is None else portion.sample
        size_of_subset = n if size is None else examples_in(size, n)
        if size_of_subset == n:
            return Subset(n=n, hidden=sum(self._hidden), is_stratified=self._is_stratified)
        used = range(size_of_subset) if portion.sample is None else sorted(self._in_random_order()[:size_of_subset])
        mask = bytearray(used[-1] + 1)
        for index in used:
            mask[index] = 1
        inside = {self._units[index] for index in used}
        outside = (unit for index, unit in enumerate(self._units) if index >= len(mask) or not mask[index])
        sampled = " ".join(str(self._ids[index]) for index in used) if self._ids else None
        return Subset(
            n=size_of_subset,
            hidden=sum(compress(self._hidden, mask)),
            mask=bytes(mask),
            cut=frozenset(self._groups[unit] for unit in inside.intersection(outside)),
            sample_sha256=None if sampled is None else hashlib.sha256(sampled.encode()).hexdigest(),
            is_stratified=self._is_stratified,
        )

    def _in_random_order(self) -> list[int]:
        """Return the places of the examples in the order in which they are drawn."""
        indices = sorted(range(len(self._units)), key=self._units.__getitem__)
        if not self.portion.stratify:
            return indices
        stratum_of: dict[int, int] = {}  # by unit; a group belongs to the stratum of its first member
        for unit, stratum in zip(self._units, self._strata, strict=True):
            stratum_of.setdefault(unit, stratum)
        members: dict[int, list[int]] = defaultdict(list)
        for index in indices:
            members[stratum_of[self._units[index]]].append(index)
        turn: dict[int, float] = {}  # by unit
        for stratum, stratum_indices in members.items():
            for rank, index in enumerate(stratum_indices):
                turn.setdefault(self._units[index], (rank + stratum / 2**64) / len(stratum_indices))
        return sorted(indices, key=lambda index: turn[self._units[index]])


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
    portion: Portion = ALL_EXAMPLES,
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
    for attribute in fields(value):
        content = getattr(value, attribute.name)
        if attribute.name != "prompted" and (
            "later" not in attribute.metadata or (content and content != attribute.default)
        ):
            values[attribute.metadata.get(FINGERPRINTED_AS, attribute.name)] = content
    return values
