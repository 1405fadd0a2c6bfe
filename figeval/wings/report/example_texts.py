"""The example texts of a report, which are read from the user's own data and never from a run folder."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from figeval import Example, FigevalError, Harness, TaskRecord, TaskSpec
from figeval.runs.stored import recorded_examples
from figeval.runs.task_info import LocalFiles
from figeval.wings.report.buckets import TextProperties, measure_texts

NON_COMMERCIAL = re.compile(r"\bNC\b|non-?commercial|excludes commercial", re.IGNORECASE)
NONE_STATED = "none stated"
COMMON_FIELDS = frozenset(each.name for each in dataclasses.fields(Example))
MAX_REPEATED_TEXTS = 8  # a list with more texts is stored once, because many examples may have the same one


@dataclass(slots=True)
class SampleTexts:
    """The texts of a task's examples, or the reason why there are none.

    Attributes:
        fields: field → its value for each example id: a text, a list of texts, or an index in `lists`.
        lists: long lists of texts, each once.
        options: field with the list that an index in a prediction refers to; empty if there is none.
        properties: length and overlap of each example by id.
        spans: right spans of the parts of a joint example by id, as [start, end] in `passage`.
        passage: field with the text that a pair of positions in a prediction refers to; empty if there is none.
        notice: sentence about the licence.
        retrieved: text of each training example that is an answer or was added to an input, by id.
        missing: reason why there are no texts.
    """

    fields: dict[str, dict[str, Any]] = field(default_factory=dict)
    lists: list[list[str]] = field(default_factory=list)
    properties: dict[str, TextProperties] = field(default_factory=dict)
    spans: dict[str, list[list[int]]] = field(default_factory=dict)
    options: str = ""
    passage: str = ""
    retrieved: dict[str, str] = field(default_factory=dict)
    notice: str = ""
    missing: str = ""


class ExampleTexts:
    """Reader of example texts. Only files on this machine are read; nothing is downloaded.

    Args:
        include: further folders with task files.
        allow_noncommercial: whether to return texts whose licence excludes commercial use.
    """

    def __init__(self, include: tuple[Path, ...] = (), *, allow_noncommercial: bool = False) -> None:
        self._allow = allow_noncommercial
        self._files = LocalFiles()
        self._harness = Harness(include=include, fetch=self._files)

    def of(self, task: TaskRecord, seed: int, ids: Collection[str], retrieved: Collection[str] = ()) -> SampleTexts:
        """Return the texts of some examples of a recorded task, if they are still the ones that the run was made on.

        Args:
            task: the task.
            seed: random seed of its run.
            ids: ids of the examples.
            retrieved: ids that training examples may have, whose texts are answers or were added to an input.
        """
        self._files.benchmarks.clear()
        try:
            variant, examples = recorded_examples(task, seed, self._harness)
            training_texts = self._training_texts(task, variant.task, retrieved)
            sources = self._files.sources(variant.task.owner)
            terms = {name: f"{benchmark.licence} {benchmark.note}" for name, benchmark in sources.items()}
            if refused := [name for name, text in terms.items() if not self._allow and is_noncommercial(text)]:
                return SampleTexts(
                    missing=f"the licence of {', '.join(refused)} excludes commercial use; --allow_noncommercial "
                    "includes them"
                )
            texts = SampleTexts(
                retrieved=training_texts,
                notice=_licence_notice({name: benchmark.licence for name, benchmark in sources.items()}),
            )
            kind = variant.task.task_type
            members, indices = frozenset(ids), dict[tuple[str, ...], int]()
            for example in examples:
                if example.id not in members:
                    continue
                if parts := getattr(example, "parts", ()):
                    texts.spans[example.id] = [[part.gold.start, part.gold.end] for part in parts if part.gold]
                in_language = variant.task.with_language(example)
                texts.properties[example.id] = measure_texts(in_language, kind.options, kind.gold_fields[0])
                right = kind.gold_fields if kind.gold_texts(example) else ()  # which stands in the stored rows
                for name, value in _text_fields(example, right):
                    texts.fields.setdefault(name, {})[example.id] = _index_long_list(value, indices)
        except FigevalError as error:
            return SampleTexts(missing=str(error))
        texts.lists = _restore_single_lists(texts.fields, list(indices))
        texts.options = next((name for name in (kind.options, "candidates") if name in texts.fields), "")
        texts.passage = "query" if texts.spans else "text" if "text" in texts.fields else ""
        return texts

    def _training_texts(self, record: TaskRecord, task: TaskSpec, ids: Collection[str]) -> dict[str, str]:
        """Return the answers of training examples, if the route or the augmentation of the run has taken some."""
        kind, added = task.task_type, record.settings.get("augment")
        splits = dict.fromkeys(
            [*(["train"] if is_retrieval(record) else []), *([added.get("from") or "train"] if added else [])]
        )
        return {
            example.id: kind.answer_text(example)
            for split in splits
            if split in task.data
            for example in self._harness.examples(task, split)
            if example.id in ids
        }


def is_retrieval(task: TaskRecord) -> bool:
    """Return whether the answers of a recorded task are ids of training examples, whose texts were retrieved."""
    kinds = Harness().task_types
    written_routes = kinds.get(task.task_type).written_routes if task.task_type in kinds else ()
    return bool(written_routes) and task.route not in written_routes


def is_noncommercial(terms: str) -> bool:
    """Return whether the licence of a benchmark, with the note on it, excludes commercial use."""
    return NON_COMMERCIAL.search(terms) is not None


def _licence_notice(licences: Mapping[str, str]) -> str:
    """Return a sentence on the licences of the texts in the page, by benchmark."""
    listing = "; ".join(f"{name}: {licence}" for name, licence in licences.items())
    if not listing:
        return ""
    is_unknown = any(licence.startswith(NONE_STATED) for licence in licences.values())
    return f"Licence of the texts: {listing}." + (" Without a licence, do not publish this page." if is_unknown else "")


def _text_fields(example: Example, hidden: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of an example that hold texts, without the gold answer; named inputs are fields as well."""
    for name in (each.name for each in dataclasses.fields(example)):
        value = getattr(example, name)
        if name in COMMON_FIELDS or (name in hidden and name != "references"):
            continue
        for key, text in value.items() if isinstance(value, Mapping) else [(name, value)]:
            is_list = isinstance(text, tuple) and text and all(isinstance(part, str) for part in text)
            if (isinstance(text, str) and text) or is_list:
                yield str(key), text


def _index_long_list(value: str | tuple[str, ...], indices: dict[tuple[str, ...], int]) -> Any:
    """Return a text or a short list as it is, and the index of a long list, to which a new one is added."""
    if isinstance(value, str):
        return value
    return indices.setdefault(value, len(indices)) if len(value) > MAX_REPEATED_TEXTS else list(value)


def _restore_single_lists(fields: Mapping[str, dict[str, Any]], lists: Sequence[tuple[str, ...]]) -> list[list[str]]:
    """Put lists that only one example has, such as its words, back into its field; return the others."""
    counts = Counter(value for column in fields.values() for value in column.values() if isinstance(value, int))
    repeated = [index for index, count in counts.items() if count > 1]
    new_indices = {index: number for number, index in enumerate(repeated)}
    for column in fields.values():
        for key, value in column.items():
            if isinstance(value, int):
                column[key] = new_indices.get(value, list(lists[value]))
    return [list(lists[index]) for index in repeated]
