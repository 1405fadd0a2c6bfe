"""The pool of solved examples of a task: its own training split or, with `--fewshot_from`, that of another task.

Examples of another task are shown as questions of the task that is asked: in its prompt, and with its labels. Such a
pool is read and indexed once, since all tasks of a suite share it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from figeval.config import RunConfig
from figeval.errors import TaskError
from figeval.language.questions import core_of, question_keys
from figeval.prompts import Index, index_of
from figeval.runs.harness import Harness
from figeval.spec import TaskSpec
from figeval.task_types.base import TaskType
from figeval.types import JSON, Example

FLAG = "--fewshot_from"


@dataclass(frozen=True)
class ShotPool:
    """Solved examples to choose from.

    Attributes:
        examples: examples with visible answers.
        keys: function that returns what an example asks; examples that share a key are not shown to one another.
    """

    examples: Sequence[Example]
    keys: Callable[[Example], Iterable[Hashable]] = question_keys

    @cached_property
    def index(self) -> Index:
        """The indices of the examples by what they ask."""
        return index_of(self.examples, self.keys)

    def only(self, is_shown: Callable[[Example], bool]) -> ShotPool:
        """Return the pool of the examples that may be shown; itself if these are all."""
        shown = list(filter(is_shown, self.examples))
        return self if len(shown) == len(self.examples) else ShotPool(shown, self.keys)


@dataclass(frozen=True, slots=True)
class ShotSource:
    """The task from whose training split the solved examples of a task are taken.

    Attributes:
        task: the task whose split it is.
        is_other: whether it is not the task that is asked.
        labels: label of the asked task by label of `task`, if they have other labels.
    """

    task: TaskSpec
    is_other: bool = False
    labels: Mapping[str, str] | None = None

    @property
    def record(self) -> JSON:
        """The settings that describe the source; empty for a task's own split."""
        if not self.is_other:
            return {}
        return {"fewshot_from": {"task": self.task.name, **({"labels": dict(self.labels)} if self.labels else {})}}

    def pool(self, harness: Harness) -> ShotPool:
        """Return the examples with visible answers. Raises `TaskError` if there are none."""
        if not self.is_other:
            return self._read(harness)
        pools = harness.shot_pools
        key = self.task.name, tuple((self.labels or {}).items())
        pool: ShotPool | None = pools.get(key)
        if pool is None:
            pool = pools[key] = self._read(harness)
        return pool

    def _read(self, harness: Harness) -> ShotPool:
        examples = [example for example in harness.examples(self.task, "train") if not example.hidden]
        if not examples:
            raise TaskError(
                f"all gold answers in the train split of {self.task.name} are hidden; leave out --num_fewshot"
            )
        if not self.is_other:
            return ShotPool(examples)
        kind = self.task.task_type
        if self.labels:
            examples = [kind.with_labels(example, self.labels) for example in examples]
        return ShotPool(examples, partial(text_keys, kind))


def text_keys(kind: TaskType[Example], example: Example) -> Iterator[Hashable]:
    """Yield what an example asks, and its text: another task groups its examples by something else."""
    yield from question_keys(example)
    if text := core_of(kind.query_text(example)):
        yield "query", text


# ---- which task ------------------------------------------------------------------------------------------------------


def shot_source(task: TaskSpec, config: RunConfig, harness: Harness) -> ShotSource:
    """Return the source of the solved examples of a task. No data are read.

    Raises:
        UnknownName: there is no task of the name that --fewshot_from gives.
        TaskError: there is no training split, or the other task is of another type or has other labels.
    """
    name = config.fewshot_from
    source = harness.catalogue.tasks.get(name) if name else task
    if "train" not in source.data:
        cure = f"name another task in {FLAG}" if name else f"give {FLAG} TASK, or leave out --num_fewshot"
        raise TaskError(f"{source.name} has no train split to take examples from; {cure}")
    if source.name == task.name:
        return ShotSource(task)
    if source.type != task.type:
        raise TaskError(
            f"{FLAG} {name}: its examples are {source.type}, but {task.name} is {task.type}; name a task of this type"
        )
    labels = label_names(source, task)
    return ShotSource(source, is_other=True, labels=labels if any(old != new for old, new in labels.items()) else None)


def label_names(source: TaskSpec, task: TaskSpec) -> dict[str, str]:
    """Return the label of a task by each label of another one.

    It is the label of the same name, else the one whose words include the other's words: a task that answers "No" and
    "Maybe" with non-entailment has the label of a neutral pair, whose word is "Maybe".

    Raises:
        TaskError: a label has no counterpart.
    """

    def words(spec: TaskSpec, label: str) -> set[str]:
        return set(spec.verbalizer.get(label, (label,)))

    names = {}
    for old in source.labels:
        candidates = [new for new in task.labels if words(source, old) <= words(task, new)]
        candidates = [old] if old in task.labels else candidates
        if len(candidates) != 1:
            raise TaskError(
                f"{FLAG} {source.name}: its label {old!r} has no counterpart among those of {task.name} "
                f"({', '.join(task.labels)}); name a task with these labels"
            )
        names[old] = candidates[0]
    return names


def check_shot_flags(config: RunConfig) -> None:
    """Raise `TaskError` if a flag about solved examples would have no effect."""
    if config.fewshot_sampler == "nearest" and (not config.num_fewshot or config.shots == "shared"):
        cure = "leave out --shots shared" if config.num_fewshot else "give --num_fewshot, or leave it out"
        raise TaskError(f"--fewshot_sampler nearest chooses examples for each question; {cure}")
    if config.fewshot_from and not config.num_fewshot:
        raise TaskError(
            f"{FLAG} {config.fewshot_from} shows no examples without --num_fewshot; give it, or leave it out"
        )
