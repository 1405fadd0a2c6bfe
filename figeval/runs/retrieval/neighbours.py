"""Nearest-neighbour search among training examples, excluding those that would give away the answer to a question."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from figeval.errors import TaskError
from figeval.language.questions import core_of, question_keys
from figeval.prompts import Leaks, too_few
from figeval.runs.retrieval.vectors import Retriever
from figeval.task_types.base import TaskType
from figeval.types import Example

if TYPE_CHECKING:
    from figeval.runs.retrieval.vectors import Vectors

QUESTIONS = 1024  # questions that are embedded and stored together
CELLS = 1 << 25  # similarities that are in memory at once: 128 MB
INITIAL_COUNT = 256  # nearest examples that are sorted first; often enough, since few give away an answer
DECIMALS = 6  # similarities are rounded, since their last digits depend on the rest of the batch


@dataclass
class NearestExamples:
    """Solved examples ordered by cosine similarity to a question; ties keep the order of the split.

    Examples that would give away the answer to the question are left out (`Leaks`), as are those that ask about the
    same texts (`Example.asked`) with other options, and those with hidden answers. If a question has a language,
    examples in that language come first.

    Attributes:
        task_type: task type, which defines the query text of an example.
        source: function that returns the examples of the split to search.
        retriever: model that embeds the texts.
        k: number of neighbours.
        flag: flag that error messages name, e.g. if there are fewer than k.
        originals: function that returns the questions as they stand in the data (`Leaks`).
        adds_texts: whether texts of the neighbours are added to the question. Neighbours with its query text are then
            left out even if their other texts differ: they would add its own.
    """

    task_type: TaskType[Any]
    source: Callable[[], Iterable[Example]]
    retriever: Retriever
    k: int
    flag: str
    originals: Callable[[], Iterable[Example]] = tuple
    adds_texts: bool = False
    _nearest: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict, repr=False)

    @cached_property
    def pool(self) -> list[Example]:
        """The examples that are searched. Raises `TaskError` if there are none, or none has a query text."""
        solved = [example for example in self.source() if not example.hidden]
        if not solved:
            raise TaskError(f"there are no examples with known answers to retrieve; leave out {self.flag}")
        pool = [example for example in solved if self.task_type.query_text(example).strip()]
        if not pool:
            raise TaskError(f"{self.task_type.name} tasks have no text to retrieve by; leave out {self.flag}")
        return pool

    @cached_property
    def texts(self) -> list[str]:
        """The query texts of the pool."""
        return [self.task_type.query_text(example) for example in self.pool]

    @cached_property
    def digest(self) -> str:
        """The name of the index, a digest of the retriever and all texts."""
        return self.retriever.digest(self.texts)

    @cached_property
    def _vectors(self) -> Vectors:
        return self.retriever.vectors(self.texts, "training examples")

    @cached_property
    def leaks(self) -> Leaks:
        """The examples that may not be shown before a question."""
        return Leaks(self.pool, self.originals, self._keys)

    def _keys(self, example: Example) -> Iterator[Hashable]:
        yield from question_keys(example)
        yield "asked", tuple(map(core_of, example.asked))
        if self.adds_texts:
            yield "query", core_of(self.task_type.query_text(example))

    def prepare(self, questions: Iterable[Example]) -> None:
        """Find the neighbours of many questions at once, which is faster than one after the other."""
        waiting = iter(self._new(questions))
        while chunk := list(islice(waiting, QUESTIONS)):
            vectors = self.retriever.vectors([self.task_type.query_text(example) for example in chunk], "questions")
            rows = chain.from_iterable(cosines_by_chunks(vectors, self._vectors))
            for example, row in zip(chunk, rows, strict=True):
                self._nearest[self._key(example)] = self._nearest_indexes(example, row)

    def of(self, question: Example, besides: Example | None = None) -> Sequence[Example]:
        """Return the k nearest examples, the nearest first, or none if the question has no query text.

        Args:
            question: example whose neighbours are wanted.
            besides: another question, before which this one is shown; its answer must not be given away either.

        Raises:
            TaskError: fewer than k examples are left.
        """
        text = self.task_type.query_text(question)
        if not text.strip():
            return ()
        if self._key(question) not in self._nearest:
            self.prepare([question])
        indexes = self._nearest[self._key(question)]
        if besides is not None and not self.leaks.of(besides).isdisjoint(indexes):
            indexes = self._nearest_indexes(question, (self.retriever.vectors([text]) @ self._vectors.T)[0], besides)
        return [self.pool[index] for index in indexes]

    def _new(self, questions: Iterable[Example]) -> Iterable[Example]:
        for example in questions:
            if self._key(example) not in self._nearest and self.task_type.query_text(example).strip():
                yield example

    def _key(self, question: Example) -> tuple[str, str]:
        return question.id, self.task_type.query_text(question)

    def _nearest_indexes(self, question: Example, similarities: Vectors, *other_questions: Example) -> tuple[int, ...]:
        order = nearest_first(similarities)
        if question.language:
            same = [example.language == question.language for example in self.pool]
            order = chain(
                nearest_first(similarities, same), nearest_first(similarities, [not is_same for is_same in same])
            )
        leaks = set[int]().union(*map(self.leaks.of, (question, *other_questions)))
        nearest = tuple(islice((index for index in order if index not in leaks), self.k))
        if len(nearest) < self.k:
            raise too_few(self.flag, question.id, len(nearest))
        return nearest


# ---- exact search ----------------------------------------------------------------------------------------------------


def cosines_by_chunks(questions: Vectors, pool: Vectors) -> Iterator[Vectors]:
    """Yield the similarities of unit vectors, shape (questions of a chunk, n); a chunk has at most `CELLS` of them."""
    step = max(1, CELLS // max(1, len(pool)))
    for begin in range(0, len(questions), step):
        yield questions[begin : begin + step] @ pool.T


def nearest_first(similarities: Vectors, among: Sequence[bool] | None = None) -> Iterator[int]:
    """Yield indexes in descending order of similarity, rounded; ties keep their order. `among` selects some.

    Only as many as are asked for are sorted, `INITIAL_COUNT` first and then eight times as many each time.
    """
    import numpy as np

    indexes = np.arange(len(similarities)) if among is None else np.flatnonzero(among)
    values = np.round(similarities[indexes], DECIMALS)
    count, done = INITIAL_COUNT, 0
    while done < len(values):
        bound = np.partition(values, -count)[-count] if count < len(values) else values.min()
        candidates = np.flatnonzero(values >= bound)
        order = candidates[np.argsort(-values[candidates], kind="stable")]
        yield from indexes[order[done:]].tolist()
        done, count = len(order), 8 * count
