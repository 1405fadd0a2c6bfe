"""What is learnt from and what is chosen on. Dev is held out of train, unless the task brings one."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from figeval.errors import TrainError
from figeval.pipeline.harness import Harness
from figeval.taskdef import TaskSpec
from figeval.taskdef.survey import first
from figeval.training.config import TrainConfig
from figeval.types import Example, PairExample, RankingExample

DEV = ("dev", "validation")


@dataclass(frozen=True, slots=True)
class Splits:
    """Examples to learn from, examples to choose on (maybe none), and where the latter come from, in words."""

    train: list[Example]
    dev: list[Example]
    source: str


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
    dev, kept = HOLDOUTS[by](train, config.holdout, random.Random(f"{task.name} holdout"))
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


def by_row(train: Sequence[Example], share: float, generator: random.Random) -> Holdout:
    """A share of the examples, whatever they are."""
    order = list(range(len(train)))
    generator.shuffle(order)
    return parted(train, set(order[: round(share * len(train))]))


def by_cluster(train: Sequence[Example], share: float, generator: random.Random) -> Holdout:
    """Whole clusters, until the share is reached; never all of them."""
    clusters = [rows for _, rows in sorted(clustered(train).items())]
    generator.shuffle(clusters)
    held: set[int] = set()
    for rows in clusters[1:]:
        if len(held) >= round(share * len(train)):
            break
        held.update(rows)
    return parted(train, held)


def by_turns(train: Sequence[Example], share: float, generator: random.Random) -> Holdout:
    """One example of each cluster, then a second one, until the share is reached; never the last one of a cluster."""
    clusters = [rows for _, rows in sorted(clustered(train).items())]
    for rows in clusters:
        generator.shuffle(rows)
    generator.shuffle(clusters)
    turns = [(turn, rows[turn]) for rows in clusters for turn in range(len(rows) - 1)]
    turns.sort(key=lambda one: one[0])
    return parted(train, {row for _, row in turns[: round(share * len(train))]})


HOLDOUTS: dict[str, Callable[[Sequence[Example], float, random.Random], Holdout]] = {
    "row": by_row,
    "cluster": by_cluster,
    "within": by_turns,
}


def clustered(examples: Sequence[Example]) -> dict[str, list[int]]:
    """Cluster → its rows; an example without one is its own."""
    found: dict[str, list[int]] = defaultdict(list)
    for row, example in enumerate(examples):
        found[example.id if example.cluster is None else example.cluster].append(row)
    return found


def parted(examples: Sequence[Example], held: set[int]) -> Holdout:
    """Examples held out, and the others."""
    return (
        [example for row, example in enumerate(examples) if row in held],
        [example for row, example in enumerate(examples) if row not in held],
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

    return [replace(row, candidates=candidates, relevant=among(row.relevant), near=among(row.near)) for row in rows]


def check_labels(task: TaskSpec, train: Sequence[Example]) -> None:
    """Raise `TrainError` for a label of the task of which train has no example: no head can learn it."""
    found = {example.label for example in train if isinstance(example, PairExample)}
    missing = [label for label in task.labels if label not in found]
    if task.protocol == "pairs" and missing:
        has = ", ".join(sorted(str(label) for label in found))
        raise TrainError(f"{task.name}: no example of train has the label {missing[0]!r} (only {has}); raise --limit")
