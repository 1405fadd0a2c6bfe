"""Retrieval augmentation: texts of the nearest training examples are added to the input (Guan, Liu and Huang 2022).

Only the model sees the augmented example. Scores, rows and fingerprints are those of the original one, so runs with and
without augmentation can be compared pairwise.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from figeval.augmentation import Augmentation
from figeval.errors import TaskError
from figeval.runs.harness import Harness
from figeval.spec import TaskSpec
from figeval.types import JSON, Example

if TYPE_CHECKING:
    from figeval.language.content_words import ContentWords
    from figeval.runs.retrieval.neighbours import NearestExamples, Retriever

E = TypeVar("E", bound=Example)
FLAG = "--augment"
RETRIEVER = "minilm"  # used for nearest few-shot examples if `augment` names no retriever


def augmentation_of(task: TaskSpec, flag: Mapping[str, Any]) -> Augmentation | None:
    """Return the augmentation that the flag asks for, else that of the task file, or None if there is none."""
    augmentation = _augmentation(task, flag)
    return None if augmentation is None or augmentation.add == "none" else augmentation


def _augmentation(task: TaskSpec, flag: Mapping[str, Any]) -> Augmentation | None:
    settings = flag or task.augment
    return Augmentation.model_validate(dict(settings)) if settings else None


def retriever_of(task: TaskSpec, flag: Mapping[str, Any], harness: Harness, device: str | None = None) -> Retriever:
    """Return the retriever that `augment` names, even if it adds nothing, else the default one."""
    from figeval.runs.retrieval.neighbours import Retriever

    augmentation = _augmentation(task, flag)
    if augmentation is None:
        return Retriever(RETRIEVER, harness, device)
    return Retriever(augmentation.retriever, harness, device, augmentation.options)


@dataclass
class Augmenter:
    """Adds texts of their neighbours to the examples of one task.

    Attributes:
        task: task of the examples.
        wanted: settings of the augmentation.
        neighbours: index of the training examples.
    """

    task: TaskSpec
    wanted: Augmentation
    neighbours: NearestExamples
    _words: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict, repr=False)
    _finders: dict[str, ContentWords] = field(default_factory=dict, repr=False)
    _plain: dict[str, Example] = field(default_factory=dict, repr=False)

    def __call__(self, example: E, besides: Example | None = None) -> E:
        """Return the augmented example, or the example itself if there is nothing to add.

        Args:
            example: example to augment.
            besides: question before which the example is shown; neighbours that give away its answer are not used.

        Raises:
            TaskError: the task type cannot be augmented, there are too few neighbours, or they have no outline.
        """
        added = self.added(example, besides)
        if besides is None:
            self._plain[example.id] = example
        return self.task.task_type.augmented(example, added) if added else example

    def plain(self, example: Example) -> Example:
        """Return the original of an augmented question."""
        return self._plain.get(example.id, example)

    def retrieved(self, example: Example) -> list[str]:
        """Return the ids of the neighbours, the nearest first."""
        return [neighbour.id for neighbour in self.neighbours.of(example)]

    def added(self, example: Example, besides: Example | None = None) -> tuple[str, ...]:
        """Return the words or texts that are added to an example."""
        return tuple(text for neighbour in self.neighbours.of(example, besides) for text in self._held(neighbour))

    def record(self, examples: Iterable[Example]) -> JSON:
        """Return the record of the augmentation, with a digest of everything that is added to these examples.

        It is empty if nothing is added to any of them, e.g. for a probe that removes the query.
        """
        questions = list(examples)
        self.neighbours.prepare(questions)
        digest = hashlib.sha256()
        is_plain = True
        for example in questions:
            added = self.added(example)
            is_plain &= not added
            digest.update(json.dumps([example.id, added]).encode() + b"\n")
        if is_plain:
            return {}
        description: JSON = self.wanted.model_dump(by_alias=True, exclude=set(self.wanted.options))
        if self.wanted.options:
            description["options"] = dict(self.wanted.options)
        description |= {"model": self.neighbours.retriever.fingerprint, "index": self.neighbours.digest}
        if self._finders:
            description["words"] = {language: finder.identity for language, finder in sorted(self._finders.items())}
        return {**description, "sha256": digest.hexdigest()}

    def remarks(self, examples: Iterable[Example]) -> Iterator[str]:
        """Yield sentences about examples that cannot be augmented or retrieved."""
        yield from self.neighbours.remarks(examples, "nothing is added")

    def _held(self, neighbour: Example) -> Sequence[str]:
        kind = self.task.task_type
        if self.wanted.add == "outline":
            return kind.outline(neighbour)
        text = kind.answer_text(neighbour)
        if self.wanted.add == "neighbours":
            return (text,) if text.strip() else ()
        return self._content_words(text, neighbour.language or self.task.languages[0])

    def _content_words(self, text: str, language: str) -> tuple[str, ...]:
        """Return the content words of a text; those of all answers are found at once, as taggers are slow to load."""
        if language not in self._words:
            from figeval.language.content_words import content_words

            kind, finder = self.task.task_type, content_words(language)
            examples = [
                example for example in self.neighbours.pool if (example.language or self.task.languages[0]) == language
            ]
            texts = list(dict.fromkeys(kind.answer_text(example) for example in examples))
            self._words[language] = dict(zip(texts, finder.of(texts), strict=True))
            self._finders[language] = finder
        return self._words[language][text]


def augmenter(
    task: TaskSpec,
    flag: Mapping[str, Any],
    harness: Harness,
    device: str | None = None,
    pool: Sequence[Example] | None = None,
) -> Augmenter | None:
    """Return the augmenter of a task's examples, or None if they are not augmented.

    Args:
        task: task to augment.
        flag: value of `--augment`, which replaces that of the task.
        harness: registries that provide the data and the models.
        device: device of the retriever.
        pool: examples to retrieve, or None for the whole split.

    Raises:
        TaskError: the task lacks the split, its type cannot be augmented, or no example has an outline.
    """
    augmentation = augmentation_of(task, flag)
    if augmentation is None:
        return None
    if augmentation.split == "test":
        raise TaskError(f"{FLAG} from=test would reveal the answers to be predicted; retrieve from the train split")
    if pool is None and augmentation.split not in task.data:
        raise TaskError(
            f"{task.name} has no {augmentation.split} split to retrieve from; leave out {FLAG}, or name another"
        )
    if augmentation.add == "concepts":
        from figeval.language.content_words import content_words

        for language in task.languages:
            content_words(language)  # raises if the language is not supported, before anything is embedded
    from figeval.runs.retrieval.neighbours import NearestExamples

    source: Callable[[], Iterable[Example]] = partial(harness.examples, task, augmentation.split)
    neighbours = NearestExamples(
        task.task_type,
        source if pool is None else lambda: pool,
        retriever_of(task, flag, harness, device),
        augmentation.k,
        f"{FLAG} k={augmentation.k}",
        originals=partial(harness.examples, task) if pool is None else tuple,
        adds_texts=True,
    )
    first = neighbours.pool[0]
    task.task_type.augmented(first, ("",))  # raises if the task type cannot be augmented
    if augmentation.add == "outline" and not any(task.task_type.outline(example) for example in neighbours.pool):
        raise TaskError(f"{task.name} has no outlines to add; write add=concepts or add=neighbours")
    return Augmenter(task, augmentation, neighbours)
