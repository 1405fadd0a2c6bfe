"""The solved examples shown before the question."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from figeval.errors import TaskError
from figeval.types import Example


@dataclass(frozen=True, slots=True)
class Shots:
    """k examples of the training split, drawn anew for every question from (seed, question id).

    Never one of the question's own cluster: a narrative of the same proverb would give the answer away.
    """

    pool: Sequence[Example]
    k: int
    seed: int

    def before(self, question: Example) -> list[Example]:
        """The examples to show before this question.

        Raises:
            TaskError: fewer than k examples are left outside the question's cluster.
        """
        if not self.k:
            return []
        generator = random.Random(f"{self.seed} {question.id}")
        order = generator.sample(range(len(self.pool)), len(self.pool))
        chosen = []
        for index in order:
            shot = self.pool[index]
            if shot.id != question.id and (shot.cluster is None or shot.cluster != question.cluster):
                chosen.append(shot)
                if len(chosen) == self.k:
                    return chosen
        raise TaskError(f"--num_fewshot {self.k} is more than the {len(chosen)} training examples of other clusters")
