"""Nearest-neighbour search among training examples, excluding those that would give away the answer to a question.

The unit vectors of texts come from a frozen embedding model, and are kept in `FIGEVAL_HOME/indexes` (`vector_files`).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from figeval.errors import CapabilityError, DataError, ModelError, OptionNeeded, TaskError
from figeval.io.files import home
from figeval.io.frontend import notice
from figeval.io.text import one_line, pluralize
from figeval.language.questions import core_of, question_keys
from figeval.models.capabilities import ask
from figeval.models.model import Model, open_model
from figeval.prompts import MAX_NAMED_IDS, Leaks, too_few
from figeval.runs.harness import Harness
from figeval.runs.retrieval.vector_files import VectorFiles
from figeval.task_types.base import TaskType
from figeval.types import Example, Text

if TYPE_CHECKING:
    from figeval.runs.retrieval.vector_files import Vectors

BATCH = 128  # texts that are embedded together, and stored at once
PAUSE = 10.0  # seconds between two progress messages


@dataclass(frozen=True)
class Retriever:
    """An embedding model of the registry, opened on first use.

    Attributes:
        name: name of the model, as in `--model`.
        harness: registries that provide the model.
        device: device of the model, or None for the fastest one.
        options: options of the model, as in `--model_args`.
    """

    name: str
    harness: Harness
    device: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def model(self) -> Model:
        """The model.

        Raises:
            ModelError: there is no such model, or it has no such option or lacks one.
            CapabilityError: it cannot embed texts, or learns from the texts of a task.
        """
        try:
            opened = open_model(self.harness.backends, self.name, self.options, {"device": self.device})
        except OptionNeeded as error:
            raise ModelError(
                f"the retriever {self.name}: {error.problem}; options of the retriever stand beside it in --augment, "
                "e.g. pooling=mean"
            ) from error
        except ModelError as error:
            raise ModelError(f"the retriever {self.name}: {error}") from error
        if "embed" not in opened.offers:
            raise CapabilityError(
                f"the retriever {self.name} cannot embed texts; use an encoder such as minilm, or, if it is a model of "
                "words such as BERT, add pooling=mean to --augment"
            )
        if hasattr(opened.backend, "fit"):
            raise CapabilityError(
                f"the retriever {self.name} has to be fitted to each task; use an encoder such as minilm"
            )
        return opened

    @cached_property
    def fingerprint(self) -> str:
        """Digest that changes whenever a vector could change."""
        return self.model.fingerprint()

    @cached_property
    def files(self) -> VectorFiles:
        """The vectors that were computed before."""
        options = json.dumps(dict(self.options), sort_keys=True) if self.options else ""
        model = f"{self.fingerprint} {options}".strip()
        return VectorFiles(home() / "indexes" / hashlib.sha256(model.encode()).hexdigest()[:16], model)

    def vectors(self, texts: Sequence[str], noun: str = "texts") -> Vectors:
        """Return a vector for each text, from disk if they were computed before.

        A vector has the length 1, or 0 if the model has none for the text, e.g. because it knows no word of it.

        Args:
            texts: texts to embed.
            noun: name of the texts in progress messages.

        Raises:
            CapabilityError: the model cannot embed texts.
            DataError: the vectors cannot be stored, or one of them is not finite.
        """
        stored = self.files.read(texts)
        if stored is None:
            import numpy as np

            different = list(dict.fromkeys(texts))
            vectors_by_text = self.files.gather(different)
            missing = [text for text in different if text not in vectors_by_text]
            vectors_by_text |= self._by_batches(missing, noun)
            if len({vector.shape for vector in vectors_by_text.values()}) > 1:  # files of another model under this name
                vectors_by_text = self._by_batches(different, noun)
            stored = np.stack([vectors_by_text[text] for text in texts])
            if missing or len(texts) > BATCH:  # a few texts are found in the files of other lists as fast
                self.files.write(texts, stored)
                self.files.remove_parts(different)
        return stored

    def _by_batches(self, texts: Sequence[str], noun: str) -> dict[str, Vectors]:
        """Return computed vectors by text. Each of many batches is stored at once: an interrupt loses one at most."""
        vectors: dict[str, Vectors] = {}
        count = len(texts)
        if count > BATCH:
            notice(f"indexing {count} {noun} with {self.name} (once)")
        began = last_notice = time.monotonic()
        for begin in range(0, count, BATCH):
            batch = texts[begin : begin + BATCH]
            computed = self._computed(batch)
            if count > BATCH:
                self.files.write(batch, computed, part=True)
            vectors |= zip(batch, computed, strict=True)
            if (moment := time.monotonic()) - last_notice > PAUSE:
                last_notice = moment
                notice(f"indexing: {len(vectors)} of {count} {noun} after {moment - began:.0f} s")
        return vectors

    def _computed(self, texts: Sequence[str]) -> Vectors:
        """Return vectors computed by the model, of length 1; those that are zero or all NaN become zero."""
        import numpy as np

        values = ask(self.model.backend, [Text(text) for text in texts]).values
        rows = np.asarray(list(values), dtype=np.float32)
        rows[np.isnan(rows).all(axis=1)] = 0
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        broken = np.flatnonzero(~np.isfinite(lengths[:, 0]))
        if broken.size:
            raise DataError(
                f"the retriever {self.name} returned a vector with NaN or infinity for "
                f"{one_line(texts[broken[0]], 60)!r}; use another one"
            )
        return np.asarray(np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0), dtype=np.float32)


QUESTIONS = 1024  # questions that are embedded and stored together
CELLS = 1 << 25  # similarities that are in memory at once: 128 MB
INITIAL_COUNT = 256  # nearest examples that are sorted first; often enough, since few give away an answer
DECIMALS = 6  # similarities are rounded, since their last digits depend on the rest of the batch


@dataclass
class NearestExamples:
    """Solved examples ordered by cosine similarity to a question; ties keep the order of the split.

    Examples that would give away the answer to the question are left out (`Leaks`), as are those that ask about the
    same texts (`Example.asked`) with other options, and those with hidden answers. If a question has a language,
    examples in that language come first. An example without a vector, e.g. because the retriever knows no word of it,
    is no neighbour and has none.

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
        return self.retriever.files.digest(self.texts)

    @cached_property
    def _vectors(self) -> Vectors:
        return self.retriever.vectors(self.texts, "training examples")

    @cached_property
    def _unreadable(self) -> frozenset[int]:
        """The indexes of examples without a vector. Raises `DataError` if there are no others."""
        indexes = frozenset(index for index, vector in enumerate(self._vectors) if not vector.any())
        if len(indexes) == len(self.pool):
            raise DataError(
                f"the retriever {self.retriever.name} has no vector for any training example; use another one"
            )
        return indexes

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
            for example, vector, row in zip(chunk, vectors, rows, strict=True):
                indexes = self._nearest_indexes(example, row)
                self._nearest[self._key(example)] = indexes if vector.any() else ()

    def remarks(self, questions: Iterable[Example], outcome: str) -> Iterator[str]:
        """Yield a sentence about examples for which the retriever has no vector: questions, then training examples.

        Args:
            questions: examples whose neighbours were found (`prepare`).
            outcome: what follows for such a question.
        """
        nearest = {example.id: self._nearest.get(self._key(example)) for example in questions}
        isolated = [name for name, indexes in nearest.items() if indexes == ()]
        if isolated:
            names = _describe_ids(isolated, "example")
            yield f"the retriever {self.retriever.name} has no vector for {names}: {outcome}"
        if any(nearest.values()) and self._unreadable:
            hidden = [self.pool[index].id for index in sorted(self._unreadable)]
            names = _describe_ids(hidden, "training example")
            yield f"the retriever {self.retriever.name} has no vector for {names}: not retrieved"

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
        hidden = set(self._unreadable).union(*map(self.leaks.of, (question, *other_questions)))
        nearest = tuple(islice((index for index in order if index not in hidden), self.k))
        if len(nearest) < self.k:
            raise too_few(self.flag, question.id, len(nearest))
        return nearest


def _describe_ids(ids: Sequence[str], noun: str) -> str:
    """Return e.g. `6 examples ('a', 'b', 'c', 'd', 'e', …)`."""
    names = [f"{name!r:.80}" for name in ids[:MAX_NAMED_IDS]] + ["…"] * (len(ids) > MAX_NAMED_IDS)
    return f"{pluralize(len(ids), noun)} ({', '.join(names)})"


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
