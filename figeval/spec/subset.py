"""The examples of a task that a run uses: all, the first ones (`--limit`), or a random sample (`--sample`).

A random sample depends only on the seed and on the ids, groups and strata of the examples. All models, prompts and
probes therefore get the same examples, and so does every later run with the same seed; a smaller sample is part of a
larger one. Examples are ordered by a digest of the seed and their id, and the first N are drawn. Minimal pairs are
drawn as a whole, i.e. by the digest of their group, so at most one is cut in two.

In a stratified sample, each stratum has its proportional share, rounded up or down: the r-th of the m examples of a
stratum, in random order, comes at (r + u) / m, where u is a random number of the stratum.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import compress

from figeval.config import Size
from figeval.types import Example

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


WHOLE = Portion()


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
