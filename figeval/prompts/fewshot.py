"""The solved examples shown before the question."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from figeval.errors import TaskError
from figeval.types import Example


@dataclass(frozen=True, slots=True)
class Shots:
    """k examples of the training split, in a random order: one of its own for every question, from (seed, question
    id), or one `shared` by all, so that nearly all prompts begin alike and a model may compute that beginning once.

    Never one of the question's own cluster: a narrative of the same proverb would give the answer away.
    """

    pool: Sequence[Example]
    k: int
    seed: int
    shared: bool = False

    def before(self, question: Example) -> list[Example]:
        """The examples to show before this question.

        Raises:
            TaskError: fewer than k examples are left outside the question's cluster.
        """
        if not self.k:
            return []
        generator = random.Random(str(self.seed) if self.shared else f"{self.seed} {question.id}")
        order = generator.sample(range(len(self.pool)), len(self.pool))
        chosen: list[Example] = []
        for index in order:
            shot = self.pool[index]
            if shot.id != question.id and (shot.cluster is None or shot.cluster != question.cluster):
                chosen.append(shot)
                if len(chosen) == self.k:
                    return chosen
        raise TaskError(f"--num_fewshot {self.k} is more than the {len(chosen)} training examples of other clusters")
