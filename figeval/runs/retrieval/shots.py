"""Few-shot examples that are shown before a question: drawn at random, or the nearest ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from figeval.config import RunConfig
from figeval.errors import TaskError
from figeval.io.frontend import warn
from figeval.prompts import MAX_NAMED_IDS, Leaks, Shots, SolvedExamples
from figeval.runs.harness import Harness
from figeval.runs.retrieval.augmentation import Augmenter, retriever_of
from figeval.runs.retrieval.shot_pools import check_shot_flags, shot_source
from figeval.spec import TaskSpec
from figeval.types import JSON, Example

if TYPE_CHECKING:
    from figeval.runs.retrieval.neighbours import NearestExamples


@dataclass(frozen=True, slots=True)
class NearestShots:
    """The k nearest examples, the nearest one last, since the most recent example weighs most (Liu et al. 2022).

    A question without a query text (in the probe `no_query`) gets random examples.
    """

    neighbours: NearestExamples
    otherwise: Shots

    def before(self, question: Example) -> Sequence[Example]:
        """Return the examples to show before a question. Raises `TaskError` if there are too few."""
        return self.neighbours.of(question)[::-1] or self.otherwise.before(question)


@dataclass(frozen=True, slots=True)
class ShownShots:
    """Few-shot examples as prompts show them, augmented like the question but never with what gives away its answer."""

    chosen: Shots | NearestShots
    augment: Augmenter | None

    def before(self, question: Example) -> Sequence[Example]:
        """Return the examples to show before a question. Raises `TaskError` if there are too few."""
        if self.augment is None:
            return [shot.for_prompt() for shot in self.chosen.before(question)]
        question = self.augment.plain(question)
        return [self.augment(shot, question).for_prompt() for shot in self.chosen.before(question)]


def shots_of(
    task: TaskSpec,
    harness: Harness,
    config: RunConfig,
    augment: Augmenter | None = None,
    is_askable: Callable[[Example], bool] = lambda _example: True,
) -> SolvedExamples:
    """Return the few-shot examples of a task, taken from its pool (`shot_pools`).

    Examples that the route could not ask about, because they have more options than letters, are not shown either.

    Raises:
        TaskError: --num_fewshot is given but there is no training split, or one whose answers are all hidden; or a flag
            about solved examples would have no effect.
    """
    nearest = config.fewshot_sampler == "nearest"
    check_shot_flags(config)
    if not config.num_fewshot:
        return Shots((), 0, config.seed)
    source = shot_source(task, config, harness)
    pool = source.pool(harness).only(is_askable)
    if not pool.examples:
        raise TaskError(
            f"the route cannot show any example in the train split of {source.task.name}; leave out --num_fewshot"
        )
    if augment is not None:
        augment.neighbours.prepare(pool.examples)
    originals = partial(harness.examples, task)
    drawn = Shots(
        pool.examples,
        config.num_fewshot,
        config.seed,
        shared=config.shots == "shared",
        originals=originals,
        keys=pool.keys,
        index=pool.index,
    )
    if not nearest:
        return ShownShots(drawn, augment)
    from figeval.runs.retrieval.neighbours import NearestExamples

    neighbours = NearestExamples(
        task.task_type,
        partial(iter, pool.examples),
        retriever_of(task, config.augment, harness, config.device),
        config.num_fewshot,
        f"--num_fewshot {config.num_fewshot}",
        originals,
        adds_texts=source.is_other,  # a text of another task may be a part of the question, too
    )
    return ShownShots(NearestShots(neighbours, drawn), augment)


def shots_record(shots: SolvedExamples, questions: Callable[[], Iterable[Example]]) -> JSON:
    """Return the record of retrieved few-shot examples; empty for random ones.

    Whether every question has enough of them is known before a model is asked.

    Raises:
        TaskError: fewer than k examples may be shown before some questions.
    """
    if not isinstance(shots, ShownShots):
        return {}
    chosen = shots.chosen
    drawn = chosen if isinstance(chosen, Shots) else chosen.otherwise
    check_enough(drawn, questions())
    if isinstance(chosen, Shots):
        return {}
    neighbours = chosen.neighbours
    neighbours.prepare(questions())
    for remark in neighbours.remarks(questions(), "random examples are shown"):
        warn(remark)
    retriever = neighbours.retriever
    options = {"options": dict(retriever.options)} if retriever.options else {}
    description = {"retriever": retriever.name, **options, "model": retriever.fingerprint, "index": neighbours.digest}
    return {"fewshot_sampler": {"sampler": "nearest", **description}}


def check_enough(shots: Shots, questions: Iterable[Example]) -> None:
    """Raise `TaskError` if fewer than k examples may be shown before some of the questions."""
    room = Room(shots.leaks)
    for question in questions:
        room.add(question)
    if rows := room.below(shots.k):
        raise TaskError(
            f"--num_fewshot {shots.k} cannot be met for {rows}: examples that ask the same, and those of the "
            f"question's cluster, are never shown; {f'ask for {room.least} at most' if room.least else 'leave it out'}"
        )


@dataclass
class Room:
    """Counts how many solved examples may be shown before each question.

    Attributes:
        leaks: the solved examples, and those that may not be shown.
    """

    leaks: Leaks
    _rows: Counter[int] = field(default_factory=Counter)
    _names: dict[int, list[str]] = field(default_factory=dict)

    def add(self, question: Example) -> None:
        n = len(self.leaks.pool) - len(self.leaks.of(question))
        self._rows[n] += 1
        names = self._names.setdefault(n, [])
        if len(names) < MAX_NAMED_IDS:
            names.append(question.id)

    @property
    def rows(self) -> int:
        """The number of questions."""
        return self._rows.total()

    @property
    def least(self) -> int:
        """The largest number of examples that may be shown before every question."""
        return min(self._rows, default=len(self.leaks.pool))

    def count_below(self, k: int) -> int:
        """Return the number of questions before which fewer than k examples may be shown."""
        return sum(rows for n, rows in self._rows.items() if n < k)

    def below(self, k: int) -> str:
        """Return these questions, e.g. `6 of 60 test rows ('a', 'b', 'c', 'd', 'e', …)`; empty if there are none."""
        if not (count := self.count_below(k)):
            return ""
        names = [name for n in sorted(self._names) if n < k for name in self._names[n]][:MAX_NAMED_IDS]
        shown = ", ".join(f"{name!r:.80}" for name in names) + (", …" if count > MAX_NAMED_IDS else "")
        return f"{count:,} of {self.rows:,} test rows ({shown})"
