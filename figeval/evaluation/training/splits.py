"""What is learnt from and what is chosen on. Dev is held out of train, unless the task brings one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

from figeval.errors import TrainError
from figeval.evaluation.harness import Harness
from figeval.spec import TaskSpec
from figeval.spec.survey import first, survey
from figeval.training.config import TrainConfig
from figeval.types import Example, PairExample, RankingExample, letters

DEV = ("dev", "validation")


@dataclass(frozen=True)
class Splits:
    """Examples to learn from, examples to choose on (maybe none), and where the latter come from, in words."""

    train: list[Example]
    dev: list[Example]
    source: str

    @cached_property
    def digests(self) -> tuple[str, str]:
        """sha256 of the examples of train and of dev; of no examples it is empty."""
        train = survey("train", lambda: self.train).sha256
        return train, survey("dev", lambda: self.dev).sha256 if self.dev else ""


def splits_of(task: TaskSpec, config: TrainConfig, harness: Harness) -> Splits:
    """The splits of a training.

    Raises:
        TrainError: the task has no train split, fewer examples than one step takes, or a label that train has not.
    """
    if "train" not in task.data:
        raise TrainError(f"{task.name} has no train split; train on a task that has one, and run {task.name} then")
    train = list(first(harness.examples(task, "train"), config.limit))
    found = _with_dev(task, train, config, harness)
    if config.batch_size > len(found.train):
        raise TrainError(
            f"--batch_size {config.batch_size} is more than the {len(found.train)} examples to train on; "
            f"use {len(found.train)} or less"
        )
    check_labels(task, found.train)
    return found


def _with_dev(task: TaskSpec, train: list[Example], config: TrainConfig, harness: Harness) -> Splits:
    if config.select_on == "none":
        return Splits(train, [], "none")
    if config.select_on == "test":
        return Splits(train, list(harness.examples(task, "test")), "the test split")
    own = task.split(*DEV)
    if own is not None:
        return Splits(train, list(harness.examples(task, own)), f"the split {own!r}")
    by = config.holdout_by if config.holdout_by != "auto" else how(train, harness.examples(task, "test"))
    dev, kept = HOLDOUTS[by](train, config.holdout)
    if not dev:
        raise TrainError(f"a holdout of {config.holdout} of {len(train)} examples is none; raise --holdout")
    if by == "cluster":
        kept, dev = apart(kept), apart(dev)
    return Splits(kept, dev, f"{len(dev)} of {len(train)} examples of train, held out by {by}")


def how(train: Sequence[Example], test: Iterable[Example]) -> str:
    """As test differs from train: other clusters (unseen proverbs), or other examples of the same ones."""
    known = {example.cluster for example in train}
    if known == {None}:
        return "row"
    seen = [example.cluster in known for example in test]
    return "within" if sum(seen) * 2 > len(seen) else "cluster"


Holdout = tuple[list[Example], list[Example]]  # held out, kept; both in the order of train
Rows = list[int]


def by_row(train: Sequence[Example], share: float) -> Holdout:
    """A share of the texts, whatever they are."""
    texts = in_order(gathered(train, range(len(train)), subject))
    return parted(train, texts[: round(share * len(texts))])


def by_cluster(train: Sequence[Example], share: float) -> Holdout:
    """Whole clusters, until the share is reached; never all of them."""
    held: list[Rows] = []
    for rows in in_order(clusters_of(train))[1:]:
        if sum(map(len, held)) >= round(share * len(train)):
            break
        held.append(rows)
    return parted(train, held)


def by_turns(train: Sequence[Example], share: float) -> Holdout:
    """One text of each cluster, then a second one, until the share is reached; never the last one of a cluster."""
    clusters = [in_order(gathered(train, rows, subject)) for rows in in_order(clusters_of(train))]
    turns = [(turn, texts[turn]) for texts in clusters for turn in range(len(texts) - 1)]
    turns.sort(key=lambda one: one[0])
    return parted(train, [rows for _, rows in turns[: round(share * sum(map(len, clusters)))]])


HOLDOUTS: dict[str, Callable[[Sequence[Example], float], Holdout]] = {
    "row": by_row,
    "cluster": by_cluster,
    "within": by_turns,
}


def clusters_of(examples: Sequence[Example]) -> dict[str, Rows]:
    """Cluster → its rows; an example without one is its own."""
    return gathered(examples, range(len(examples)), lambda one: one.id if one.cluster is None else one.cluster)


def subject(example: Example) -> str:
    """What an example is about, however it is written."""
    return letters(example.subject)


def gathered(examples: Sequence[Example], rows: Iterable[int], name: Callable[[Example], str]) -> dict[str, Rows]:
    """Those of the rows that have the same name."""
    found: dict[str, Rows] = defaultdict(list)
    for row in rows:
        found[name(examples[row])].append(row)
    return found


def in_order(named: Mapping[str, Rows]) -> list[Rows]:
    """Shuffled by the digests of their names, so that every task on the same texts holds out the same: a joint model
    that begins with a trained ranker is not chosen on what that one has learnt."""
    return [rows for _, rows in sorted(named.items(), key=lambda one: sha256(one[0].encode()).digest())]


def parted(examples: Sequence[Example], held: Iterable[Rows]) -> Holdout:
    """Examples held out, and the others."""
    out = {row for rows in held for row in rows}
    return (
        [example for row, example in enumerate(examples) if row in out],
        [example for row, example in enumerate(examples) if row not in out],
    )


def apart(examples: list[Example]) -> list[Example]:
    """Ranking examples among only those candidates that are right for one of them.

    Where whole proverbs are held out, training must not push them away as wrong ones, and dev ranks among its own.
    """
    rows = [example for example in examples if isinstance(example, RankingExample)]
    if len(rows) < len(examples):
        return examples
    wanted = sorted(set().union(*(row.relevant for row in rows)))
    places = {number: place for place, number in enumerate(wanted)}
    candidates = tuple(rows[0].candidates[number] for number in wanted)

    def among(numbers: frozenset[int]) -> frozenset[int]:
        return frozenset(places[number] for number in numbers if number in places)

    return [
        replace(
            row,
            candidates=candidates,
            relevant=among(row.relevant),
            near=among(row.near),
            grades={places[number]: grade for number, grade in row.grades.items()},
        )
        for row in rows
    ]


def check_labels(task: TaskSpec, train: Sequence[Example]) -> None:
    """Raise `TrainError` for a label of the task of which train has no example: no head can learn it."""
    found = {example.label for example in train if isinstance(example, PairExample)}
    missing = [label for label in task.labels if label not in found]
    if task.protocol == "pairs" and missing:
        has = ", ".join(sorted(str(label) for label in found))
        raise TrainError(f"{task.name}: no example of train has the label {missing[0]!r} (only {has}); raise --limit")
