"""Index of all pairs that a build keeps in memory: ids, morals, splits and digests of the stories, but no stories."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from figeval.errors import DataError
from figeval.types import JSON

from ..pairs import SPLITS, Pair, PairFile, draw_splits, wording
from .negatives import normalize

PREFERRED = ("test", "valid", "train")  # among pairs with equal stories, one of the earliest of these splits is kept


@dataclass(frozen=True)
class Index:
    """The pairs of a file.

    Attributes:
        file: file with the stories.
        pairs: every pair, with its split but without its story.
        stories: digest of each pair's story (`digest`).
        removed: indices of the pairs that are not part of the build because their stories occur elsewhere.
    """

    file: PairFile
    pairs: tuple[Pair, ...]
    stories: tuple[bytes, ...]
    removed: frozenset[int]

    def with_stories(self) -> Iterator[Pair]:
        """Yield the pairs of the build with their stories, read one by one."""
        for index, (pair, full_pair) in enumerate(zip(self.pairs, self.file.pairs(), strict=True)):
            if index not in self.removed:
                yield replace(pair, story=full_pair.story)

    @cached_property
    def by_split(self) -> Mapping[str, tuple[Pair, ...]]:
        """Pairs of the build by split, without their stories; splits without pairs are left out."""
        pairs = [pair for index, pair in enumerate(self.pairs) if index not in self.removed]
        splits = {split: tuple(pair for pair in pairs if pair.split == split) for split in SPLITS}
        return {split: pairs for split, pairs in splits.items() if pairs}

    @cached_property
    def moral_groups(self) -> Mapping[str, str]:
        """Cluster of each pair by its id; pairs whose morals have the same wording share a cluster.

        The name of a cluster is derived from its first moral.
        """
        firsts: dict[bytes, str] = {}
        return {pair.id: firsts.setdefault(digest(pair.moral), _name(normalize(pair.moral))) for pair in self.pairs}

    def duplicates(self) -> JSON:
        """Count the stories and the morals that occur more than once in the file, their pairs, and those across splits.

        The ids of the removed pairs are listed, too.
        """
        morals = [digest(pair.moral) for pair in self.pairs]
        splits = [pair.split for pair in self.pairs]
        return {
            "stories": _count_repeats(self.stories, splits),
            "morals": _count_repeats(morals, splits),
            "removed": [self.pairs[index].id for index in sorted(self.removed)],
        }

    def overlap(self, other_pairs: Iterator[Pair]) -> JSON:
        """Count the pairs whose story, or whose moral, occurs in other pairs, and those other pairs."""
        stories, morals, n = set(), set(), 0
        for pair in other_pairs:
            n += 1
            stories.add(digest(pair.story))
            morals.add(digest(pair.moral))
        return {
            "pairs": n,
            "stories": sum(story in stories for story in self.stories),
            "morals": sum(digest(pair.moral) in morals for pair in self.pairs),
        }


def read_index(file: PairFile, seed: int, *, deduplicate: bool = False) -> Index:
    """Read a file of pairs once.

    Args:
        file: the file. If it has no splits, they are drawn.
        seed: seed for drawing splits.
        deduplicate: whether to keep only one of several pairs with equal stories.

    Raises:
        DataError: a row is wrong; two rows have the same id; only some rows have a split; there is no row.
    """
    pairs: list[Pair] = []
    stories: list[bytes] = []
    rows: dict[str, int] = {}
    for number, pair in enumerate(file.pairs(), 1):
        if pair.id in rows:
            raise DataError(f"{file.path}: row {number}: 'id' {pair.id[:40]!r} is that of row {rows[pair.id]}, too")
        if pairs and bool(pair.split) != bool(pairs[0].split):
            raise DataError(f"{file.path}: row {number}: only some rows have a 'split'; give all rows one, or none")
        rows[pair.id] = number
        pairs.append(replace(pair, story=""))
        stories.append(digest(pair.story))
    if not pairs:
        raise DataError(f"{file.path}: it contains no pairs")
    if not pairs[0].split:
        split_names = draw_splits(stories, file.language, seed)
        pairs = [replace(pair, split=split) for pair, split in zip(pairs, split_names, strict=True)]
    removed = _surplus(pairs, stories) if deduplicate else frozenset()
    return Index(file, tuple(pairs), tuple(stories), removed)


def digest(text: str) -> bytes:
    """Return a digest of a text that does not depend on case, punctuation or footnotes."""
    return hashlib.blake2b(wording(text).encode(), digest_size=16).digest()


def _name(wording: str) -> str:
    return hashlib.blake2b(wording.encode(), digest_size=16).hexdigest()[:12]


def _surplus(pairs: Sequence[Pair], stories: Sequence[bytes]) -> frozenset[int]:
    best: dict[bytes, int] = {}
    for index, story in enumerate(stories):
        other = best.setdefault(story, index)
        if PREFERRED.index(pairs[index].split) < PREFERRED.index(pairs[other].split):
            best[story] = index
    return frozenset(range(len(pairs))) - frozenset(best.values())


def _count_repeats(digests: Sequence[bytes], splits: Sequence[str]) -> JSON:
    counts = Counter(digests)
    splits_of: dict[bytes, set[str]] = {}
    for key, split in zip(digests, splits, strict=True):
        splits_of.setdefault(key, set()).add(split)
    return {
        "repeated": sum(count > 1 for count in counts.values()),
        "pairs": sum(count for count in counts.values() if count > 1),
        "across_splits": sum(len(key_splits) > 1 for key_splits in splits_of.values()),
    }
