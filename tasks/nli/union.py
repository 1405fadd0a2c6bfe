"""A training set and a held-out set made from several sets: `nli:train` and `nli:dev`.

No pair of `train` is in a test set of this benchmark, in the sets' own validation parts or in `dev`; no premise of
`train` is in `dev`; no pair occurs twice or with two labels. Pairs are the same if their letters and digits are
(`fold`). README.md has the counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, TypeAlias

from figeval.data import DataContext, Row

from .parts import PARTS, fetch_part, fold, part_rows
from .published import LABELS

TRAIN = ("mnli_train", "snli_train", "esnli_dev", "cad_train", "sick_train", "conj_train")
DEV = ("mnli_train", "esnli_dev", "cad_dev", "sick_trial")  # written by people, unlike ConjNLI's training part
VALIDATION = ("cad_dev", "sick_trial")  # validation splits of tasks
TEST = (
    *("mnli_validation", "snli_test", "esnli_test", "cad_test", "sick_test", "conj_dev"),
    *("med", "taxi", "mnli_hard_matched", "mnli_hard_mismatched", "snli_hard"),
)
ALL_PARTS = tuple(dict.fromkeys((*TRAIN, *DEV, *VALIDATION, *TEST)))
PER_LABEL = 250  # pairs of each label that a part contributes to `dev`, limited by its rarest label

Texts: TypeAlias = tuple[str, str]  # premise and hypothesis, folded


class UnionRow(NamedTuple):
    """The fields of a row that the choice depends on."""

    id: str
    texts: Texts
    label: str


@dataclass(frozen=True, slots=True)
class Union:
    """The ids of both sets."""

    train: frozenset[str]
    dev: frozenset[str]


def rows(name: str, context: DataContext) -> Iterator[Row]:
    """Yield the rows of `train` or `dev`, part by part."""
    paths = tuple(fetch_part(part, context) for part in ALL_PARTS)
    sets = union(paths)
    parts, ids = {"train": (TRAIN, sets.train), "dev": (DEV, sets.dev)}[name]
    for part in parts:
        yield from (row for row in part_rows(part, paths[ALL_PARTS.index(part)]) if row["id"] in ids)


@lru_cache(maxsize=1)
def union(paths: tuple[tuple[Path, ...], ...]) -> Union:
    """Choose both sets from the files of all parts, in the order of `ALL_PARTS`, once per process on first use."""
    entries = {part: list(read(part, files)) for part, files in zip(ALL_PARTS, paths, strict=True)}
    ambiguous = labelled_twice(entries[part] for part in (*TRAIN, *DEV))
    tests = texts_of(entries[part] for part in TEST)
    dev = list(choose_dev(entries, tests | ambiguous))
    validation = texts_of(entries[part] for part in VALIDATION)
    train = choose_train(entries, tests | validation | ambiguous, {entry.texts[0] for entry in dev})
    return Union(frozenset(train), frozenset(entry.id for entry in dev))


def read(part: str, paths: tuple[Path, ...]) -> Iterator[UnionRow]:
    for identity, pair in PARTS[part].pairs(paths):
        yield UnionRow(identity, (fold(pair.premise), fold(pair.hypothesis)), pair.label)


def texts_of(parts: Iterable[Iterable[UnionRow]]) -> set[Texts]:
    """Return the pairs of some parts."""
    return {entry.texts for part in parts for entry in part}


def labelled_twice(parts: Iterable[Iterable[UnionRow]]) -> set[Texts]:
    """Return the pairs that occur with different labels."""
    labels = defaultdict(set)
    for part in parts:
        for entry in part:
            labels[entry.texts].add(entry.label)
    return {texts for texts, pair_labels in labels.items() if len(pair_labels) > 1}


def choose_train(entries: Mapping[str, list[UnionRow]], barred: set[Texts], premises: set[str]) -> Iterator[str]:
    """Yield the ids of the pairs of `TRAIN` that remain; README.md counts the others by reason.

    Args:
        entries: entries of all parts.
        barred: pairs that must not be in the training set.
        premises: premises of `dev`.
    """
    seen: set[Texts] = set()
    for entry in (entry for part in TRAIN for entry in entries[part]):
        if all(entry.texts) and not (entry.texts in barred or entry.texts in seen) and entry.texts[0] not in premises:
            seen.add(entry.texts)
            yield entry.id


def choose_dev(entries: Mapping[str, list[UnionRow]], barred: set[Texts]) -> Iterator[UnionRow]:
    """Yield equally many pairs of each label from every part of `DEV`, with whole premises if possible.

    Premises are taken in the order of a hash, which is the same everywhere and independent of the order of the files.
    """

    def by_hash(entry: UnionRow) -> tuple[bytes, str]:
        premise = entry.texts[0].encode("utf-8", "surrogatepass")
        return blake2b(premise, digest_size=8).digest(), entry.id

    seen = set(barred)
    for part in DEV:
        fresh = {entry.texts: entry for entry in entries[part] if all(entry.texts) and entry.texts not in seen}
        available = Counter(entry.label for entry in fresh.values())
        quota = min(PER_LABEL, *(available[label] for label in LABELS))
        counts = Counter[str]()
        for entry in sorted(fresh.values(), key=by_hash):
            if counts[entry.label] < quota:
                counts[entry.label] += 1
                seen.add(entry.texts)
                yield entry
