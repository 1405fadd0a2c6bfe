"""Few-shot examples that are shown before a question: drawn at random, or the nearest ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from figeval.config import RunConfig
from figeval.errors import TaskError
from figeval.evaluation.harness import Harness
from figeval.evaluation.retrieval.augmentation import Augmenter, retriever_of
from figeval.evaluation.retrieval.neighbours import NearestExamples
from figeval.prompts import Shots, SolvedExamples
from figeval.spec import TaskSpec
from figeval.types import JSON, Example


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
            return [one.for_prompt() for one in self.chosen.before(question)]
        question = self.augment.plain(question)
        return [self.augment(one, question).for_prompt() for one in self.chosen.before(question)]


def shots_of(task: TaskSpec, harness: Harness, config: RunConfig, augment: Augmenter | None = None) -> SolvedExamples:
    """Return the few-shot examples of a task, taken from the examples in its training split with visible answers.

    Raises:
        TaskError: --num_fewshot is given but the task has no training split, or one whose answers are all hidden; or
            --fewshot_sampler would have no effect.
    """
    nearest = config.fewshot_sampler == "nearest"
    if nearest and (not config.num_fewshot or config.shots == "shared"):
        cure = "leave out --shots shared" if config.num_fewshot else "give --num_fewshot, or leave it out"
        raise TaskError(f"--fewshot_sampler nearest chooses examples for each question; {cure}")
    if not config.num_fewshot:
        return Shots((), 0, config.seed)
    if "train" not in task.data:
        raise TaskError(f"{task.name} has no train split to take examples from; leave out --num_fewshot")
    pool = [example for example in harness.examples(task, "train") if not example.hidden]
    if not pool:
        raise TaskError(f"all gold answers in the train split of {task.name} are hidden; leave out --num_fewshot")
    if augment is not None:
        augment.neighbours.prepare(pool)
    drawn = Shots(pool, config.num_fewshot, config.seed, shared=config.shots == "shared")
    if not nearest:
        return ShownShots(drawn, augment)
    neighbours = NearestExamples(
        task.task_type,
        partial(iter, pool),
        retriever_of(task, config.augment, harness, config.device),
        config.num_fewshot,
        f"--num_fewshot {config.num_fewshot}",
    )
    return ShownShots(NearestShots(neighbours, drawn), augment)


def shots_record(shots: SolvedExamples, questions: Callable[[], Iterable[Example]]) -> JSON:
    """Return the record of retrieved few-shot examples, after finding those of all questions; empty for random ones."""
    if not isinstance(shots, ShownShots) or not isinstance(shots.chosen, NearestShots):
        return {}
    neighbours = shots.chosen.neighbours
    neighbours.prepare(questions())
    retriever = neighbours.retriever
    told = {"retriever": retriever.name, "model": retriever.fingerprint, "index": neighbours.digest}
    return {"fewshot_sampler": {"sampler": "nearest", **told}}
