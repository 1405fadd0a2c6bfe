"""The examples to train on and to select checkpoints on. Dev is held out of train unless the task has a dev split."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

from figeval import Example, Harness, TaskSpec, TrainError
from figeval.io.frontend import warn
from figeval.io.text import near
from figeval.language.words import letters
from figeval.runs.retrieval.augmentation import augmentation_of, augmenter
from figeval.spec.survey import examples_in, survey
from figeval.wings.training.config import TrainConfig

DEV_NAMES = ("dev", "validation")
MIN_DEV_EXAMPLES = 30  # examples to choose on, below which training warns


@dataclass(frozen=True)
class Splits:
    """The examples of a training.

    Attributes:
        train: Examples to train on.
        dev: Examples to select checkpoints on, possibly none.
        source: Description of where `dev` comes from.
        originals: The same examples before a probe changed them, or None without a probe.
    """

    train: list[Example]
    dev: list[Example]
    source: str
    originals: Splits | None = None

    @cached_property
    def digests(self) -> tuple[str, str]:
        """SHA-256 of the train examples and of the dev examples; the latter is empty if there are none."""
        train = survey("train", lambda: self.train).sha256
        return train, survey("dev", lambda: self.dev).sha256 if self.dev else ""


def make_splits(task: TaskSpec, config: TrainConfig, harness: Harness) -> Splits:
    """Return the splits of a training.

    Raises:
        TrainError: The task has no train split, fewer examples than a batch (without `limit`), a label that train
            lacks, or a language that dev lacks.
    """
    if "train" not in task.data:
        raise TrainError(
            f"{task.name} has no train split; train on a task that has one, then run {task.name} with that model"
        )
    train = list(harness.examples(task, "train"))
    if config.limit is not None:
        train = train[: examples_in(config.limit, len(train))]
    splits = _apply_probe(_hold_out_dev(task, train, config, harness), task, config)
    if config.batch_size > len(splits.train) and config.limit is None:
        raise TrainError(
            f"--batch_size {config.batch_size} exceeds the {len(splits.train)} examples to train on; "
            f"use {len(splits.train)} or less"
        )
    if splits.dev and len(task.languages) > 1:
        held_out = {example.language for example in splits.dev}
        for language in (name for name in task.languages if name not in held_out):
            raise TrainError(
                f"{task.name}: nothing in {language!r} is held out, so no score over its languages can choose a "
                "checkpoint; give it a dev split in all of them, or use --select_on none"
            )
    try:
        task.task_type.check_training(task, splits.train)
    except ValueError as error:
        raise TrainError(f"{task.name}: {error}") from error
    return splits


def split_warnings(splits: Splits, task: TaskSpec, config: TrainConfig) -> Iterator[str]:
    """Yield warnings about too few or too uniform examples, as trials with `limit` have them."""
    if config.batch_size > len(splits.train):
        yield (
            f"--batch_size {config.batch_size} exceeds the {len(splits.train)} examples to train on (--limit "
            f"{config.limit}), so every step reads all of them; results say nothing about the whole data"
        )
    if splits.dev and (answer := _only_answer(splits.dev, task)):
        cure = "use other examples of dev" if config.limit is None else "raise --limit"
        yield (
            f"the checkpoint is chosen on examples that {answer}, so that any model is right ({splits.source}); "
            f"{cure}, or use --select_on none"
        )
    yield from _dev_warnings(splits, task, config)


def _only_answer(examples: Sequence[Example], task: TaskSpec) -> str:
    """Return what examples have in common of which only one answer is possible, or an empty text."""
    sizes = {len(getattr(example, "candidates", getattr(example, "options", ()))) for example in examples}
    if sizes == {1}:
        return "have a single candidate"
    labels = {task.task_type.gold_class(example) for example in examples} if task.labels else set()
    return f"all have the label {labels.pop()!r}" if len(labels) == 1 else ""


def _dev_warnings(splits: Splits, task: TaskSpec, config: TrainConfig) -> Iterator[str]:
    """Yield a warning if the checkpoint is chosen on very few examples; it says what to do."""
    n, total = len(splits.dev), len(splits.dev) + len(splits.train)
    if not 0 < n < MIN_DEV_EXAMPLES:
        return
    cures = ["use --select_on none, which takes the last checkpoint"]
    if config.select_on == "dev" and task.split(*DEV_NAMES) is not None:
        cures.insert(0, f"give the task a dev split of {MIN_DEV_EXAMPLES} examples or more")
    elif config.select_on == "dev" and total >= 2 * MIN_DEV_EXAMPLES:
        cures.insert(0, f"hold out more (--holdout {math.ceil(100 * MIN_DEV_EXAMPLES / total) / 100:g})")
    points = 196 * (0.25 / n) ** 0.5
    yield (
        f"the checkpoint is chosen on only {n} examples ({splits.source}); a score on so few is uncertain by up to "
        f"±{points:.0f} points (95 %), so the best checkpoint may be best by chance; {', or '.join(cures)}"
    )


def without_ids(splits: Splits, train: Collection[str], dev: Collection[str]) -> Splits:
    """Return the splits without the examples that have these ids."""
    return replace(
        splits,
        train=[example for example in splits.train if example.id not in train],
        dev=[example for example in splits.dev if example.id not in dev],
        originals=None if splits.originals is None else without_ids(splits.originals, train, dev),
    )


def augment_splits(splits: Splits, task: TaskSpec, config: TrainConfig, harness: Harness, device: str) -> Splits:
    """Return the splits as the model sees them, augmented if `--augment` or the task asks for it.

    Only training examples are retrieved, so that nothing held out is seen in training. If a probe leaves no query text,
    nothing is added, as in a run.

    Raises:
        TaskError: The task cannot be augmented, or too few examples are left to retrieve.
        TrainError: The augmentation retrieves from a split other than train.
    """
    if config.probe is not None and not any(task.task_type.query_text(example).strip() for example in splits.train):
        return splits
    augmentation = augmentation_of(task, config.augment)
    if augmentation is not None and augmentation.split != "train":
        raise TrainError(
            f"--augment from={augmentation.split}: training uses only its own split, and retrieving from another "
            "would leak its answers; leave out from="
        )
    augment = augmenter(task, config.augment, harness, device, splits.train)
    if augment is None:
        return splits
    for examples in (splits.train, splits.dev):
        augment.neighbours.prepare(examples)
    for remark in augment.remarks([*splits.train, *splits.dev]):
        warn(remark)
    return replace(splits, train=list(map(augment, splits.train)), dev=list(map(augment, splits.dev)))


def _hold_out_dev(task: TaskSpec, train: list[Example], config: TrainConfig, harness: Harness) -> Splits:
    if config.select_on == "none":
        return Splits(train, [], "none")
    if config.select_on == "test":
        return Splits(train, list(harness.examples(task, "test")), "the test split")
    name = task.split(*DEV_NAMES)
    if name is not None:
        return Splits(train, list(harness.examples(task, name)), f"the split {name!r}")
    method = config.holdout_by if config.holdout_by != "auto" else choose_holdout(train, harness.examples(task, "test"))
    dev, rest = HOLDOUTS[method](train, config.holdout)
    if not dev:
        raise TrainError(f"a holdout of {config.holdout} of {len(train)} examples leaves none for dev; raise --holdout")
    if method == "cluster":
        rest, dev = (list(task.task_type.restrict_to_split(part)) for part in (rest, dev))
    return Splits(rest, dev, f"{len(dev)} of {len(train)} examples of train, held out by {method}")


def _apply_probe(splits: Splits, task: TaskSpec, config: TrainConfig) -> Splits:
    """Return the splits with the probe of the training applied, or unchanged if it has none.

    Raises:
        TrainError: The task type has no such probe.
    """
    if config.probe is None:
        return splits
    probes = task.task_type.probes
    if config.probe not in probes:
        has = f"they have {', '.join(probes)}" if probes else "they have none"
        raise TrainError(
            f"--probe {config.probe}: {task.type} tasks have no such probe{near(config.probe, probes)}; {has}"
        )
    probe = probes[config.probe]

    def apply(examples: list[Example]) -> list[Example]:
        return list(probe(lambda: iter(examples), config.seed, task.name)())

    return Splits(apply(splits.train), apply(splits.dev), splits.source, splits)


def choose_holdout(train: Sequence[Example], test: Iterable[Example]) -> str:
    """Return the holdout that mimics test: `within` if most of its clusters (e.g. proverbs) are known, else `cluster`.

    If no training example has a cluster, it is `row`.
    """
    clusters = {example.cluster for example in train}
    if clusters == {None}:
        return "row"
    is_known = [example.cluster in clusters for example in test]
    return "within" if sum(is_known) * 2 > len(is_known) else "cluster"


Holdout = tuple[list[Example], list[Example]]  # held out, kept; both in the order of train
Rows = list[int]


def hold_out_rows(train: Sequence[Example], share: float) -> Holdout:
    """Hold out a share of the texts, each with all of its rows."""
    texts = _sort_groups(_group_rows(train, range(len(train)), subject_letters))
    return _divide(train, texts[: round(share * len(texts))])


def hold_out_clusters(train: Sequence[Example], share: float) -> Holdout:
    """Hold out whole clusters until the share is reached; never all of them."""
    held_groups: list[Rows] = []
    for rows in _sort_groups(_group_by_cluster(train))[1:]:
        if sum(map(len, held_groups)) >= round(share * len(train)):
            break
        held_groups.append(rows)
    return _divide(train, held_groups)


def hold_out_in_turns(train: Sequence[Example], share: float) -> Holdout:
    """Hold out one text of each cluster, then a second one, until the share is reached; never the last of a cluster."""
    groups = _sort_groups(_group_by_cluster(train))
    clusters = [_sort_groups(_group_rows(train, rows, subject_letters)) for rows in groups]
    turns = [(turn, texts[turn]) for texts in clusters for turn in range(len(texts) - 1)]
    turns.sort(key=lambda pair: pair[0])
    return _divide(train, [rows for _, rows in turns[: round(share * sum(map(len, clusters)))]])


HOLDOUTS: dict[str, Callable[[Sequence[Example], float], Holdout]] = {
    "row": hold_out_rows,
    "cluster": hold_out_clusters,
    "within": hold_out_in_turns,
}


def _group_by_cluster(examples: Sequence[Example]) -> dict[str, Rows]:
    """Return the rows of each cluster; an example without a cluster is a cluster of its own."""
    return _group_rows(examples, range(len(examples)), _cluster_name)


def _cluster_name(example: Example) -> str:
    return example.id if example.cluster is None else example.cluster


def subject_letters(example: Example) -> str:
    """Return the letters and digits of the text that an example is about."""
    return letters(example.subject)


def _group_rows(examples: Sequence[Example], rows: Iterable[int], name: Callable[[Example], str]) -> dict[str, Rows]:
    groups: dict[str, Rows] = defaultdict(list)
    for row in rows:
        groups[name(examples[row])].append(row)
    return groups


def _sort_groups(groups: Mapping[str, Rows]) -> list[Rows]:
    """Return the groups ordered by the digests of their names.

    All tasks on the same texts therefore hold out the same ones, so a joint model that begins with a trained ranker is
    not selected on texts that the ranker was trained on.
    """
    return [rows for _, rows in sorted(groups.items(), key=lambda group: sha256(group[0].encode()).digest())]


def _divide(examples: Sequence[Example], held_groups: Iterable[Rows]) -> Holdout:
    held_rows = {row for rows in held_groups for row in rows}
    return (
        [example for row, example in enumerate(examples) if row in held_rows],
        [example for row, example in enumerate(examples) if row not in held_rows],
    )
