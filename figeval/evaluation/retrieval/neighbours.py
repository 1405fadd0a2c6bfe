"""The training examples that are nearest to a question, never one that would give its answer away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from figeval.errors import TaskError
from figeval.evaluation.retrieval.vectors import Retriever
from figeval.task_types.base import TaskType
from figeval.types import Example, letters

if TYPE_CHECKING:
    from figeval.evaluation.retrieval.vectors import Vectors

CHUNK = 1024  # questions whose similarities to all training examples are in memory at once
DECIMALS = 6  # of a similarity: the last digits depend on what else was in the batch


@dataclass
class Neighbours:
    """Solved examples in the order of their cosine to a question; those that are equally near keep their own order.

    Left out are examples with the id of the question, those that ask the same up to punctuation and case, those of its
    cluster, and those whose answers are hidden. Of a task in several languages those in the language of the question
    come first.

    Attributes:
        task_type: says by which text examples are found.
        source: the examples of the split that is searched.
        retriever: embeds the texts.
        k: how many are wanted.
        flag: what to change where there are fewer, for messages.
    """

    task_type: TaskType[Any]
    source: Callable[[], Iterable[Example]]
    retriever: Retriever
    k: int
    flag: str
    _found: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict, repr=False)

    @cached_property
    def pool(self) -> list[Example]:
        """The examples that are searched. Raises `TaskError` if there is none, or none with a text to search by."""
        solved = [example for example in self.source() if not example.hidden]
        if not solved:
            raise TaskError(f"there is no solved example to retrieve; leave out {self.flag}")
        pool = [example for example in solved if self.task_type.query_text(example).strip()]
        if not pool:
            raise TaskError(f"{self.task_type.name} tasks have no text to retrieve by; leave out {self.flag}")
        return pool

    @cached_property
    def texts(self) -> list[str]:
        """The texts by which they are found."""
        return [self.task_type.query_text(example) for example in self.pool]

    @cached_property
    def digest(self) -> str:
        """The name of the index: over the retriever and all texts."""
        return self.retriever.digest(self.texts)

    @cached_property
    def _vectors(self) -> Vectors:
        return self.retriever.vectors(self.texts, "training examples")

    @cached_property
    def _wordings(self) -> list[tuple[Any, str]]:
        return list(map(self._wording, self.pool))

    def _wording(self, example: Example) -> tuple[Any, str]:
        """Return what an example asks and the text that it is found by, without punctuation and case."""
        return tuple(map(letters, example.asked)), letters(self.task_type.query_text(example))

    def prepare(self, questions: Iterable[Example]) -> None:
        """Find the neighbours of many questions at once, which takes less time than one after the other."""
        waiting = iter(self._new(questions))
        while chunk := list(islice(waiting, CHUNK)):
            vectors = self.retriever.vectors([self.task_type.query_text(example) for example in chunk], "questions")
            similarities = vectors @ self._vectors.T
            for example, row in zip(chunk, similarities, strict=True):
                self._found[self._key(example)] = self._places(example, row)

    def of(self, question: Example, besides: Example | None = None) -> Sequence[Example]:
        """Return the k nearest examples, the nearest first; none for a question without a text.

        Args:
            question: the example that they are near to.
            besides: Another example whose answer they must not give away: a question before which this one is shown.

        Raises:
            TaskError: fewer than k are left.
        """
        text = self.task_type.query_text(question)
        if not text.strip():
            return ()
        if self._key(question) not in self._found:
            self.prepare([question])
        found = self._found[self._key(question)]
        if besides is not None and any(map(self._gives_away(besides), found)):
            found = self._places(question, (self.retriever.vectors([text]) @ self._vectors.T)[0], besides)
        return [self.pool[place] for place in found]

    def _new(self, questions: Iterable[Example]) -> Iterable[Example]:
        for example in questions:
            if self._key(example) not in self._found and self.task_type.query_text(example).strip():
                yield example

    def _key(self, question: Example) -> tuple[str, str]:
        return question.id, self.task_type.query_text(question)

    def _places(self, question: Example, similarities: Any, *others: Example) -> tuple[int, ...]:
        import numpy as np

        order = np.argsort(-np.round(similarities, DECIMALS), kind="stable").tolist()
        if question.language:
            order.sort(key=lambda place: self.pool[place].language != question.language)
        left_out = [self._gives_away(example) for example in (question, *others)]
        found: list[int] = []
        for place in order:
            if not any(gives_away(place) for gives_away in left_out):
                found.append(place)
                if len(found) == self.k:
                    return tuple(found)
        raise TaskError(
            f"{self.flag} is more than the {len(found)} training examples that are left for {question.id!r:.80}, "
            "without its own cluster; ask for fewer"
        )

    def _gives_away(self, question: Example) -> Callable[[int], bool]:
        """Return what tells whether the example at a place of the pool asks the same, or has the cluster."""
        asked, text = self._wording(question)

        def gives_away(place: int) -> bool:
            other, (other_asked, other_text) = self.pool[place], self._wordings[place]
            same = other.id == question.id or other_asked == asked or other_text == text
            return same or (other.cluster is not None and other.cluster == question.cluster)

        return gives_away
